"""What the nodes proved of the network between them: who reached whom at which address, and what fits through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ncclrun.model.settings import ConfFile

Reach = Literal[
    "reached",
    "other",
    "stranger",
    "refused",
    "timeout",
    "no_route",
    "no_network",
    "forbidden",
    "reset",
    "bad_source",
    "error",
]
"""How an attempt ended.

``reached``: the node that was meant answered; ``other``: another node of the cluster did (or the one that asked);
``stranger``: somebody answered who is no node; ``forbidden``: a firewall on the asking node; ``bad_source``: the
source is no address of the asking node any more; the others as the kernel says (ECONNREFUSED, ETIMEDOUT,
EHOSTUNREACH, ENETUNREACH, ECONNRESET).
"""


@dataclass(frozen=True, slots=True)
class Link:
    """One attempt of one node to reach one address of another by TCP."""

    node_rank: int
    """Who tried."""
    source: str | None
    """The address of its own that it was bound to; None: left to the kernel's routing, as NCCL does."""
    peer: int
    """node_rank of the node whose address it is."""
    address: str
    port: int
    outcome: Reach
    by: int | None = None
    """node_rank of who answered."""
    seconds: float | None = None
    """From connect to the proof of identity."""
    local: str = ""
    """Address that the kernel gave our end ("" where no connection came about)."""
    open_ports: tuple[int, ...] = ()
    """Of an attempt that failed: other ports of that address that took a connection (sshd's, say)."""
    detail: str = ""

    @property
    def ok(self) -> bool:
        """The node that was meant answered."""
        return self.outcome == "reached"


@dataclass(frozen=True, slots=True)
class Evidence:
    """All attempts; ``nodes`` is how many nodes there are, ``seconds`` what all the probing took."""

    nodes: int
    links: tuple[Link, ...] = ()
    seconds: float = 0.0
    partners: tuple[frozenset[int], ...] = ()
    """For each node_rank the peers that it tried; () stands for all."""

    def tried(self, node_rank: int, peer: int) -> bool:
        """Whether that directed pair was to be tried at all (of many nodes, only some pairs are)."""
        return node_rank != peer and (not self.partners or peer in self.partners[node_rank])

    def pairs(self) -> Iterator[tuple[int, int]]:
        """All directed pairs that were to be tried."""
        for node_rank in range(self.nodes):
            for peer in range(self.nodes):
                if self.tried(node_rank, peer):
                    yield node_rank, peer

    def only(self, ranks: Sequence[int]) -> Evidence:
        """What these nodes found among themselves; in the answer they are numbered by their place in ``ranks``."""
        place: dict[int | None, int] = {rank: at for at, rank in enumerate(ranks)}
        links = tuple(
            replace(link, node_rank=place[link.node_rank], peer=place[link.peer], by=place.get(link.by))
            for link in self.links
            if link.node_rank in place and link.peer in place
        )
        tried = tuple(
            frozenset(place[peer] for peer in self.partners[rank] if peer in place) for rank in ranks if self.partners
        )
        return replace(self, nodes=len(ranks), links=links, partners=tried)


class LinkIndex:
    """Attempts by (node_rank, source, peer, address), for those who ask often."""

    def __init__(self, links: Iterable[Link]) -> None:
        self._found = {(link.node_rank, link.source, link.peer, link.address): link for link in links}

    def get(self, node_rank: int, source: str | None, peer: int, address: str) -> Link | None:
        """That attempt; None if it was not made."""
        return self._found.get((node_rank, source, peer, address))


@dataclass(frozen=True, slots=True)
class Path:
    """What fits through between two nodes, by UDP with don't-fragment, and which ports pass."""

    node_rank: int
    peer: int
    source: str
    address: str
    mtu: int
    """Largest IP packet that came through, bytes; 0: none did (UDP is blocked)."""
    told: bool = False
    """A router said so (ICMP), which TCP learns from; false: larger packets vanish in silence."""
    blocked: tuple[int, ...] = ()
    """TCP ports of the peer that were tried and did not answer, though it listens there."""
    passed: tuple[int, ...] = ()
    """TCP ports of the peer that answered."""
    tried: int = 0
    """Largest IP packet that was sent, bytes: the MTU of the asking node's interface; 0: not known."""

    @property
    def nothing(self) -> bool:
        """Neither a packet nor a connection came through: no firewall keeps out what was proven a moment before."""
        return self.mtu == 0 and bool(self.blocked) and not self.passed


@dataclass(frozen=True, slots=True)
class LookUp:
    """One question to the node's name service."""

    question: str
    """A name, or an address for a reverse look-up."""
    answers: tuple[str, ...] = ()
    seconds: float = 0.0
    """What it took; at the time limit it was given up."""
    error: str = ""
    """Why there is no answer; "" if there is one."""


@dataclass(frozen=True, slots=True)
class Names:
    """What gethostname() resolves to on a node, and what its name service says of its peers' addresses."""

    hostname: str
    forward: LookUp
    reverse: tuple[LookUp, ...] = ()


@dataclass(frozen=True, slots=True)
class NcclAnswer:
    """What libnccl itself says on a node, asked by ncclGetUniqueId with the planned environment."""

    library: str
    """Path of the libnccl that was loaded; "" if the node has none."""
    version: str = ""
    result: int | None = None
    """ncclResult_t; None when it could not be called."""
    interface: str = ""
    """Of its "Bootstrap: Using" line; "" if it printed none."""
    address: str = ""
    lines: tuple[str, ...] = ()
    """NCCL's own lines."""
    conf_files: tuple[ConfFile, ...] = ()
    """All that some version would read in that environment."""
    error: str = ""
    """Why it could not be asked."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """TCP throughput from one node to another: payload bytes as the receiver counted them."""

    node_rank: int
    peer: int
    size: int
    """Bytes."""
    seconds: float
    streams: int = 1

    @property
    def gbits(self) -> float:
        """Gbit/s."""
        return self.size * 8e-9 / self.seconds if self.seconds > 0 else 0.0
