"""The end of a command or of an attempt: its exit code, the first failure, and how each node stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ncclrun.model.explainevents import FoundFault


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """The first failure of a run."""

    node: str
    node_rank: int
    host: str
    rank: int | None
    how: str
    """``exit code 7``, ``signal 9 (SIGKILL)``, ``host lost``, …"""
    exit_code: int
    exception: str = ""
    """Last line of the traceback, or the error file's message."""
    tail: tuple[str, ...] = ()
    """Last lines of that rank's stderr."""
    time: float | None = None
    hint: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeSummary:
    """A row of the closing table; ``confirmed``: the node itself said that nothing of the run lives there.

    ``state``: ``finished``, ``failed``, ``stopped``, ``lost``, ``rebooted``, ``gone``, ``not started``, ``unknown``,
    ``running``.
    """

    node: str
    node_rank: int
    host: str
    ranks: str
    state: str
    exit: str
    seconds: float | None
    confirmed: bool
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The end of the command: the exit code and why.

    ``reason`` of a run that was started: ``finished``, ``failed``, ``stopped``, ``timeout``, ``stalled``, ``lost`` or
    ``detached`` (it goes on, and nobody here follows it); else a sentence.
    """

    event: ClassVar[str] = "end"
    run_id: str
    exit_code: int
    reason: str
    seconds: float
    nodes: tuple[NodeSummary, ...] = ()
    cause: Cause | None = None
    victims: tuple[str, ...] = ()
    """Nodes or ranks that we stopped, or that failed, as a consequence."""
    directory: str = ""
    finding: FoundFault | None = None
    """The fault that the logs show, where one is known (`explain` tells all of it)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replaced:
    """A node that a further attempt can't count on; ``by`` takes its place: "" none, its own name it itself again."""

    node: str
    by: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Retrying:
    """An attempt has ended as ``ended`` says, and the next one (``run_id``) begins in ``seconds``.

    ``attempt`` of ``most`` is that next one's number, from 1; ``reason`` is why there is another.
    """

    event: ClassVar[str] = "retry"
    run_id: str
    attempt: int
    most: int
    seconds: float
    reason: str
    changes: tuple[Replaced, ...]
    ended: Ended
