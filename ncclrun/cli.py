"""The command line: options in, events to a view, one place for errors and exit codes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from ncclrun.commands.control import Control
    from ncclrun.model.cluster import ClusterSpec
    from ncclrun.model.events import Event
    from ncclrun.transport.base import Transport

app = typer.Typer(
    name="ncclrun",
    help="Start one distributed training job on several GPU machines over SSH, and nothing else.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_asked_for_json = False


def _note_json(asked: bool) -> bool:
    """Errors that come before the events have to know how to be told."""
    global _asked_for_json  # noqa: PLW0603  # one command line a process
    _asked_for_json = asked
    return asked


HOSTS = typer.Option("--hosts", help="Hosts in place of CLUSTER: a,b,user@c:2222,gpu[1-4].", metavar="LIST")
NODES = typer.Option("--nodes", help="Only these nodes: names, ranges, indexes, !x to leave out.", metavar="SEL")
JSON = typer.Option("--json", help="One JSON event a line on stdout.", callback=_note_json)
ASK_PASS = typer.Option("--ask-pass", help="Ask once for the SSH password of all hosts (or set NCCLRUN_SSH_PASSWORD).")
OPEN_RUN = typer.Argument(metavar="[RUN]", help="Run id; by default the last that has not ended.")
HTML = typer.Option("--html", help="Write all of it as one self-contained page.", metavar="FILE", dir_okay=False)
CLUSTER = typer.Argument(help="Cluster file (YAML) or hostfile.", metavar="CLUSTER", show_default=False)

LEAVE_LEVEL = 3
"""The press that leaves (``Control.level``)."""
LEAVE_SECONDS = 5.0
"""From that press until the process ends without having said what is left where."""


class LaunchCommand(TyperCommand):
    """Takes options before CLUSTER and between CLUSTER and SCRIPT; what follows SCRIPT is the script's own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Moves the options behind CLUSTER before it, since parsing stops at the first word that is none."""
        ctx.allow_interspersed_args = False
        parser = self.make_parser(ctx)
        options, _, _ = parser.parse_args(args=list(args))
        rest = list(options.get("words") or ())
        if rest[1:] and rest[0].endswith(".py") and "hosts" not in options:
            from ncclrun.model.errors import UsageError

            fix = f"ncclrun launch CLUSTER {rest[0]} …"
            raise UsageError(f"{rest[0]} is a script, not a cluster file, which comes first", fix=fix)
        if rest and "hosts" not in options:
            script = parser.parse_args(args=rest[1:])[0].get("words") or ()
            before, between = args[: len(args) - len(rest)], rest[1 : len(rest) - len(script)]
            args = [*before, *between, rest[0], *script]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words as a person reads them."""
        return ["[OPTIONS]", "CLUSTER", "SCRIPT", "[ARGS]..."]


@app.command(cls=LaunchCommand)
def launch(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="CLUSTER SCRIPT [ARGS]", help="CLUSTER is left out with --hosts.")
    ] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    module: Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a Python module, as in python -m.")] = False,
    launcher: Annotated[
        str, typer.Option(help="torchrun, or exec: any command, once a rank.", metavar="torchrun|exec")
    ] = "torchrun",
    nodes: Annotated[str | None, NODES] = None,
    nproc_per_node: Annotated[str | None, typer.Option(help="Workers a node.", metavar="N|auto")] = None,
    master_port: Annotated[str | None, typer.Option(help="Port on node 0.", metavar="PORT|auto")] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", help="K=V sets it for all workers, K passes on this shell's value.", metavar="K[=V]"),
    ] = None,
    workdir: Annotated[str | None, typer.Option(help="Directory that the nodes have; nothing is sent.")] = None,
    python: Annotated[str | None, typer.Option(help="The training's Python on the nodes.")] = None,
    run_id: Annotated[str | None, typer.Option(help="Name of the run; by default made of the time.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and start nothing.")] = False,
    json: Annotated[bool, JSON] = False,
    ranks: Annotated[str | None, typer.Option(help="Ranks to print (0, 0-3, !5); all are kept.", metavar="SEL")] = None,
    grace: Annotated[float | None, typer.Option(help="Seconds between SIGTERM and SIGKILL.", min=0, max=3600)] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Stop the run after so many seconds (exit code 124).", min=0.001)
    ] = None,
    no_sync: Annotated[
        bool, typer.Option("--no-sync", help="Send nothing: the nodes have this directory under the same path.")
    ] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Run a script on all nodes of a cluster.

    What follows SCRIPT is its own, byte for byte.
    """
    import os

    from ncclrun.commands.launch import Launch
    from ncclrun.commands.options import job_from_options
    from ncclrun.model.errors import UsageError
    from ncclrun.planning.hostlist import check_ranks

    rest = list(words or [])
    cluster_word = None if hosts is not None else (rest.pop(0) if rest else None)
    if not rest:
        raise UsageError(
            "launch needs a cluster and a script",
            fix="ncclrun launch CLUSTER SCRIPT [ARGS]…   or   ncclrun launch --hosts a,b SCRIPT [ARGS]…",
        )
    if ranks is not None:
        check_ranks(ranks)
    cluster = _cluster(cluster_word, hosts, nodes)
    job = job_from_options(
        program=rest[0],
        args=tuple(rest[1:]),
        module=module,
        launcher=launcher,
        nproc_per_node=nproc_per_node,
        master_port=master_port,
        env=env or [],
        environ=os.environ,
        workdir=workdir,
        python=python,
        run_id=run_id,
        grace=grace,
        timeout=timeout,
        sync=not no_sync,
    )
    with _signals() as control, _transport(ask_pass, cluster) as transport:
        command = Launch(cluster, job, transport, control, os.environ, dry_run=dry_run)
        _show(command.events(), json=json, ranks=ranks, plan=dry_run, unread=True)


@app.command()
def ping(
    cluster: Annotated[str | None, CLUSTER] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    nodes: Annotated[str | None, NODES] = None,
    bandwidth: Annotated[
        bool, typer.Option("--bandwidth", help="Measure the TCP throughput of every pair, both ways.")
    ] = False,
    deep: Annotated[
        bool, typer.Option("--deep", help="The same, and slow pairs again with the best nodes: node or link?")
    ] = False,
    seconds: Annotated[float, typer.Option(help="Seconds a measurement.", min=0.1, max=30)] = 1.0,
    streams: Annotated[int, typer.Option(help="TCP connections a measurement.", min=1, max=16)] = 4,
    html: Annotated[Path | None, HTML] = None,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Is every node reachable and fit, and what joins them?

    Exit code 1 if one is not, with the reason and the command that mends it.
    """
    import os

    from ncclrun.commands.ping import Bandwidth, Ping

    spec = _cluster(cluster, hosts, nodes)
    wanted = Bandwidth(seconds=seconds, streams=streams, deep=deep) if bandwidth or deep else None
    with _signals() as control, _transport(ask_pass, spec) as transport:
        events = Ping(spec, transport, control, os.environ, bandwidth=wanted).events()
        _show(events, json=json, page=_Page(html, f"ncclrun ping {spec.source}"))


@app.command()
def resolve(
    cluster: Annotated[str | None, CLUSTER] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    nodes: Annotated[str | None, NODES] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Put interface and address of each node into the cluster file.")
    ] = False,
    html: Annotated[Path | None, HTML] = None,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Which network joins the nodes, and what proves it?

    Every node tries every address of the others. Exit code 3 if no network joins them all.
    """
    import os

    from ncclrun.commands.resolve import resolve as command
    from ncclrun.commands.rewrite import Rewrite

    spec = _cluster(cluster, hosts, nodes)
    # What can't be written is said before the work, not after it.
    rewrite = Rewrite(cluster) if write else None
    with _signals() as control, _transport(ask_pass, spec) as transport:
        events = command(spec, transport, control, os.environ, write=rewrite)
        _show(events, json=json, page=_Page(html, f"ncclrun resolve {spec.source}"))


@app.command()
def logs(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Run id; the last run by default.")] = None,
    node: Annotated[str | None, typer.Option(help="Only this node: its node_rank or name.", metavar="K|NAME")] = None,
    rank: Annotated[
        str | None, typer.Option("--rank", "--ranks", help="Only these global ranks (0, 0-3, !5).", metavar="SEL")
    ] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on while the run does.")] = False,
    tail: Annotated[int | None, typer.Option(help="Only the last N lines of each stream.", min=0)] = None,
    stream: Annotated[str | None, typer.Option(help="Only stdout or only stderr.", metavar="out|err")] = None,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Show a run's output again, or while it runs."""
    from ncclrun.commands.logs import read_logs
    from ncclrun.commands.options import stream_option

    with _signals() as control, _transport(ask_pass, None) as transport:
        events = read_logs(
            run, transport, control, node=node, ranks=rank, stream=stream_option(stream), tail=tail, follow=follow
        )
        _show(events, json=json)


@app.command()
def stop(
    run: Annotated[str | None, OPEN_RUN] = None,
    kill: Annotated[bool, typer.Option("--kill", help="SIGKILL at once, without the grace.")] = False,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Stop a run on all its nodes.

    Waits until each node says that nothing of it lives there.
    """
    from ncclrun.commands.history import find_run
    from ncclrun.commands.rejoin import stop as command

    with _signals() as control, _transport(ask_pass, None) as transport:
        _show(command(find_run(run, going=True), transport, control, kill=kill), json=json)


@app.command()
def attach(
    run: Annotated[str | None, OPEN_RUN] = None,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Follow a run whose ncclrun is gone.

    Its logs go on where they ended here, and the exit code is the run's. Ctrl-C stops the run.
    """
    from ncclrun.commands.history import find_run
    from ncclrun.commands.rejoin import attach as command

    with _signals() as control, _transport(ask_pass, None) as transport:
        _show(command(find_run(run, going=True), transport, control), json=json)


@app.command()
def trust(
    cluster: Annotated[str | None, CLUSTER] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    nodes: Annotated[str | None, NODES] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Accept the hosts' keys.

    Fetches them, shows the fingerprints, asks, and writes known_hosts.
    """
    from ncclrun.commands import trust as command
    from ncclrun.console import access
    from ncclrun.console.output import Output
    from ncclrun.transport.ssh import SshTransport

    spec = _cluster(cluster, hosts, nodes)
    with closing(SshTransport(cluster=spec.source)) as transport:
        code = access.trust(
            lambda: command.scan(spec, transport),
            lambda shown: command.accept(shown, transport, cluster=spec.source),
            Output(sys.stdout),
            yes=yes,
            colors=sys.stdout.isatty(),
        )
    raise typer.Exit(code)


@app.command()
def keys(
    cluster: Annotated[str | None, CLUSTER] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    nodes: Annotated[str | None, NODES] = None,
    public_key: Annotated[
        Path | None, typer.Option("--key", help="Public key file; by default the one that SSH would use.")
    ] = None,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Install your public key on all hosts.

    Then the next call needs no password.
    """
    from ncclrun.commands.keys import install, read_key
    from ncclrun.console import access
    from ncclrun.console.output import Output

    spec = _cluster(cluster, hosts, nodes)
    key = None if public_key is None else read_key(public_key)
    with _signals() as control, _transport(ask_pass, spec) as transport:
        answers = install(spec, transport, cancelled=control.stopped, key=key)
        raise typer.Exit(access.keys(answers, Output(sys.stdout), colors=sys.stdout.isatty()))


@app.command()
def schema() -> None:
    """Print the JSON schema of the cluster file."""
    import json as json_module

    from ncclrun.commands.schema import cluster_schema
    from ncclrun.console.output import Output

    Output(sys.stdout).write(json_module.dumps(cluster_schema(), indent=2) + "\n")


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False) -> None:
    """What is common to all commands."""
    if show:
        from importlib.metadata import version as installed

        typer.echo(f"ncclrun {installed('ncclrun')}")
        raise typer.Exit


def main() -> None:
    """The entry point: every error that a user may meet becomes a message and an exit code here, and nowhere else."""
    from ncclrun.model.errors import NcclrunError

    _open_what_is_closed()
    try:
        code = app(standalone_mode=False)
    except NcclrunError as error:
        code = error.exit_code
        if not isinstance(error.__cause__, BrokenPipeError):  # `| head` has seen what it wanted
            _tell(error.message, error.fix)
            _tell_programs(error.message, error.fix, code, asked=_asked_for_json)
    except _WRONG_WORDS as error:
        code = error.exit_code
        error.show()
        # Words that can't be told apart: `--json` may be one of the script's, and then it does no harm.
        _tell_programs(error.format_message(), "", code, asked="--json" in sys.argv)
    except typer.Abort:
        code = 130
    sys.exit(code if isinstance(code, int) else 0)


# typer's own refusal of a command line: its class is click's in older versions and typer's own in newer ones.
_WRONG_WORDS: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _open_what_is_closed() -> None:
    """Gives a standard stream that the caller closed (`>&-`) its number back, before a connection takes it."""
    import os

    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115


def _tell_programs(message: str, fix: str, code: int, *, asked: bool) -> None:
    """The same for who reads `--json`: an `error`, and the `end` with which every output closes."""
    if not asked:
        return
    from ncclrun.console.jsonl import json_lines
    from ncclrun.console.output import Output, OutputClosed
    from ncclrun.model.events import Ended, Failure

    failure = Failure(message=message, fix=fix, exit_code=code)
    end = Ended(run_id="", exit_code=code, reason=message.split("\n", maxsplit=1)[0], seconds=0.0)
    with suppress(OutputClosed):  # stderr has it
        Output(sys.stdout).write(json_lines(failure) + json_lines(end))


def _tell(message: str, fix: str) -> None:
    from ncclrun.console.notes import problem, render

    sys.stderr.write(render(problem("error", message, fix), colors=sys.stderr.isatty()))


def _cluster(cluster: str | None, hosts: str | None, nodes: str | None) -> ClusterSpec:
    from ncclrun.commands.options import only_nodes
    from ncclrun.commands.source import load_cluster

    return only_nodes(load_cluster(cluster, hosts), nodes)


@contextmanager
def _transport(ask_pass: bool, cluster: ClusterSpec | None) -> Iterator[Transport]:
    import os

    from ncclrun.transport.fleet import make_transport

    password = os.environ.get("NCCLRUN_SSH_PASSWORD")
    if ask_pass:
        from ncclrun.console.access import ask_password

        password = ask_password()
    transport = make_transport(password, cluster=cluster.source if cluster else "CLUSTER")
    try:
        yield transport
    finally:
        transport.close()


@contextmanager
def _signals() -> Iterator[Control]:
    """Ctrl-C and SIGTERM ask for a stop; a closed terminal (SIGHUP) leaves the run going.

    Once the verdict is there they change nothing any more: the exit code is the run's. What the caller ignores stays
    ignored: `nohup`, and Ctrl-C for a shell's background job.
    """
    import os
    import threading

    from ncclrun.commands.control import Control
    from ncclrun.model.errors import EXIT_INTERRUPTED

    control = Control()

    def stop(*_: object) -> None:
        control.press()
        if control.level == LEAVE_LEVEL:
            # Who wants to leave does so, also when a terminal that takes nothing (Ctrl-S) or a dead link holds us up.
            leaving = threading.Timer(LEAVE_SECONDS, os._exit, [EXIT_INTERRUPTED])
            leaving.daemon = True
            leaving.start()

    def leave(*_: object) -> None:
        control.detach = True

    handlers = {signal.SIGINT: stop, signal.SIGTERM: stop, signal.SIGHUP: leave}
    heard = {number: handler for number, handler in handlers.items() if signal.getsignal(number) != signal.SIG_IGN}
    for number, handler in heard.items():
        signal.signal(number, handler)
    try:
        yield control
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_IGN)


class _Page:
    """The events of a command as a page (`--html`), if there is to be one."""

    def __init__(self, path: Path | None, title: str) -> None:
        self._path = path
        self._title = title
        self._events: list[Event] = []
        if path is not None:
            from ncclrun.console.page import refuse_unwritable

            refuse_unwritable(path)

    def add(self, event: Event) -> None:
        """Takes one event."""
        if self._path is not None:
            self._events.append(event)

    def write(self) -> None:
        """Writes the file, if there is one to write."""
        if self._path is not None:
            from ncclrun.console.page import write_page

            write_page(self._path, self._title, self._events)


def _show(
    events: Iterator[Event],
    *,
    json: bool,
    ranks: str | None = None,
    plan: bool = False,
    unread: bool = False,
    page: _Page | None = None,
) -> None:
    """Shows every event and leaves with the exit code of the last one.

    ``unread``: what the command does goes on when nobody reads our output any more (``| head``). ``page`` takes the
    events too and is written at the end.
    """
    from ncclrun.console.output import OutputClosed
    from ncclrun.console.view import make_view
    from ncclrun.model.events import Ended

    code = 0
    view = make_view(sys.stdout, sys.stderr, json=json, ranks=ranks, plan=plan)
    with closing(view):
        for event in events:
            if page is not None:
                page.add(event)
            try:
                view.show(event)
            except OutputClosed:
                if not unread:
                    raise
            if isinstance(event, Ended):
                code = event.exit_code
    if page is not None:
        page.write()
    raise typer.Exit(code)
