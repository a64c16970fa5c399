"""`ncclrun doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncclrun.cli.options import ASK_PASS, CLUSTER, HOSTS, HTML, JSON, NODES
from ncclrun.cli.running import Page, find_cluster, open_transport, show, signals

SAVE = typer.Option("--save", help="Write the facts of all nodes to one file; secrets are stars.", metavar="FILE")
FROM = typer.Option("--from", help="Judge saved facts; contacts nobody.", metavar="FILE", exists=False)
MASK = typer.Option("--mask-addresses", help="With --save: pseudonyms for addresses, hosts and users.")


def doctor(
    cluster: Annotated[str | None, CLUSTER] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    nodes: Annotated[str | None, NODES] = None,
    save: Annotated[Path | None, SAVE] = None,
    mask_addresses: Annotated[bool, MASK] = False,
    from_: Annotated[Path | None, FROM] = None,
    html: Annotated[Path | None, HTML] = None,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """What on these hosts breaks runs, and what mends it?

    Looks at GPUs, drivers, libraries, limits, firewalls and logins. Exit code 1 on errors, 255 without a host.
    """
    from ncclrun.commands.doctor import doctor as command
    from ncclrun.commands.doctor import from_file
    from ncclrun.commands.recordfile import SAVED, load
    from ncclrun.model.errors import UsageError

    if mask_addresses and save is None:
        raise UsageError("--mask-addresses is for the file of --save", fix="add --save FILE")
    if from_ is not None:
        if cluster or hosts or nodes or save:
            raise UsageError("--from judges a file, and contacts nobody", fix="leave out CLUSTER, --nodes and --save")
        records = load(from_)
        with signals() as control:
            show(from_file(records), control, json=json, page=Page(html, f"ncclrun doctor --from {from_.name}"))
    if save is not None:
        SAVED.refuse_unwritable(save)
    spec = find_cluster(cluster, hosts, nodes)
    with signals() as control, open_transport(ask_pass, spec) as transport:
        events = command(spec, transport, control, file=save, mask=mask_addresses)
        show(events, control, json=json, page=Page(html, f"ncclrun doctor {spec.source}"))
