"""`ncclrun logs`, `ncclrun stop` and `ncclrun attach`: what is done with a run that was started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ncclrun.cli.options import ASK_PASS, JSON, OPEN_RUN, RUN_CLUSTER, STALL, STALL_ACTION
from ncclrun.cli.running import find_cluster, open_transport, show, signals

if TYPE_CHECKING:
    from ncclrun.commands.control import Control
    from ncclrun.commands.history import RunDir
    from ncclrun.model.cluster import ClusterSpec
    from ncclrun.transport.base import Transport


def cluster_of(file: str | None) -> ClusterSpec | None:
    return None if file is None else find_cluster(file, None, None)


def run_of(run: str | None, cluster: ClusterSpec | None, transport: Transport, control: Control) -> RunDir:
    """The run that is meant, as it is known here, or as its nodes know it."""
    from ncclrun.commands.elsewhere import find_one
    from ncclrun.commands.history import RunDir, find_run

    if cluster is None:
        return find_run(run, going=True)
    found = find_one(cluster, transport, control, run)
    return RunDir.adopt(found.run_id, found.record)


def logs(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Run id; the last run by default.")] = None,
    node: Annotated[str | None, typer.Option(help="Only this node: its node_rank or name.", metavar="K|NAME")] = None,
    rank: Annotated[
        str | None, typer.Option("--rank", "--ranks", help="Only these global ranks (0, 0-3, !5).", metavar="SEL")
    ] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on while the run does.")] = False,
    tail: Annotated[int | None, typer.Option(help="Only the last N lines of each stream.", min=0)] = None,
    stream: Annotated[str | None, typer.Option(help="Only stdout or only stderr.", metavar="out|err")] = None,
    cluster: Annotated[str | None, RUN_CLUSTER] = None,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Show a run's output again, or while it runs."""
    from ncclrun.commands.logs import read_logs
    from ncclrun.commands.options import stream_option

    nodes = cluster_of(cluster)
    with signals() as control, open_transport(ask_pass, nodes) as transport:
        if nodes is not None:
            run = run_of(run, nodes, transport, control).run_id
        events = read_logs(
            run, transport, control, node=node, ranks=rank, stream=stream_option(stream), tail=tail, follow=follow
        )
        show(events, control, json=json)


def stop(
    run: Annotated[str | None, OPEN_RUN] = None,
    cluster: Annotated[str | None, RUN_CLUSTER] = None,
    kill: Annotated[bool, typer.Option("--kill", help="SIGKILL at once, without the grace.")] = False,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Stop a run on all its nodes.

    Waits until each node says that nothing of it lives there.
    """
    from ncclrun.commands.rejoin import stop as command

    nodes = cluster_of(cluster)
    with signals() as control, open_transport(ask_pass, nodes) as transport:
        show(command(run_of(run, nodes, transport, control), transport, control, kill=kill), control, json=json)


def attach(
    run: Annotated[str | None, OPEN_RUN] = None,
    cluster: Annotated[str | None, RUN_CLUSTER] = None,
    stall: Annotated[str | None, STALL] = None,
    stall_action: Annotated[str, STALL_ACTION] = "report",
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Follow a run whose ncclrun is gone.

    Its logs go on where they ended here, and the exit code is the run's. At a terminal Ctrl-C asks whether to detach
    or to stop the run; where nobody can be asked it stops it.
    """
    from ncclrun.commands.options import stall_options
    from ncclrun.commands.rejoin import attach as command

    wish = stall_options(stall, stall_action)
    nodes = cluster_of(cluster)
    with signals(asks=True, json=json) as control, open_transport(ask_pass, nodes) as transport:
        events = command(run_of(run, nodes, transport, control), transport, control, stall=wish)
        show(events, control, json=json)
