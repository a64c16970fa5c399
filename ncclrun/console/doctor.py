"""What `doctor` found, as people read it: a row a node, then each finding once, with the hosts that have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ncclrun.console.findings import Finding, fold, same_on
from ncclrun.console.notes import Note, problem
from ncclrun.console.tables import table_text
from ncclrun.console.words import count, size
from ncclrun.model.doctorevents import DoctorFinding, Examined, FactsSaved
from ncclrun.model.endevents import Ended
from ncclrun.model.events import Event, Failure
from ncclrun.model.settings import Level
from ncclrun.model.words import listed

HEADS = ("node", "", "system", "gpus", "driver", "python", "torch", "cuda", "nccl", "unknown")
SPARE = ("system", "python", "cuda")
_STYLES = {"error": "red", "warning": "yellow"}
NOUNS: tuple[tuple[Level, str], ...] = (("error", "error"), ("warning", "warning"), ("info", "remark"))
PARTS = {
    "health": "GPU health",
    "kernel_log": "kernel log",
    "firewall": "firewall",
    "shell": "login shell",
    "acs": "ACS",
    "installed": "libraries",
}


class DoctorBoard:
    """Takes every event; most say nothing of it."""

    def __init__(self) -> None:
        self._rows: list[Examined] = []
        self._found: list[DoctorFinding] = []
        self._saved: list[FactsSaved] = []

    def said(self, event: Event, width: int | None) -> tuple[str, list[Note]]:
        """As SettingsBoard.said."""
        match event:
            case Examined():
                self._rows.append(event)
            case DoctorFinding():
                self._found.append(event)
            case FactsSaved():
                self._saved.append(event)
            case Failure() | Ended():
                return self.rest(width)
            case _:
                pass
        return "", []

    def rest(self, width: int | None) -> tuple[str, list[Note]]:
        """What is not said yet: an end may fail to come, as where a file can't be written."""
        text = table_text(HEADS, rows(self._rows), width=width, styles=_styles(self._rows), spare=SPARE)
        text = text if self._rows else ""
        notes = [*unknown_notes(self._rows), *finding_notes(self._found), *map(_saved_note, self._saved)]
        self._rows, self._found, self._saved = [], [], []
        return text, notes


def rows(examined: Sequence[Examined]) -> list[list[str]]:
    """Cells by HEADS."""
    return [
        [
            one.node,
            "no answer" if one.lost else one.worst or "ok",
            f"{one.system} ({one.container})" if one.container else one.system,
            ", ".join(f"{number} x {name.removeprefix('NVIDIA ')}" for name, number in Counter(one.gpus).items()),
            one.driver,
            one.python,
            one.torch,
            one.cuda,
            one.nccl,
            ", ".join(PARTS.get(part, part) for part in _unseen(one)),
        ]
        for one in examined
    ]


def _unseen(one: Examined) -> dict[str, str]:
    """What is unknown of it: a host without GPUs has nothing to tell of their health, nor of what lies between them."""
    return {part: why for part, why in one.unknown.items() if one.gpus or part not in ("health", "acs")}


def _styles(examined: Sequence[Examined]) -> list[str]:
    return [_STYLES.get(one.worst or "", "") for one in examined]


def grouped(found: Iterable[DoctorFinding]) -> list[tuple[DoctorFinding, list[tuple[Finding, list[Finding]]]]]:
    """A finding of each kind and level, with all of it folded: the worst last, where a terminal's reader looks."""
    kinds: dict[tuple[str, str], list[DoctorFinding]] = {}
    for one in found:
        kinds.setdefault((one.level, one.id), []).append(one)
    return [(group[0], fold(map(as_finding, group))) for group in reversed(kinds.values())]


def as_finding(one: DoctorFinding) -> Finding:
    """For folding: nodes that differ by their names alone are told once."""
    return Finding(one.level, one.node, one.evidence, one.fix, one.host, one.hostname)


def finding_notes(found: Sequence[DoctorFinding]) -> list[Note]:
    """Each kind with its title, who has it, why, and what mends it there; then who else has it."""
    notes: list[Note] = []
    for kind, folded in grouped(found):
        (first, others), *rest = folded
        why = f"\nwhy: {kind.cause}" if kind.cause and kind.level != "info" else ""
        head = f"{kind.title} [{kind.id}]\n{first.told}{why}"
        notes += [*problem(kind.level, head, first.fix), *_likewise(first, others)]
        for one, alike in rest:
            notes.append(Note("more", one.told))
            notes += [*([Note("fix", one.fix)] if one.fix else []), *_likewise(one, alike)]
    numbers = Counter(level for level, _ in {(one.level, one.id) for one in found})
    told = [count(numbers[level], noun) for level, noun in NOUNS if numbers[level]]
    if not told:
        return notes
    more = f"{', '.join(told)}; symptom, cause and cure of one:  ncclrun explain {found[0].id}"
    return [*notes, Note("info", more)]


def _likewise(first: Finding, others: list[Finding]) -> list[Note]:
    text = same_on((first, others))
    return [Note("more", text)] if text else []


def unknown_notes(examined: Sequence[Examined]) -> list[Note]:
    """What could not be looked at, and on which nodes."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for one in examined:
        for part, why in _unseen(one).items():
            reasons.setdefault((part, why), []).append(one.node)
    return [
        Note("info", f"{listed(nodes, 8)}: {PARTS.get(part, part)} unknown: {why}")
        for (part, why), nodes in reasons.items()
        if part != "acs"
    ]


def _saved_note(event: FactsSaved) -> Note:
    masked = "secrets and addresses are masked" if event.masked else "secrets are masked, addresses are not"
    return Note("info", f"facts of {count(event.nodes, 'node')} in {event.path} ({size(event.size)}; {masked})")
