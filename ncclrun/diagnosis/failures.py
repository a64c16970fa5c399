"""Everything that ended badly on one node, each with how much it is to be believed as the cause."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from signal import SIGKILL, SIGTERM, Signals
from typing import Any

from ncclrun.diagnosis.stderr import error_file_message, exceptions_in, last_lines, tells_of_another
from ncclrun.diagnosis.torchrun import ReportedFailure, parse_torchrun_report
from ncclrun.model.errors import EXIT_NOT_STARTED, EXIT_UNREACHABLE
from ncclrun.model.outcome import NodeEnd

_SAID = re.compile(r"(?:rank (?P<rank>\d+)|torchrun) failed \((?P<what>exit code|signal) (?P<number>\d+)\)")
"""As node/supervisor.py tells the other nodes of a failure."""
_TERMINATED = re.compile(r"SignalException: .*got signal: (?P<number>\d+)")
"""torchrun's last words when somebody ends it by a signal that it can still act upon: it stops its workers first."""


class Belief(IntEnum):
    """Classes of failures: any of an earlier class is the cause before any of a later one, whatever the clocks say."""

    OWN = 0
    """An exception or an exit code of its own."""
    SIGNAL = 1
    """Killed by a signal that neither we nor torchrun sent."""
    LAUNCHER = 2
    """torchrun itself died, and no worker before it."""
    LOST = 3
    """The host or our supervisor went away."""
    LATE = 4
    """An exception of its own, but after we had asked it to stop: a process may take long to die of it."""
    CONSEQUENCE = 5
    """Its words tell of a peer's death, or torchrun stopped it because of a sibling."""
    STOPPED = 6
    """We stopped it."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One bad end.

    ``rank`` is None for the launcher or the host as a whole; ``at`` is on our clock, infinite if unknown.
    """

    belief: Belief
    end: NodeEnd
    at: float
    order: int
    """Decides between equal times on one node."""
    rank: int | None
    how: str
    exit_code: int
    signal: int | None = None
    exceptions: tuple[str, ...] = ()
    tail: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[int, float, int, int]:
        """The smallest is the cause."""
        return (self.belief, self.at, self.end.node_rank, self.order)


def failures_of(end: NodeEnd) -> tuple[Failure, ...]:
    """The node's failures in no particular order; () when all went well, or when the node still runs."""
    if end.refused is not None:
        # It never ran, so nothing can have come before it.
        if end.unreached:
            return (_whole_node(end, Belief.LOST, -math.inf, "lost its link before the start", end.refused),)
        return (_whole_node(end, Belief.OWN, -math.inf, "refused to start", end.refused),)
    if end.record is None:
        if end.lost is None:
            return ()
        at = math.inf if end.lost_at is None else end.lost_at
        return (_whole_node(end, Belief.LOST, at, "run directory lost" if end.gone else "host lost", end.lost),)
    workers = _after_siblings(_worker_failures(end, end.record), end.record)
    launcher = _launcher_failure(end, end.record, workers)
    if launcher is not None:
        # What the launcher takes down with it is no cause.
        taken = [w for w in workers if w.signal in (SIGTERM, SIGKILL) or launcher.signal not in (None, SIGKILL)]
        workers = [replace(w, belief=max(w.belief, Belief.CONSEQUENCE)) if w in taken else w for w in workers]
        workers.append(launcher)
    if end.record.get("reason") == "lost":
        message = str(end.record.get("detail") or "the supervisor died without writing how the run ended")
        at = _time(end, end.record.get("ended_at"))
        workers.append(_whole_node(end, Belief.LOST, at, "supervisor lost", message))
    elif not workers and end.record.get("reason") == "failed":
        at = _time(end, end.record.get("ended_at"))
        workers.append(_whole_node(end, Belief.LAUNCHER, at, "failed, exit code unknown", ""))
    return tuple(workers)


def unheard(ends: Sequence[NodeEnd]) -> tuple[Failure, ...]:
    """The node whose silence made others stop, if any; of several (a cut between two), the one most often told of.

    It tells how that node looked to others: whatever is known of a node itself goes before.
    """
    told: dict[int, list[str]] = {}
    for end in ends:
        stop = (end.record or {}).get("stop")
        if stop and stop.get("lost"):
            told.setdefault(int(stop["origin"]), []).append(str(stop.get("reason") or ""))
    named = [end for end in ends if end.node_rank in told]
    if not named:
        return ()
    end = max(named, key=lambda end: (len(told[end.node_rank]), end.node_rank))
    return (_whole_node(end, Belief.LOST, math.inf, "lost to the other nodes", told[end.node_rank][0]),)


def last_words(ends: Sequence[NodeEnd]) -> tuple[Failure, ...]:
    """What lost nodes had told the others before that: a failure whose record nobody can read any more."""
    lost = {end.node_rank: end for end in ends if end.record is None and end.lost is not None}
    found = []
    for end in ends:
        stop = (end.record or {}).get("stop") or {}
        teller, said = lost.get(stop.get("origin", -1)), _SAID.fullmatch(str(stop.get("reason") or ""))
        if teller is not None and said is not None:
            number = int(said["number"])
            signal = number if said["what"] == "signal" else None
            how, exit_code = _end_of(None if signal else number, signal)
            found.append(
                Failure(
                    belief=Belief.LOST,
                    end=teller,
                    at=_time(end, stop.get("asked_at")),
                    order=-2,
                    rank=None if said["rank"] is None else int(said["rank"]),
                    how=how if said["rank"] is not None else f"torchrun: {how}",
                    exit_code=exit_code,
                    signal=signal,
                )
            )
    return tuple(found)


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; ``signal 37`` for one that has no name."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def stop_asked_at(end: NodeEnd) -> float | None:
    """When this node was asked to stop, on our clock; None if it never was."""
    stop = end.record.get("stop") if end.record else None
    at = _time(end, stop.get("asked_at")) if isinstance(stop, Mapping) else math.inf
    return None if at == math.inf else at


def out_of_memory(failure: Failure) -> bool:
    """Whether the kernel's out-of-memory killer is behind a SIGKILL."""
    return failure.signal == SIGKILL and failure.rank is not None and bool((failure.end.record or {}).get("oom_kills"))


def _time(end: NodeEnd, at: object) -> float:
    return float(at) - end.clock_offset if isinstance(at, (int, float)) else math.inf


def _whole_node(end: NodeEnd, belief: Belief, at: float, how: str, message: str) -> Failure:
    exit_code = {Belief.OWN: EXIT_NOT_STARTED, Belief.LOST: EXIT_UNREACHABLE}.get(belief, 1)
    told = (message,) if message else ()
    return Failure(belief=belief, end=end, at=at, order=-1, rank=None, how=how, exit_code=exit_code, exceptions=told)


def _end_of(code: int | None, signal: int | None) -> tuple[str, int]:
    """How it ended, in words, and the exit code that a shell would give it."""
    if signal is None:
        return f"exit code {code}", 1 if code is None else code
    name = signal_name(signal)
    return f"signal {signal} ({name})" if name.startswith("SIG") else name, 128 + signal


def _worker_failures(end: NodeEnd, record: Mapping[str, Any]) -> list[Failure]:
    """The workers that did not end with 0, torchrun's report filling in what the node could not see itself."""
    report = parse_torchrun_report(record.get("launcher_tail") or "") if end.launcher == "torchrun" else ()
    told = {failure.local_rank: failure for failure in report}
    found: list[Failure] = []
    for entry in [*_entries(record), *_unseen(record, report)]:
        code, signal = entry.get("code"), entry.get("signal")
        reported = told.get(entry["local_rank"])
        if code is None and signal is None and reported is not None:
            code, signal = reported.code, reported.signal
        if signal is None and code in (None, 0):
            continue
        found.append(_worker_failure(end, entry, code, signal, root=reported is None or reported.root))
    return found


def _entries(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(record.get("ranks") or ())


def _unseen(record: Mapping[str, Any], report: Iterable[ReportedFailure]) -> list[Mapping[str, Any]]:
    seen = {entry["local_rank"] for entry in _entries(record)}
    return [{"local_rank": failure.local_rank} for failure in report if failure.local_rank not in seen]


def _worker_failure(
    end: NodeEnd, entry: Mapping[str, Any], code: int | None, signal: int | None, *, root: bool
) -> Failure:
    tail = entry.get("tail") or ""
    exceptions = exceptions_in(tail)
    if message := error_file_message(entry.get("error")):
        exceptions = (*exceptions[:-1], message)
    ended_at = entry.get("ended_at")
    how, exit_code = _end_of(code, signal)
    return Failure(
        belief=_belief(bool(entry.get("stopped")), signal, exceptions),
        end=end,
        at=_time(end, (end.record or {}).get("ended_at") if ended_at is None else ended_at),
        order=entry["local_rank"] if root else end.nproc + entry["local_rank"],
        rank=end.first_rank + entry["local_rank"],
        how=how,
        exit_code=exit_code,
        signal=signal,
        exceptions=exceptions,
        tail=last_lines(tail),
    )


def _belief(stopped: bool, signal: int | None, exceptions: tuple[str, ...]) -> Belief:
    if tells_of_another(exceptions):
        return Belief.STOPPED if stopped else Belief.CONSEQUENCE
    if stopped:
        return Belief.LATE if exceptions and signal is None else Belief.STOPPED
    # An uncaught C++ exception ends in SIGABRT: it speaks for itself as a Python one does.
    return Belief.OWN if signal is None or exceptions else Belief.SIGNAL


def _after_siblings(workers: list[Failure], record: Mapping[str, Any]) -> list[Failure]:
    """After a first failure torchrun sends the node's other workers SIGTERM, and SIGKILL to those that stay."""
    sent = (SIGTERM,) if record.get("oom_kills") else (SIGTERM, SIGKILL)
    first = min(workers, key=lambda w: (w.at, w.signal in sent, w.order), default=None)
    for at, worker in enumerate(workers):
        if worker is not first and worker.signal in sent:
            last = worker.order + 2 * worker.end.nproc
            workers[at] = replace(worker, belief=max(worker.belief, Belief.CONSEQUENCE), order=last)
    return workers


def _launcher_failure(end: NodeEnd, record: Mapping[str, Any], workers: list[Failure]) -> Failure | None:
    """torchrun's own death: by a signal, by an exception that is no report on a worker, or before any worker ran.

    One that had been asked to end, or that had little time left after a worker's failure, died of that.
    """
    launcher = record.get("launcher")
    if not isinstance(launcher, Mapping):
        return None
    code, signal = launcher.get("code"), launcher.get("signal")
    tail = record.get("launcher_tail") or ""
    exceptions = exceptions_in(tail)
    terminated = _TERMINATED.search(exceptions[-1]) if exceptions else None
    if terminated is not None and launcher.get("terminated") is False:
        # Its workers are gone before it is, and it may have had no time left after them.
        code, signal, exceptions = None, int(terminated["number"]), ()
    elif launcher.get("stopped") or (signal is None and code in (None, 0)):
        return None
    reports = any("ChildFailedError" in line for line in exceptions) or bool(parse_torchrun_report(tail))
    broke = signal is not None or (bool(exceptions) and not reports)
    if workers and not broke:
        return None
    how, exit_code = _end_of(code, signal)
    return Failure(
        belief=Belief.CONSEQUENCE if signal is None and tells_of_another(exceptions) else Belief.LAUNCHER,
        end=end,
        at=_time(end, record.get("ended_at")),
        order=-1,
        rank=None,
        how=f"torchrun: {how}",
        exit_code=exit_code,
        signal=signal,
        exceptions=() if reports else exceptions,
        tail=last_lines(tail),
    )
