"""Which attempts a node makes to reach its partners: every address of theirs, from every address of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from ncclrun.model.facts import Address

MOST_ATTEMPTS = 4096
"""Attempts of one node; with many addresses on many nodes, only likely sources are tried beyond that."""


@dataclass(frozen=True)
class Target:
    """An address of a partner, and the own addresses to try it from (None: as the kernel routes)."""

    peer: int
    address: str
    sources: tuple[str | None, ...]


def targets(node_rank: int, addresses: Sequence[Sequence[Address]], partners: Collection[int]) -> tuple[Target, ...]:
    """What one node tries; ``addresses`` are those that are probed, by node_rank. Families do not mix.

    Where that would be more than MOST_ATTEMPTS, an address is tried from the sources in its own subnet, or from the
    first one where there is none, beside the kernel's own choice.
    """
    own = addresses[node_rank]
    wanted = [(peer, address) for peer in sorted(partners) for address in addresses[peer]]
    many = len(wanted) * (len(own) + 1) > MOST_ATTEMPTS
    return tuple(
        Target(peer=peer, address=address.address, sources=(None, *_sources(own, address, many=many)))
        for peer, address in wanted
        if any(source.family == address.family for source in own)
    )


def _sources(own: Sequence[Address], target: Address, *, many: bool) -> list[str]:
    same_family = [source for source in own if source.family == target.family]
    if many:
        address = ip_address(target.address)
        near = [s for s in same_family if address in ip_network(f"{s.address}/{s.prefix}", strict=False)]
        same_family = near or same_family[:1]
    return [source.address for source in same_family]
