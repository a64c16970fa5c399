"""`ncclrun trust` and `ncclrun keys`: the ways to the hosts."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from ncclrun.cli.options import ASK_PASS, CLUSTER, HOSTS, NODES
from ncclrun.cli.running import find_cluster, open_transport, signals


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

    spec = find_cluster(cluster, hosts, nodes)
    with closing(SshTransport(cluster=spec.source)) as transport:
        code = access.trust(
            lambda: command.scan(spec, transport),
            lambda shown: command.accept(shown, transport, cluster=spec.source),
            Output(sys.stdout),
            yes=yes,
            colors=sys.stdout.isatty(),
        )
    raise typer.Exit(code)


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

    spec = find_cluster(cluster, hosts, nodes)
    key = None if public_key is None else read_key(public_key)
    with signals() as control, open_transport(ask_pass, spec) as transport:
        answers = install(spec, transport, cancelled=control.stopped, key=key)
        raise typer.Exit(access.keys(answers, Output(sys.stdout), colors=sys.stdout.isatty()))
