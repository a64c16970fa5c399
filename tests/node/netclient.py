"""What the tests of the network's proof ask of a node part, in short."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.cluster.host import Host
from tests.node.client import Client, connected
from tests.node.conftest import OLDEST

SECRET = "secret-of-the-network"


def listen(node: Client, *addresses: str, node_rank: int = 0, extra: int = 0) -> dict[str, dict[str, Any]]:
    """Opens the doors of these addresses; ports by address."""
    answer = node.call("listen", token=SECRET, node_rank=node_rank, addresses=list(addresses), extra=extra)
    assert answer["failed"] == {}
    found: dict[str, dict[str, Any]] = answer["listeners"]
    return found


def target(address: str, port: int, *sources: str | None, peer: int = 0, other_ports: tuple[int, ...] = ()) -> Any:
    """One target of `probe`; as routed, if no source is named."""
    where = {"peer": peer, "address": address, "port": port, "sources": list(sources or (None,))}
    return {**where, "other_ports": list(other_ports)}


def probe(node: Client, *targets: Any, node_rank: int = 1, limit: float = 3.0, token: str = SECRET) -> list[Any]:
    """The links."""
    links = node.call("probe", token=token, node_rank=node_rank, targets=list(targets), limit=limit)["links"]
    assert isinstance(links, list)
    return links


@contextlib.contextmanager
def on(host: Host, env: dict[str, str] | None = None) -> Iterator[Client]:
    """A node part on a host of the namespace cluster."""
    with connected(OLDEST, env or {}, tuple(host.command(["/bin/sh"]))) as client:
        yield client
