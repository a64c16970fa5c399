"""`ncclrun status`, `ncclrun runs` and `ncclrun clean`: looking after runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ncclrun.cli.options import ASK_PASS, HOSTS, JSON
from ncclrun.cli.running import find_cluster, open_transport, show, signals, tell

NODES_OF = typer.Option("--cluster", help="Ask the nodes of this cluster file, whoever started what.", metavar="FILE")
OLDER_THAN = typer.Option("--older-than", help="What ended so long ago; 14d if nothing else is said.", metavar="AGE")
KEEP_SIZE = typer.Option("--keep-size", help="The oldest, until the rest is no larger than this.", metavar="SIZE")


def status(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Run id; by default the last that has not ended.")
    ] = None,
    cluster: Annotated[str | None, NODES_OF] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    all_: Annotated[bool, typer.Option("--all", help="With all ended runs that the nodes still have.")] = False,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """What runs where: state, since when, ranks, last line, GPUs, who started it.

    Exit code 255 where a host could not be reached.
    """
    from ncclrun.commands.history import find_run
    from ncclrun.commands.status import status_of_cluster, status_of_run
    from ncclrun.model.errors import UsageError

    if cluster is None and hosts is None:
        if all_:
            raise UsageError(
                "--all is for the nodes of a cluster", fix="add --cluster FILE, or see  ncclrun runs --all"
            )
        found = find_run(run, going=True)
        with signals() as control, open_transport(ask_pass, None) as transport:
            show(status_of_run(found, transport, control), control, json=json)
    spec = find_cluster(cluster, hosts, None)
    with signals() as control, open_transport(ask_pass, spec) as transport:
        show(status_of_cluster(spec, transport, control, run_id=run, everything=all_), control, json=json)


def runs(
    all_: Annotated[bool, typer.Option("--all", help="All of them, not the last 20 alone.")] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """The runs of this machine: when, how long, on which nodes, and how they ended.

    Contacts no node. The newest comes last.
    """
    from ncclrun.commands.runs import history

    with signals() as control:
        show(history(everything=all_), control, json=json)


def clean(
    run: Annotated[list[str] | None, typer.Argument(metavar="[RUN]…", help="These runs, whatever their age.")] = None,
    older_than: Annotated[str | None, OLDER_THAN] = None,
    keep_size: Annotated[str | None, KEEP_SIZE] = None,
    cluster: Annotated[str | None, NODES_OF] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    here: Annotated[bool, typer.Option("--here", help="Only what this machine keeps; asks no node.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Remove the directories of old runs, here and on their nodes; never one that lives.

    Shows what would go and asks.
    """
    from ncclrun.commands.amounts import age, size
    from ncclrun.commands.clean import Clean, Wish
    from ncclrun.console.output import Output
    from ncclrun.console.question import confirm
    from ncclrun.model.errors import UsageError

    if run and (older_than or keep_size):
        raise UsageError("runs are named, and an age or a size is given too", fix="leave one of them out")
    if here and (cluster or hosts):
        raise UsageError("--here asks no node", fix="leave out --cluster and --hosts, or --here")
    oldest = None if older_than is None else age("--older-than", older_than)
    if oldest is None and not run and keep_size is None:
        oldest = age("--older-than", "14d")
    wish = Wish(tuple(run or ()), oldest, None if keep_size is None else size("--keep-size", keep_size), here)
    spec = find_cluster(cluster, hosts, None) if cluster or hosts else None
    with (
        signals() as control,
        open_transport(ask_pass, spec) as transport,
        Clean(wish, spec, transport, control) as command,
    ):
        code = tell(command.preview(dry_run=dry_run), control, json=json)
        if code is not None:
            raise typer.Exit(code)
        if not yes:
            out = Output(sys.stderr if json else sys.stdout)
            confirm("Remove these?", out, nothing="nothing was removed", first="look at what would go (--dry-run)")
        show(command.remove(), control, json=json)
