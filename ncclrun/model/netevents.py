"""What the nodes prove of their network, and what else `ping` and `resolve` tell; a launch has some of it too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ncclrun.model.network import Link, NcclAnswer, Path
from ncclrun.model.settings import Level


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolved:
    """The network choice for a node; ``hca`` is what NCCL_IB_HCA is set to ("": left to NCCL)."""

    event: ClassVar[str] = "network"
    node: str
    node_rank: int
    interface: str
    address: str
    why: str
    hca: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probing:
    """The nodes begin to try each other's addresses; `links` follow as each is done, then `probed`."""

    event: ClassVar[str] = "probing"
    nodes: int
    pairs: int
    """Directed pairs of nodes that are to be tried."""
    connections: int
    """Attempts to come."""
    scheme: str
    """As in `probed`: ``all pairs``, …"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """The nodes have tried each other's addresses: ``connections`` attempts, ``reached`` of them proven."""

    event: ClassVar[str] = "probed"
    nodes: int
    pairs: int
    """Directed pairs of nodes that were tried."""
    connections: int
    reached: int
    seconds: float
    scheme: str
    """Which pairs: ``all pairs``, or ``ring, star to node 0 and 4 random partners each``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Linked:
    """All attempts of one node to reach the others."""

    event: ClassVar[str] = "links"
    node: str
    node_rank: int
    links: tuple[Link, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What became of one address of one node in the network choice, and why."""

    event: ClassVar[str] = "candidate"
    node: str
    node_rank: int
    interface: str
    address: str
    prefix: int
    verdict: Literal["chosen", "usable", "rejected"]
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PathFound:
    """What fits through from one node to another on the chosen addresses, and whether high ports pass."""

    event: ClassVar[str] = "path"
    node: str
    peer: str
    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class NcclSays:
    """Which interface NCCL itself would use on a node; ``agrees`` is None where there is no libnccl to ask."""

    event: ClassVar[str] = "nccl"
    node: str
    node_rank: int
    agrees: bool | None
    answer: NcclAnswer


@dataclass(frozen=True, kw_only=True, slots=True)
class Measuring:
    """A round of `ping --bandwidth` begins: ``pairs`` of nodes at once, first one way and then the other."""

    event: ClassVar[str] = "measuring"
    round: int
    rounds: int
    """How many there are, as far as is known: `--deep` adds some."""
    pairs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Transferred:
    """A measured throughput between two nodes (`ping --bandwidth`); ``error`` says why there is none."""

    event: ClassVar[str] = "bandwidth"
    node: str
    peer: str
    round: int
    gbits: float | None
    seconds: float
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """A file was written (`resolve --write`); ``backup`` is what it was before, "" where nothing had to change."""

    event: ClassVar[str] = "written"
    path: str
    backup: str
    changes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One reason why a node is not fit, and the command or line that mends it."""

    code: str
    message: str
    fix: str
    level: Level = "error"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pinged:
    """A row of `ping`: seconds, versions ("" where unknown), and every problem found."""

    event: ClassVar[str] = "ping"
    node: str
    node_rank: int
    host: str
    fit: bool
    seconds: float | None = None
    hostname: str = ""
    interface: str = ""
    address: str = ""
    gpus: tuple[str, ...] = ()
    python: str = ""
    torch: str = ""
    nccl: str = ""
    clock_offset: float | None = None
    problems: tuple[Problem, ...] = field(default=())
