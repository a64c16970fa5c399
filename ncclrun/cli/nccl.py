"""`ncclrun nccl …`: NCCL's settings known, checked, shown, delivered and undone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ncclrun.cli.nccllint import lint
from ncclrun.cli.ncclvars import vars_
from ncclrun.cli.options import ASK_PASS, CLUSTER, HOSTS, JSON, NODES
from ncclrun.cli.running import find_cluster, open_transport, show, signals, tell

if TYPE_CHECKING:
    from ncclrun.commands.confchange import Change
    from ncclrun.commands.control import Control
    from ncclrun.model.cluster import ClusterSpec, Lasting

app = typer.Typer(
    name="nccl",
    help="NCCL's settings: known, checked, shown, put into conf files, and undone.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

app.command("vars")(vars_)
app.command()(lint)

TO = typer.Option(
    "--to", help="user: ~/.nccl.conf, system: /etc/nccl.conf; by default as nccl.deliver says.", metavar="user|system"
)
DISCARD = typer.Option(
    "--discard-edits", help="Replace our lines also where somebody edited them; the file as it is is kept beside it."
)
YES = typer.Option("--yes", "-y", help="Do not ask.")


@app.command("show")
def show_settings(
    cluster: Annotated[str | None, CLUSTER] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    nodes: Annotated[str | None, NODES] = None,
    all_: Annotated[bool, typer.Option("--all", help="With the defaults of what nobody sets.")] = False,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """What NCCL will go by on every node, from where, and what that hides."""
    import os

    from ncclrun.commands.shownccl import show_nccl

    spec = find_cluster(cluster, hosts, nodes)
    with signals() as control, open_transport(ask_pass, spec) as transport:
        show(show_nccl(spec, transport, control, os.environ, defaults=all_), control, json=json)


@app.command()
def push(
    cluster: Annotated[str | None, CLUSTER] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    nodes: Annotated[str | None, NODES] = None,
    to: Annotated[str | None, TO] = None,
    discard_edits: Annotated[bool, DISCARD] = False,
    yes: Annotated[bool, YES] = False,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Put the network choice and nccl.env into a conf file of every node.

    Shows the difference and asks. All nodes are changed or none, and NCCL itself confirms it.
    """
    import os

    from ncclrun.commands.push import Push

    spec = find_cluster(cluster, hosts, nodes)
    deliver = _deliver(spec, to)
    with signals() as control, open_transport(ask_pass, spec) as transport:
        change = Push(spec, transport, control, os.environ, deliver, discard_edits=discard_edits)
        _change(change, control, yes=yes, json=json)


@app.command()
def diff(
    cluster: Annotated[str | None, CLUSTER] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    nodes: Annotated[str | None, NODES] = None,
    to: Annotated[str | None, TO] = None,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """What `nccl push` would change on every node.

    Exit code 0 where nothing would, 1 where something would.
    """
    import os

    from ncclrun.commands.push import Push

    spec = find_cluster(cluster, hosts, nodes)
    deliver = _deliver(spec, to)
    with (
        signals() as control,
        open_transport(ask_pass, spec) as transport,
        Push(spec, transport, control, os.environ, deliver) as change,
    ):
        show(change.compare_alone(), control, json=json)


@app.command()
def restore(
    cluster: Annotated[str | None, CLUSTER] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    nodes: Annotated[str | None, NODES] = None,
    to: Annotated[str | None, TO] = None,
    keep_edits: Annotated[
        bool, typer.Option("--keep-edits", help="Where somebody edited the file since, take only our lines out.")
    ] = False,
    discard_edits: Annotated[bool, DISCARD] = False,
    yes: Annotated[bool, YES] = False,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Bring back every node's conf file as it was before the first push.

    Refused where somebody has edited it since.
    """
    import os

    from ncclrun.commands.restore import Restore

    spec = find_cluster(cluster, hosts, nodes)
    deliver = _deliver(spec, to)
    with signals() as control, open_transport(ask_pass, spec) as transport:
        change = Restore(
            spec, transport, control, os.environ, deliver, keep_edits=keep_edits, discard_edits=discard_edits
        )
        _change(change, control, yes=yes, json=json)


def _change(change: Change, control: Control, *, yes: bool, json: bool) -> None:
    """Shows the difference, asks, changes."""
    from ncclrun.console.output import Output
    from ncclrun.console.question import confirm

    with change:
        code = tell(change.compare(), control, json=json)
        if code is not None:
            raise typer.Exit(code)
        if not yes:
            out = Output(sys.stderr if json else sys.stdout)
            confirm("Change these files?", out, nothing="nothing was changed", first="look at the difference")
        show(change.apply(), control, json=json)


def _deliver(spec: ClusterSpec, to: str | None) -> Lasting:
    """Which file; raises UsageError where neither the option nor the cluster file names one."""
    from ncclrun.model.errors import UsageError

    wanted = to or spec.nccl.deliver
    if wanted in ("user", "system"):
        return "user" if wanted == "user" else "system"
    if to is not None:
        raise UsageError(f"--to {to} is none of user and system", fix="--to user   or   --to system")
    raise UsageError(
        f"nccl.deliver is {wanted}: nothing is kept in a conf file of the nodes",
        fix="say which file is meant:  --to user  (~/.nccl.conf) or  --to system  (/etc/nccl.conf), or for good:\n"
        "nccl: {deliver: user}  in the cluster file",
    )
