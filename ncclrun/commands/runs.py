"""`ncclrun runs`: the history of this machine, from its own records alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ncclrun.commands.history import RunDir, all_runs
from ncclrun.commands.recorded import is_followed
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import NcclrunError
from ncclrun.model.events import Event, Warn
from ncclrun.model.runevents import RecordedRun

SHOWN = 20


def history(*, everything: bool = False) -> Iterator[Event]:
    """The open runs and the last that ended, each kind oldest first; then Ended."""
    found: list[RecordedRun] = []
    runs = all_runs()
    for run in runs:
        try:
            found.append(recorded(run))
        except (NcclrunError, TypeError, ValueError, KeyError, AttributeError) as error:
            yield Warn(text=f"the record of run {run.run_id} is damaged: {error}", fix=f"rm -r {run.path}")
    going = [run for run in found if run.state != "ended"]
    over = [run for run in found if run.state == "ended"]
    yield from going
    yield from over if everything else over[-SHOWN:]
    left_out = 0 if everything else max(0, len(over) - SHOWN)
    reason = "all runs of this machine" if runs else "no run is recorded on this machine"
    if left_out:
        reason = f"{left_out} older ones are not shown (--all)"
    yield Ended(run_id="", exit_code=0, reason=reason, seconds=0.0)


def recorded(run: RunDir) -> RecordedRun:
    """What is known here of one run; raises NcclrunError, KeyError, TypeError or ValueError for a damaged record."""
    record = run.read("run.json") or {}
    end = run.end()
    started = _number(record.get("started_at"))
    ended = None if end is None else _number(end.get("ended_at"))
    seconds = None if end is None else _number(end.get("seconds"))
    if seconds is None and started is not None and ended is not None:
        seconds = ended - started
    attempt = record.get("attempt")
    return RecordedRun(
        run_id=run.run_id,
        state="ended" if end is not None else "followed" if is_followed(run) else "open",
        started_at=started,
        ended_at=ended,
        seconds=seconds,
        cluster=str(record.get("cluster", "")),
        nodes=tuple(str(row["node"]["name"]) for row in record["nodes"]),
        program=str(record.get("program", "")),
        by=str(record.get("by", "")),
        exit_code=None if end is None else int(end["exit_code"]),
        reason="" if end is None else str(end["reason"]),
        cause="" if end is None else str(end.get("cause", "")),
        attempt=attempt if isinstance(attempt, int) else None,
        directory=str(run.path),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
