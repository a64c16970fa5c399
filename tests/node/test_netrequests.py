"""The network's requests together, as one node asks them after another, on every Python that a node may have."""

from __future__ import annotations

from typing import Any

from tests.node.client import connected
from tests.node.conftest import again
from tests.node.netclient import SECRET, listen, probe, target


def test_a_network_is_proven_on_every_python(every_python: str, env: dict[str, str]) -> None:
    with connected(every_python, env) as holds, again(env) as asks:
        for one, other, rank in ((holds, asks, 1), (asks, holds, 0)):
            door = listen(one, "127.0.0.2", node_rank=rank, extra=2)["127.0.0.2"]
            where: dict[str, Any] = {"peer": rank, "address": "127.0.0.2"}
            both: dict[str, Any] = {"token": SECRET, "node_rank": 1 - rank, "source": "127.0.0.3"}

            [link] = probe(other, target("127.0.0.2", door["port"], "127.0.0.3", peer=rank), node_rank=1 - rank)
            assert link["outcome"] == "reached"

            wanted = {**where, "udp": door["udp"], "ports": door["extra"]}
            [path] = other.call("paths", mtu=9000, targets=[wanted], limit=3.0, **both)["paths"]
            assert (path["mtu"], path["passed"]) == (9000, door["extra"])

            found = other.call("throughput", port=door["port"], seconds=0.1, streams=2, **where, **both)
            assert found["size"] > 0
            one.call("unlisten")
