"""Made-up networks for tests of the views: all is well in them but for what a test puts in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ncclrun.model.events import Connected, Event
from ncclrun.model.netevents import Judged, Linked, NcclSays, PathFound, Probed, Resolved, Transferred
from ncclrun.model.network import Link, NcclAnswer, Path, Reach

DOCKER = "172.17.0.1"


def address(node_rank: int) -> str:
    """The node's chosen address."""
    return f"10.77.0.{node_rank + 1}"


def name(node_rank: int) -> str:
    """How the node is called, if nothing else is said."""
    return f"gpu{node_rank}"


def link(node_rank: int, peer: int, outcome: Reach = "reached", **more: Any) -> Link:
    """An attempt on the chosen address, left to the kernel's routing."""
    well = outcome == "reached"
    fields: dict[str, Any] = {
        "source": None,
        "address": address(peer),
        "port": 40000,
        "by": peer if well else None,
        "seconds": 0.00031 if well else None,
        "local": address(node_rank) if well else "",
    }
    return Link(node_rank=node_rank, peer=peer, outcome=outcome, **{**fields, **more})


def linked(
    nodes: int, odd: Mapping[tuple[int, int], Sequence[Link]] | None = None, names: Sequence[str] = ()
) -> list[Event]:
    """Connected and Linked of all nodes, and Probed; ``odd`` has the attempts of the pairs that are not well."""
    called = list(names) or [name(rank) for rank in range(nodes)]
    events: list[Event] = [
        Connected(node=called[rank], node_rank=rank, host=f"192.168.1.{rank}", hostname="h", seconds=0.3, local=False)
        for rank in range(nodes)
    ]
    total: list[Link] = []
    for rank in range(nodes):
        others = [peer for peer in range(nodes) if peer != rank]
        links = [one for peer in others for one in (odd or {}).get((rank, peer), (link(rank, peer),))]
        total += links
        events.append(Linked(node=called[rank], node_rank=rank, links=tuple(links)))
    reached = sum(one.ok for one in total)
    pairs = nodes * (nodes - 1)
    return [
        *events,
        Probed(nodes=nodes, pairs=pairs, connections=len(total), reached=reached, seconds=0.1, scheme="all pairs"),
    ]


def judged(nodes: int, names: Sequence[str] = ()) -> list[Event]:
    """Four candidates a node."""
    called = list(names) or [name(rank) for rank in range(nodes)]
    rows: list[Event] = []
    for rank in range(nodes):
        for interface, ip, verdict, reason in (
            ("docker0", DOCKER, "rejected", "it is the network of containers"),
            ("eth2", f"192.168.2.{rank}", "rejected", "nobody reaches it"),
            ("eth0", f"192.168.1.{rank}", "usable", "proven, but slower"),
            ("eth1", address(rank), "chosen", "proven by all others"),
        ):
            rows.append(
                Judged(
                    node=called[rank],
                    node_rank=rank,
                    interface=interface,
                    address=ip,
                    prefix=24,
                    verdict=verdict,  # type: ignore[arg-type]  # one of the three, which a tuple of text forgets
                    reason=reason,
                )
            )
    return rows


def resolved(nodes: int, names: Sequence[str] = ()) -> list[Event]:
    """The choice for each node."""
    called = list(names) or [name(rank) for rank in range(nodes)]
    return [
        Resolved(node=called[rank], node_rank=rank, interface="eth1", address=address(rank), why="proven by all")
        for rank in range(nodes)
    ]


def path(node_rank: int, peer: int, mtu: int = 9000, **more: Any) -> PathFound:
    """What fits through."""
    found = Path(
        node_rank=node_rank, peer=peer, source=address(node_rank), address=address(peer), mtu=mtu, tried=9000, **more
    )
    return PathFound(node=name(node_rank), peer=name(peer), path=found)


def says(node_rank: int, agrees: bool | None, **more: Any) -> NcclSays:
    """NCCL's own answer."""
    answer = NcclAnswer(**{"library": "/x/libnccl.so.2", "version": "2.27.5", **more})
    return NcclSays(node=name(node_rank), node_rank=node_rank, agrees=agrees, answer=answer)


def transfer(node_rank: int, peer: int, gbits: float | None, error: str = "", number: int = 1) -> Transferred:
    """A measurement."""
    return Transferred(node=name(node_rank), peer=name(peer), round=number, gbits=gbits, seconds=0.5, error=error)
