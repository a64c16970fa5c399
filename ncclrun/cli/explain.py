"""`ncclrun explain`: from the logs of a failure to its cause and the step that mends it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncclrun.cli.options import ASK_PASS, JSON, RUN_CLUSTER
from ncclrun.cli.running import open_transport, show, signals
from ncclrun.cli.runs import cluster_of, run_of

TARGETS = typer.Argument(
    metavar="[RUN|FILE…|-]",
    help="A run's id (the last run by default), log files or directories of any launcher, - for standard input, or the "
    "id of a fault for its page.",
    show_default=False,
)

BUNDLE = typer.Option(
    "--bundle", help="Write one file for a bug report: diagnosis, record, logs; secrets are stars.", metavar="FILE"
)
MASK = typer.Option("--mask-addresses", help="With --bundle: pseudonyms for addresses, hosts and users.")


def explain(
    targets: Annotated[list[str] | None, TARGETS] = None,
    bundle: Annotated[Path | None, BUNDLE] = None,
    mask_addresses: Annotated[bool, MASK] = False,
    cluster: Annotated[str | None, RUN_CLUSTER] = None,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Why a run failed: the cause, the lines that show it, and the step that mends it.

    Exit code 0 when that is known or all is well, 1 when no cause was found, 2 when there is nothing to read.
    """
    from ncclrun.commands.bundle import BUNDLE_FILE
    from ncclrun.commands.explain import explain as command
    from ncclrun.model.errors import UsageError

    if mask_addresses and bundle is None:
        raise UsageError("--mask-addresses is for the file of --bundle", fix="add --bundle FILE")
    if bundle is not None:
        BUNDLE_FILE.refuse_unwritable(bundle)

    nodes = cluster_of(cluster)
    with signals() as control, open_transport(ask_pass, nodes) as transport:
        if nodes is not None:
            targets = [run_of(targets[0] if targets else None, nodes, transport, control).run_id]
        events = command(targets or [], transport, control, bundle=bundle, mask=mask_addresses)
        show(events, control, json=json)
