"""A run that says nothing: where each of its ranks is, as the nodes tell it, and the event that it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

How = Literal["py-spy", "faulthandler", "none"]
Kind = Literal["waits", "elsewhere", "stopped", "debugged", "sleeps", "gone", "untold"]
"""What holds a rank: a collective, so others; code of its own; a SIGSTOP; a debugger; the kernel; it has no process;
it told nothing."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of a Python stack; ``line`` is 0 where unknown."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread's stack, innermost frame first."""

    name: str
    main: bool
    frames: tuple[Frame, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RankStacks:
    """What is known of one rank: ``pid`` None where it has no process; ``how`` ``none``: no stacks, see ``error``.

    ``state`` is the kernel's letter (``T`` stopped, ``D`` sleeps in the kernel), ``wchan`` the kernel's function that
    it waits in; both "" where unknown.
    """

    rank: int
    node: str
    pid: int | None
    how: How
    threads: tuple[Thread, ...] = ()
    state: str = ""
    wchan: str = ""
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StackGroup:
    """Ranks that are in the same place; ``nodes`` are theirs, in order.

    ``where`` is the place (``all_reduce (train.py:88)``), or what else is known of it. ``frames`` is the main thread's
    stack as lines, the user's own code first. ``fix``: what can be done about it, "" where that is not known.
    """

    kind: Kind
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    where: str = ""
    frames: tuple[str, ...] = ()
    fix: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stalled:
    """No rank has printed anything for ``seconds`` (`--stall`): who is where, the group that most are in first.

    ``verdict`` is that in one sentence; ``silent`` are the nodes that did not tell. ``file`` has all stacks of all
    ranks; "" where this machine's disk did not take it.
    """

    event: ClassVar[str] = "stalled"
    seconds: float
    verdict: str
    groups: tuple[StackGroup, ...]
    silent: tuple[str, ...]
    file: str
