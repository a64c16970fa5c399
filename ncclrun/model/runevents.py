"""The events of `ncclrun status`, `runs` and `clean`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

RunStateName = Literal["prepared", "starting", "running", "stopping", "ended", "lost", "gone", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuUse:
    """A GPU that a run holds memory on; ``memory`` in MiB, None where it can't be seen."""

    index: int | None
    uuid: str
    memory: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOnNode:
    """A run as it stands on one of its nodes (`status`); a node that was not reached has an ``unknown`` one.

    ``since`` is when the state began, on this machine's clock, null where nobody knows; of ``unknown`` last contact.
    ``lost``: its supervisor is gone, and no end is written yet. ``gone``: the host has nothing of it. ``run_id`` is ""
    for a host that was not reached, and of which it is not known what runs there.
    """

    event: ClassVar[str] = "run_on_node"
    node: str
    node_rank: int
    """Place in the run; -1 where that is not known."""
    host: str
    run_id: str
    state: RunStateName
    since: float | None
    reason: str = ""
    by: str = ""
    """Who started it, ``user@host``; "" where it was not said."""
    program: str = ""
    started_at: float | None = None
    ranks: str = ""
    """Global ranks of the node, ``4-7``; "" where they are not known."""
    nproc: int = 0
    ranks_alive: int | None = None
    exit: str = ""
    last: str = ""
    """The last line that one of its workers wrote, of rank ``last_rank``."""
    last_rank: int | None = None
    last_time: float | None = None
    gpus: tuple[GpuUse, ...] | None = None
    """GPUs that its processes use, null where that is not known."""
    size: int | None = None
    """Bytes of its directory on the node."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOnNode:
    """Processes with the mark of a run that has no directory on the host: somebody removed it, or it lies elsewhere."""

    event: ClassVar[str] = "left_on_node"
    node: str
    host: str
    run_id: str
    node_rank: int
    processes: tuple[str, ...]
    """``pid command``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedRun:
    """A run that was started from this machine or taken up here (`runs`).

    ``state`` is what is known here: ``ended``; ``followed``, an ncclrun of this machine follows it; ``open``, nobody
    here does, and how it stands only its nodes can say.
    """

    event: ClassVar[str] = "recorded_run"
    run_id: str
    state: Literal["ended", "followed", "open"]
    started_at: float | None
    ended_at: float | None
    seconds: float | None
    cluster: str
    nodes: tuple[str, ...]
    program: str
    by: str = ""
    exit_code: int | None = None
    reason: str = ""
    cause: str = ""
    """What broke first, in a few words."""
    attempt: int | None = None
    directory: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class OldRun:
    """A directory that goes, or has gone; ``node_rank`` is null for what this machine kept as the run's controller."""

    run_id: str
    node_rank: int | None
    size: int
    ended_at: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptRun:
    """A directory that stays though it was old enough or named, and why."""

    run_id: str
    node_rank: int | None
    size: int
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Cleaned:
    """What `clean` removed in one place, or with ``dry_run`` would; ``node`` is "" for this machine's records."""

    event: ClassVar[str] = "cleaned"
    node: str
    host: str
    removed: tuple[OldRun, ...]
    kept: tuple[KeptRun, ...]
    code: int
    """Bytes of sent code that nothing has used for so long."""
    dry_run: bool
