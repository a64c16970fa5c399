"""What `explain` finds in logs: one cause with its evidence, what followed from it, and what was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

Verdict = Literal["cause", "component", "failed", "stopped", "consequence", "healthy", "nothing"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """A line of a log; ``host`` "" and ``rank`` null where neither the log nor the line says whose it is."""

    file: str
    line: int
    host: str
    rank: int | None
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundFault:
    """A fault that shows in the logs; ``id`` is the name of its page (docs/findings/)."""

    id: str
    title: str
    cause: str
    fix: str
    check: str
    """What a look before the start would have said; "" where nothing could be seen then."""
    evidence: tuple[Evidence, ...]
    lines: int
    """How many lines there are like it."""
    ranks: str
    """Whose they are (``0-3,6``); "" where it is not known."""
    hosts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Explained:
    """The diagnosis.

    ``verdict``: ``cause``, it is named; ``component``, what failed is known and why is not; ``failed``, the run's
    record knows who failed first, and its logs say nothing of it; ``stopped``, the run was ended by a person or a
    limit, and no fault shows; ``consequence``, all that shows follows from something that is in none of these logs;
    ``healthy``, the logs show work going on and nothing after it; ``nothing``, neither the one nor the other.
    ``confidence`` says how sure that is, and from what.
    """

    event: ClassVar[str] = "explained"
    verdict: Verdict
    found: FoundFault | None
    confidence: str
    consequences: tuple[FoundFault, ...]
    others: tuple[FoundFault, ...]
    """What may be the cause in its place."""
    remarks: tuple[FoundFault, ...]
    """What is worth knowing and ends no run."""
    more: tuple[str, ...]
    """Settings with which a next run says more."""
    files: int
    lines: int
    hosts: tuple[str, ...]
    ranks: str
    run_id: str = ""
    recorded: str = ""
    """How the run ended by its own record: ``failed: rank 3 on gpu2: exit code 1``; "" of mere logs."""
    hint: str = ""
    """What such an end mostly means, where the logs do not tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FindingPage:
    """What is known of a fault that was asked for by its id; ``text`` is Markdown."""

    event: ClassVar[str] = "page"
    id: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Bundled:
    """What `explain --bundle` wrote: one packed file (tar.gz) of ``size`` bytes, secrets as stars.

    ``masked``: with pseudonyms for addresses, hosts and users.
    """

    event: ClassVar[str] = "bundle"
    path: str
    logs: int
    size: int
    masked: bool
