"""The stacks of all ranks -> who waits where, and who is elsewhere: the one whom the others wait for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ncclrun.diagnosis.outcome import ranges
from ncclrun.model.stallevents import Frame, Kind, RankStacks, StackGroup
from ncclrun.model.words import listed

MOST_TOLD = 4
"""Groups beside the first that are told in the verdict; the event has all."""
_LIBRARY = re.compile(r".*/(?:site|dist)-packages/")
_STANDARD = re.compile(r".*/lib(?:64)?/(python3\.\d+/)|<frozen ")
_SENT = re.compile(r".*/ncclrun/runs/[^/]+/[^/]+/code/")
_COLLECTIVE = re.compile(
    r"torch/distributed/(?:distributed_c10d|_functional_collectives|nn/functional|rendezvous)\.py|deepspeed/comm/|horovod/"
)
"""Files whose functions return when other ranks have come, too."""
_WRAPPERS = re.compile(r"_(?!_)|(?:wrapper|inner|wrapped|decorate_context|<lambda>)\Z")


@dataclass(frozen=True)
class _Line:
    """A frame with its file as people know it, and whether it is of a library."""

    function: str
    file: str
    line: int
    library: bool

    @property
    def text(self) -> str:
        return f"{self.function} ({self.file}:{self.line})" if self.line else f"{self.function} ({self.file})"


def _line(frame: Frame) -> _Line:
    """The same on every node: wherever the run's directory and the Python lie there, and whoever has told it.

    py-spy knows a function's class, faulthandler does not.
    """
    function = frame.function.rpartition(".")[2]
    for pattern in (_LIBRARY, _STANDARD):
        if found := pattern.match(frame.file):
            rest = frame.file[found.start(1) if found.lastindex else found.end() :]
            return _Line(function, rest, frame.line, library=True)
    file = _SENT.sub("", frame.file)
    return _Line(function, file, frame.line, library=frame.file.startswith("<frozen"))


def _place(lines: Sequence[_Line]) -> tuple[str, bool]:
    """Where a stack is in words, by the user's innermost line and what it calls; whether that waits for others."""
    own = next((index for index, line in enumerate(lines) if not line.library), None)
    called = lines[:own] if own is not None else lines
    waits = any(_COLLECTIVE.match(line.file) for line in called)
    # From the user's line inwards: the first that is no wrapper is what the user has written there.
    entry = next((line for line in reversed(called) if not _WRAPPERS.match(line.function)), None)
    entry = entry or (called[-1] if called else None)
    if own is None:
        return (entry.text if entry else "no Python code"), waits
    if entry is None:
        return lines[own].text, waits
    at = f"{lines[own].file}:{lines[own].line}"
    return f"{entry.function} ({at})" if waits else f"{entry.function} of {entry.file} ({at})", waits


def _kind(one: RankStacks, waits: bool | None) -> Kind:
    """``waits`` is None for a rank without a stack."""
    if one.pid is None:
        return "gone"
    # One that is stopped, or sleeps in the kernel, is no waiter like the others wherever its stack is.
    halted: dict[str, Kind] = {"T": "stopped", "t": "debugged", "D": "sleeps"}
    if one.state in halted:
        return halted[one.state]
    if waits is None:
        return "untold"
    return "waits" if waits else "elsewhere"


def _group_of(one: RankStacks) -> StackGroup:
    """A group of this rank alone."""
    main = next((thread for thread in one.threads if thread.main), None)
    lines = [_line(frame) for frame in main.frames] if main else []
    place, waits = _place(lines) if main else ("", None)
    kind = _kind(one, waits)
    if kind == "untold":
        place = one.error or "it said nothing"
    elif kind == "sleeps" and not place:
        place = one.wchan
    shown = [*(line for line in lines if not line.library), *(line for line in lines if line.library)]
    return StackGroup(
        kind=kind,
        ranks=(one.rank,),
        nodes=(one.node,),
        where=place,
        frames=tuple(line.text for line in shown),
        fix=f"kill -CONT {one.pid}   (on {one.node})" if kind == "stopped" else "",
    )


def grouped(stacks: Sequence[RankStacks]) -> tuple[StackGroup, ...]:
    """The ranks by where they are: those that wait for others first, then the larger group first.

    Two are in the same place when the user's code has called the same from the same line; the frames of a group are
    those of its first rank.
    """
    found: dict[tuple[Kind, str], StackGroup] = {}
    for one in sorted(stacks, key=lambda one: one.rank):
        new = _group_of(one)
        old = found.setdefault((new.kind, new.where), new)
        if old is not new:
            fixes = dict.fromkeys(fix for fix in (old.fix, new.fix) if fix)
            nodes = tuple(dict.fromkeys((*old.nodes, *new.nodes)))
            joined = replace(old, ranks=(*old.ranks, one.rank), nodes=nodes, fix="\n".join(fixes))
            found[new.kind, new.where] = joined
    return tuple(sorted(found.values(), key=lambda group: (group.kind != "waits", -len(group.ranks), group.ranks)))


_SAYS: dict[Kind, tuple[str, str]] = {
    "waits": ("waits in {}", "wait in {}"),
    "elsewhere": ("is in {}", "are in {}"),
    "stopped": ("is stopped by a signal (state T)", "are stopped by a signal (state T)"),
    "debugged": ("is stopped by a debugger (state t)", "are stopped by a debugger (state t)"),
    "sleeps": ("sleeps in the kernel (state D)", "sleep in the kernel (state D)"),
    "gone": ("has no process", "have no process"),
    "untold": ("tells no stack ({})", "tell no stack ({})"),
}


def says(group: StackGroup) -> str:
    """``waits in all_reduce (train.py:88)``, ``is stopped by a signal (state T), in step (train.py:12)``."""
    text = _SAYS[group.kind][len(group.ranks) > 1]
    more = f", in {group.where}" if group.where and "{}" not in text else ""
    return text.format(group.where) + more


def who(group: StackGroup) -> str:
    """``rank 3 on gpu2``, ``ranks 0-3 on gpu1, gpu2``."""
    return f"{'ranks' if len(group.ranks) > 1 else 'rank'} {ranges(group.ranks)} on {listed(group.nodes)}"


def verdict(groups: Sequence[StackGroup]) -> str:
    """One sentence on ``grouped`` ranks: where most wait, and who differs.

    The ranks in a collective wait for those that are not in it, be they many or few. Where nobody waits and no group is
    the largest, none is said to differ.
    """
    if not groups:
        return "no rank told where it is"
    first, *others = groups
    number = len(first.ranks)
    if not others:
        same = "the same place, " if first.kind in ("waits", "elsewhere") else ""
        return f"all {number} ranks {says(replace(first, where=same + first.where))}" if number > 1 else _told(first)
    rest = [f"{len(others) - MOST_TOLD} more places"] if len(others) > MOST_TOLD else []
    if first.kind != "waits" and len(others[0].ranks) == number:
        return "; ".join([*map(_told, groups[: MOST_TOLD + 1]), *rest])
    lead = f"{number} ranks {says(first)}" if number > 1 else _told(first)
    differ = [f"{who(one)} {'differ' if len(one.ranks) > 1 else 'differs'}: {says(one)}" for one in others[:MOST_TOLD]]
    return "; ".join([lead, *differ, *rest])


def _told(group: StackGroup) -> str:
    return f"{who(group)} {says(group)}"
