"""Which attempts a node makes to reach its partners: every address of theirs, from every address of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

MOST_ATTEMPTS = 4096
"""Attempts of one node; with many addresses on many nodes, only likely sources are tried beyond that."""


@dataclass(frozen=True)
class Place:
    """An address that is probed, and the length of its prefix in bits."""

    address: str
    prefix: int

    @property
    def version(self) -> int:
        """4 or 6."""
        return 6 if ":" in self.address else 4


@dataclass(frozen=True)
class Target:
    """An address of a partner, and the own addresses to try it from (None: as the kernel routes)."""

    peer: int
    address: str
    sources: tuple[str | None, ...]


def targets(node_rank: int, places: Sequence[Sequence[Place]], partners: Collection[int]) -> tuple[Target, ...]:
    """What one node tries; ``places`` by node_rank. Only sources of the same family are tried.

    Where that would be more than MOST_ATTEMPTS, an address is tried from the sources in its own subnet, or from the
    first one where there is none, beside the kernel's own choice.
    """
    own = places[node_rank]
    wanted = [(peer, place) for peer in sorted(partners) for place in places[peer]]
    many = len(wanted) * (len(own) + 1) > MOST_ATTEMPTS
    return tuple(
        Target(peer=peer, address=place.address, sources=(None, *_sources(own, place, many=many)))
        for peer, place in wanted
        if any(source.version == place.version for source in own)
    )


def _sources(own: Sequence[Place], target: Place, *, many: bool) -> list[str]:
    same_family = [source for source in own if source.version == target.version]
    if many:
        address = ip_address(target.address)
        near = [s for s in same_family if address in ip_network(f"{s.address}/{s.prefix}", strict=False)]
        same_family = near or same_family[:1]
    return [source.address for source in same_family]
