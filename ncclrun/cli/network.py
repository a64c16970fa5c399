"""`ncclrun ping` and `ncclrun resolve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncclrun.cli.options import ASK_PASS, CLUSTER, HOSTS, HTML, JSON, NODES
from ncclrun.cli.running import Page, find_cluster, open_transport, show, signals


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
    seconds: Annotated[
        float | None, typer.Option(help="Seconds a measurement (1).", min=0.1, max=30, show_default=False)
    ] = None,
    streams: Annotated[
        int | None, typer.Option(help="TCP connections a measurement (4).", min=1, max=16, show_default=False)
    ] = None,
    html: Annotated[Path | None, HTML] = None,
    json: Annotated[bool, JSON] = False,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Is every node reachable and fit, and what joins them?

    Exit code 1 if one is not, with the reason and the command that mends it.
    """
    import os

    from ncclrun.commands.ping import Bandwidth, Ping
    from ncclrun.model.errors import UsageError

    spec = find_cluster(cluster, hosts, nodes)
    wanted = Bandwidth(seconds=seconds or 1.0, streams=streams or 4, deep=deep) if bandwidth or deep else None
    if wanted is None and (seconds or streams):
        raise UsageError("--seconds and --streams are for a measurement", fix="add --bandwidth or --deep")
    with signals() as control, open_transport(ask_pass, spec) as transport:
        events = Ping(spec, transport, control, os.environ, bandwidth=wanted).events()
        show(events, control, json=json, page=Page(html, f"ncclrun ping {spec.source}"))


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

    spec = find_cluster(cluster, hosts, nodes)
    # What can't be written is said before the work, not after it.
    rewrite = Rewrite(cluster) if write else None
    with signals() as control, open_transport(ask_pass, spec) as transport:
        events = command(spec, transport, control, os.environ, write=rewrite)
        show(events, control, json=json, page=Page(html, f"ncclrun resolve {spec.source}"))
