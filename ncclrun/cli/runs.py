"""`ncclrun logs`, `ncclrun stop` and `ncclrun attach`: what is done with a run that was started."""

from __future__ import annotations

from typing import Annotated

import typer

from ncclrun.cli.options import ASK_PASS, JSON, OPEN_RUN
from ncclrun.cli.running import open_transport, show, signals


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

    with signals() as control, open_transport(ask_pass, None) as transport:
        events = read_logs(
            run, transport, control, node=node, ranks=rank, stream=stream_option(stream), tail=tail, follow=follow
        )
        show(events, control, json=json)


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

    with signals() as control, open_transport(ask_pass, None) as transport:
        show(command(find_run(run, going=True), transport, control, kill=kill), control, json=json)


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

    with signals() as control, open_transport(ask_pass, None) as transport:
        show(command(find_run(run, going=True), transport, control), control, json=json)
