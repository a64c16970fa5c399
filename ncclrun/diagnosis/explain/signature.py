"""What is known of one fault: the lines that give it away, why it happens, and the step that mends it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from ncclrun.diagnosis.explain.steps import Step


class Weight(IntEnum):
    """How much a line says of why a run failed."""

    HARMLESS = 0
    """Looks like a fault and is none; never the cause."""
    REMARK = 1
    """True and worth knowing; no run fails of it alone."""
    CONSEQUENCE = 2
    """Something else failed first."""
    COMPONENT = 3
    """What failed, not why."""
    CAUSE = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """A fault, and how it shows. ``cause`` and ``cure`` may name the captures of ``pattern``: ``{address}``."""

    id: str
    title: str
    weight: Weight
    words: tuple[str, ...] = ()
    """One of these stands in every line of it, and the longest run of letters and digits in it is a whole one there; ()
    where no single line tells (see rules.py)."""
    pattern: str = ""
    """What the line must match besides; its named groups are told: ``path_`` is ``path`` in another wording."""
    sample: str
    """Such a line, or lines."""
    cause: str
    cure: tuple[Step, ...] = ()
    check: str = ""
    """What else looks before a start, and what it says."""
    doctor: tuple[str, ...] = ()
    """Ids of `doctor`'s findings that are this, seen on a host."""
    over: tuple[str, ...] = ()
    """What follows from this one, though it may weigh as much."""
    network: bool = False
    """A sign that processes can't reach each other."""
    circumstance: bool = False
    """An ordinary line: a cause only where processes did not reach each other."""
    waiting: bool = False
    """Says only that somebody waited in vain: whatever else failed explains it."""
    likely: bool = False
    """The line allows more than one cause: of several the mostly right one is told, or all."""
    early: bool = False
    """Told while the run goes on: waiting does not help. (What circumstances tell is held against the plan.)"""

    @property
    def before(self) -> str:
        """What a look before the start would have said, whoever looks."""
        found = f"`ncclrun doctor` finds it ({', '.join(self.doctor)})" if self.doctor else ""
        return "; ".join(filter(None, (self.check, found)))

    def match(self, line: str) -> dict[str, str] | None:
        """The captures of a line that has one of the words; None if it is none of this."""
        if not self.pattern:
            return {}
        found = _compiled(self.pattern).search(line)
        return None if found is None else {name.rstrip("_"): text for name, text in found.groupdict().items() if text}


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """When it is first needed: a launch imports all of them, and looks for few."""
    return re.compile(pattern)
