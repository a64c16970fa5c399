"""A kind of finding: what its page says, and how one is made of it."""

from __future__ import annotations

from dataclasses import dataclass

from ncclrun.model.netevents import Problem
from ncclrun.model.settings import Level


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """What is the same of every finding with this id; the command for a host is the finding's own."""

    id: str
    title: str
    symptom: str
    """What people see who do not look before the start."""
    cause: str
    cure: str
    launch: bool = False
    """`launch` tells it, too."""
    doctor: bool = True
    """`doctor` tells it: not what only the start of a run can show."""

    def found(self, evidence: str, fix: str = "", level: Level = "warning") -> Problem:
        """One on a node."""
        return Problem(code=self.id, level=level, message=evidence, fix=fix)
