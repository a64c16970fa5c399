"""The looks of `status`, `runs` and `clean`: a table each, when all was heard."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ncclrun.console.notes import Note, problem
from ncclrun.console.tables import table_text
from ncclrun.console.words import ago, count, duration, place, size
from ncclrun.model.endevents import Ended
from ncclrun.model.events import Event, Failure
from ncclrun.model.runevents import Cleaned, LeftOnNode, RecordedRun, RunOnNode
from ncclrun.model.words import listed

STATUS = ("run", "node", "state", "since", "ranks", "gpus", "last line", "by", "program")
STATUS_SPARE = ("program", "by", "gpus", "ranks")
HISTORY = ("run", "started", "took", "nodes", "program", "exit", "outcome")
HISTORY_SPARE = ("program", "nodes", "took")
CLEANED = ("where", "run", "ended", "size")
_STYLES = {"unknown": "yellow", "lost": "yellow", "gone": "dim", "ended": "dim", "running": ""}
LONGEST_LINE = 60
"""Of a worker's last line in a pipe's table, which nobody folds."""


class RunsBoard:
    """Takes every event of a command; most say nothing of runs."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._rows: list[RunOnNode] = []
        self._left: list[LeftOnNode] = []
        self._recorded: list[RecordedRun] = []
        self._cleaned: list[Cleaned] = []
        self._kept: set[Note] = set()
        """Told at the preview, and not again when it is done."""

    def said(self, event: Event, width: int | None) -> tuple[str, list[Note]]:
        """As SettingsBoard.said: lines of a result, and notes below them. ``width`` None is a pipe."""
        match event:
            case RunOnNode():
                self._rows.append(event)
            case LeftOnNode():
                self._left.append(event)
            case RecordedRun():
                self._recorded.append(event)
            case Cleaned():
                self._cleaned.append(event)
            case Failure() | Ended():
                return self.rest(width)
            case _:
                pass
        return "", []

    def rest(self, width: int | None) -> tuple[str, list[Note]]:
        """All that waits for its end; a command that asks before it goes on tells it then."""
        now = self._clock()
        text = status_text(self._rows, now, width) if self._rows else ""
        text += history_text(self._recorded, now, width) if self._recorded else ""
        text += cleaned_text([one for one in self._cleaned if one.dry_run], now, width)
        kept = [note for note in kept_notes(self._cleaned) if note not in self._kept]
        self._kept.update(kept)
        notes = [*_state_notes(self._rows), *_left_notes(self._left), *kept, *_cleaned_notes(self._cleaned)]
        self._rows, self._left, self._recorded, self._cleaned = [], [], [], []
        return text, notes


def status_text(rows: Sequence[RunOnNode], now: float, width: int | None) -> str:
    """A row for each run and node; what a run's rows share stands in its first one."""
    cells, styles, last = [], [], ""
    for row in rows:
        first = row.run_id != last or not row.run_id
        last = row.run_id
        cells.append(
            [
                row.run_id or "?" if first else "",
                row.node,
                _state(row),
                _since(row, now),
                _ranks(row),
                _gpus(row),
                _last(row, width),
                row.by if first else "",
                row.program if first else "",
            ]
        )
        styles.append(_STYLES.get(row.state, ""))
    return table_text(STATUS, cells, width=width, styles=styles, spare=STATUS_SPARE, whole=("run", "node", "state"))


def _state(row: RunOnNode) -> str:
    if row.state == "ended":
        return row.reason
    return "UNKNOWN" if row.state == "unknown" else row.state


def _since(row: RunOnNode, now: float) -> str:
    if row.since is None:
        return "no answer now" if row.state == "unknown" else ""
    return ago(now - row.since)


def _ranks(row: RunOnNode) -> str:
    """``0-7``, and how many of them live where that is not all."""
    ranks = row.ranks or (count(row.nproc, "rank") if row.nproc else "")
    if row.state in ("running", "stopping", "lost") and row.ranks_alive not in (None, row.nproc):
        return f"{ranks} ({row.ranks_alive} alive)"
    return ranks


def _gpus(row: RunOnNode) -> str:
    """``0-1: 12 GB``: which, and what the run has in them together."""
    if row.gpus is None:
        return ""
    if not row.gpus:
        return "none in use" if row.state == "running" else ""
    names = ",".join(gpu.uuid[:12] if gpu.index is None else str(gpu.index) for gpu in row.gpus)
    known = [gpu.memory for gpu in row.gpus if gpu.memory is not None]
    return f"{names}: {size(sum(known) << 20)}" if known else names


def _last(row: RunOnNode, width: int | None) -> str:
    """How it ended, else what its workers said last."""
    if row.exit and row.state == "ended" and row.reason != "finished":
        return row.exit
    if row.state in ("unknown", "gone", "lost") and not row.last:
        return ""
    text = row.last if width is not None else row.last[:LONGEST_LINE]
    return text if row.last_rank is None or not text else f"{row.last_rank} | {text}"


def _state_notes(rows: Sequence[RunOnNode]) -> list[Note]:
    """What the states that need somebody mean, and what to do."""
    notes: list[Note] = []
    for state, level in (("lost", "warning"), ("gone", "info")):
        found: dict[tuple[str, str], list[RunOnNode]] = {}
        for row in rows:
            if row.state == state:
                found.setdefault((row.run_id, row.reason), []).append(row)
        for (run_id, reason), alike in found.items():
            text = f"run {run_id} on {listed([row.node for row in alike], 8)}: {reason}"
            if level == "warning":
                notes += problem("warning", text, f"ncclrun stop {run_id}")
            elif "removed" not in reason:
                notes.append(Note("info", text))
    return notes


def _left_notes(found: Sequence[LeftOnNode]) -> list[Note]:
    notes: list[Note] = []
    for left in found:
        where = place(left.node, left.host)
        text = (
            f"{where}: processes of run {left.run_id} live there ({len(left.processes)}), and its directory is not in "
            f"the usual place (it was removed, or lies under another XDG_STATE_HOME):\n" + "\n".join(left.processes[:8])
        )
        notes += problem("warning", text, f"ssh {left.host} kill {' '.join(p.split()[0] for p in left.processes)}")
    return notes


# --- runs


def history_text(rows: Sequence[RecordedRun], now: float, width: int | None) -> str:
    """The history, newest last."""
    cells = [
        [
            row.run_id if row.attempt in (None, 1) else f"{row.run_id} (attempt {row.attempt})",
            "" if row.started_at is None else ago(now - row.started_at),
            "" if row.seconds is None else duration(row.seconds),
            f"{len(row.nodes)}: {listed(row.nodes, 2)}",
            row.program,
            "" if row.exit_code is None else str(row.exit_code),
            _outcome(row),
        ]
        for row in rows
    ]
    styles = ["" if row.exit_code == 0 else "yellow" if row.exit_code is None else "red" for row in rows]
    return table_text(HISTORY, cells, width=width, styles=styles, spare=HISTORY_SPARE, whole=("run",))


def _outcome(row: RecordedRun) -> str:
    if row.state == "followed":
        return "going on, followed here"
    if row.state == "open":
        return f"open: ncclrun status {row.run_id}"
    return f"{row.reason}: {row.cause}" if row.cause else row.reason


# --- clean


def cleaned_text(places: Sequence[Cleaned], now: float, width: int | None) -> str:
    """What would go, a row for each directory; "" where nothing does."""
    rows = []
    for one in places:
        where = one.node or "here"
        rows += [
            [where, old.run_id, "" if old.ended_at is None else ago(now - old.ended_at), size(old.size)]
            for old in one.removed
        ]
        if one.code:
            rows.append([where, "(sent code)", "", size(one.code)])
    return table_text(CLEANED, rows, width=width, whole=CLEANED) if rows else ""


def kept_notes(places: Sequence[Cleaned]) -> list[Note]:
    """What stays, and why; the nodes that say the same of a run in one line."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in places:
        for kept in one.kept:
            found.setdefault((kept.run_id, kept.why), []).append(one.node or "here")
    return [Note("info", f"{listed(where, 8)}: run {run_id} is kept: {why}") for (run_id, why), where in found.items()]


def _cleaned_notes(places: Sequence[Cleaned]) -> list[Note]:
    notes: list[Note] = []
    gone = [old.size for one in places for old in one.removed]
    total = sum(gone) + sum(one.code for one in places)
    if total or gone:
        done = "to remove" if places[0].dry_run else "removed"
        notes.append(
            Note("info", f"{done}: {size(total)} in {len(gone)} director{'y' if len(gone) == 1 else 'ies'} of runs")
        )
    return notes
