"""Evidence for tests of the choice: who reaches whom is said by a function, the links are made from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from ipaddress import ip_address, ip_interface

from ncclrun.model.cluster import Node
from ncclrun.model.facts import NodeFacts
from ncclrun.model.network import Evidence, Link, Reach
from ncclrun.planning.network import probe_addresses

Reaches = Callable[[int, str | None, int, str], bool | Reach]
"""(node_rank, source, peer, address) -> whether it is reached, or how else the attempt ends."""


def everything(*_attempt: object) -> bool:
    """A network in which all reaches all."""
    return True


def evidence(
    nodes: Sequence[Node],
    machines: Sequence[NodeFacts],
    reaches: Reaches,
    *,
    partners: tuple[frozenset[int], ...] = (),
    addresses: Sequence[Sequence[str]] | None = None,
    open_ports: tuple[int, ...] = (),
    by: int | None = None,
    sends_by: Callable[[int, str], str] | None = None,
) -> Evidence:
    """What all nodes find when each tries its partners; ``sends_by`` (node_rank, target) is the kernel's source."""
    probed = addresses if addresses is not None else probe_addresses(nodes, machines)
    found = Evidence(nodes=len(nodes), partners=partners)
    links = []
    for a, b in found.pairs():
        for target in probed[b]:
            version = ip_address(target).version
            for source in (None, *(own for own in probed[a] if ip_address(own).version == version)):
                outcome = reaches(a, source, b, target)
                outcome = outcome if isinstance(outcome, str) else "reached" if outcome else "timeout"
                ok = outcome == "reached"
                local = source or (sends_by or _sender(machines[a]))(a, target)
                links.append(
                    Link(
                        node_rank=a,
                        source=source,
                        peer=b,
                        address=target,
                        port=40000,
                        outcome=outcome,
                        by=b if ok else by,
                        seconds=0.0004 if ok else 2.5,
                        local=local if ok else "",
                        open_ports=() if ok else open_ports,
                    )
                )
    return replace(found, links=tuple(links))


def _sender(machine: NodeFacts) -> Callable[[int, str], str]:
    """The first address in the target's subnet, else the first at all, as routes have it mostly."""
    own = [a for interface in machine.interfaces if not interface.loopback for a in interface.addresses]

    def sends_by(_node_rank: int, target: str) -> str:
        near = (a for a in own if ip_address(target) in ip_interface(f"{a.address}/{a.prefix}").network)
        return next(near, own[0]).address

    return sends_by
