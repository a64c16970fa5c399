"""What a node says of the runs on it: the fields of docs/node-protocol.md, "What is on a node"."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RunMember:
    """A node of a run, as its controller knew it."""

    name: str
    host: str
    nproc: int


@dataclass(frozen=True)
class About:
    """What a run's controller left on its nodes; of an older version nothing."""

    cluster: str = ""
    source: str = ""
    program: str = ""
    name: str | None = None
    """Of a run of several attempts: what all of them are called by."""
    node: str = ""
    first_rank: int | None = None
    world_size: int | None = None
    endpoint: dict[str, Any] | None = None
    nodes: tuple[RunMember, ...] = ()


@dataclass(frozen=True)
class LastLine:
    """The last that a worker wrote; ``stream`` by the node's name for it, ``time`` by its clock."""

    stream: str
    time: float
    text: str


@dataclass(frozen=True)
class HeldGpu:
    """A GPU that a run uses; ``memory`` in MiB, None where it is hidden."""

    index: int | None
    uuid: str
    memory: int | None


@dataclass(frozen=True)
class RankExit:
    """How a worker ended; ``rank`` is local."""

    rank: int
    code: int | None
    signal: int | None


@dataclass(frozen=True)
class PartExit:
    """How a node's part ended: the reason of its end record, and the first rank that failed."""

    reason: str
    detail: str = ""
    rank: RankExit | None = None


@dataclass(frozen=True)
class RunThere:
    """A node's part of a run. Times are by the node's clock, sizes in bytes; None is not known, or not yet."""

    run_id: str
    node_rank: int
    nproc: int
    launcher: str
    boot_id: str
    by: str
    state: str
    since: float | None
    reason: str
    prepared_at: float
    started_at: float | None = None
    ended_at: float | None = None
    exit: PartExit | None = None
    supervisor: int | None = None
    alive: int = 0
    ranks_alive: int | None = None
    last: LastLine | None = None
    gpus: tuple[HeldGpu, ...] | None = None
    size: int | None = None
    about: About = field(default_factory=About)
    heard: dict[int, float | None] = field(default_factory=dict)
    """Other nodes of the run, by node_rank: when its supervisor heard theirs last; None: that one has said its end."""

    @property
    def going(self) -> bool:
        """Whether it has not ended."""
        return self.state != "ended"


@dataclass(frozen=True)
class LeftProcess:
    """A process that belongs to no run that has a directory."""

    pid: int
    command: str


@dataclass(frozen=True)
class LeftThere:
    """Processes of a run that has no directory on the node (any more)."""

    run_id: str
    node_rank: int
    alive: tuple[LeftProcess, ...]


@dataclass(frozen=True)
class Inventory:
    """A node's answer to `runs`."""

    runs: tuple[RunThere, ...]
    left: tuple[LeftThere, ...]
    time: float
