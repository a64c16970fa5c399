"""The verdict: of all that ended badly on any node, the one failure that came first, and the exit code it makes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ncclrun.diagnosis.failures import (
    Belief,
    Failure,
    failures_of,
    last_words,
    out_of_memory,
    signal_name,
    stop_asked_at,
    unheard,
)
from ncclrun.diagnosis.stderr import tells_of_another
from ncclrun.model.endevents import Cause, NodeSummary
from ncclrun.model.errors import EXIT_INTERRUPTED, EXIT_STALLED, EXIT_TIMEOUT
from ncclrun.model.outcome import NodeEnd, Outcome, Reason, StoppedBy

_TRAVELS = "Did it travel? The script's directory does, less what .gitignore names, and is the working directory there."
_HINTS = {
    "SIGSEGV": "A crash in native code: --env PYTHONFAULTHANDLER=1 shows the Python lines that led there.",
    "SIGBUS": "Often a full /dev/shm: look at `df -h /dev/shm` on that host.",
    "FileNotFoundError": _TRAVELS,
    "ModuleNotFoundError": _TRAVELS,
    "the data link is cut": "`ncclrun ping` with the cluster file shows who reaches whom on the run's network.",
    "SIGTERM": "ncclrun did not send it: a person did, or the host as it went down or was preempted.",
    "SIGKILL": "ncclrun did not send it: the kernel's out-of-memory killer or a person did; see `dmesg` there.",
}
_NAMED = 3
_SHORT = 100
_SOURCE_PLACE = re.compile(r"\[[^\]\s]*:\d+\] ")
"""``[/path/pair.cc:553] `` in the messages of libraries."""
_OUT_OF_MEMORY = "The kernel's out-of-memory killer ended it: the host's (or the container's) memory was full."


def first_failure(ends: Sequence[NodeEnd], *, stopped_by: StoppedBy = "") -> Outcome:
    """One cause for the whole run, and the exit code: the cause's own, 128+n for a signal, 255 for a lost host.

    Class goes before time (see ``failures.Belief``); within a class the earliest on our clock is the cause. When the
    user, the timeout or a stall stopped the run, only what had failed by itself before that is a cause; else it is 130,
    124 or 123.
    """
    failed = [failures_of(end) for end in ends]
    failures = [*(failure for of_node in failed for failure in of_node), *last_words(ends), *unheard(ends)]
    candidates = [failure for failure in failures if failure.belief < Belief.STOPPED]
    if stopped_by:
        asked = min((at for end in ends if (at := stop_asked_at(end)) is not None), default=-math.inf)
        candidates = [failure for failure in candidates if failure.belief < Belief.LOST and failure.at < asked]
    cause = min(candidates, key=lambda failure: failure.key, default=None)
    reason: Reason = "finished"
    exit_code = 0
    if cause is not None:
        reason = "lost" if cause.belief is Belief.LOST else "failed"
        exit_code = cause.exit_code
    elif stopped_by in ("timeout", "stalled"):
        reason, exit_code = stopped_by, EXIT_TIMEOUT if stopped_by == "timeout" else EXIT_STALLED
    elif stopped_by or failures or any(stop_asked_at(end) is not None for end in ends):
        reason, exit_code = "stopped", EXIT_INTERRUPTED
    return Outcome(
        exit_code=exit_code,
        reason=reason,
        cause=None if cause is None else _cause(cause),
        victims=tuple(text for end, mine in zip(ends, failed, strict=True) for text in _victims(end, mine, cause)),
        nodes=tuple(_summary(end, mine, cause) for end, mine in zip(ends, failed, strict=True)),
    )


def _cause(failure: Failure) -> Cause:
    name = signal_name(failure.signal) if failure.signal is not None else ""
    return Cause(
        node=failure.end.node,
        node_rank=failure.end.node_rank,
        host=failure.end.host,
        rank=failure.rank,
        how=failure.how + (", out of memory" if out_of_memory(failure) else ""),
        exit_code=failure.exit_code,
        exception=failure.exceptions[-1] if failure.exceptions else "",
        tail=failure.tail,
        time=failure.at if math.isfinite(failure.at) else None,
        hint=_OUT_OF_MEMORY if out_of_memory(failure) else _HINTS.get(name or _exception_type(failure), ""),
    )


def _exception_type(failure: Failure) -> str:
    return failure.exceptions[-1].partition(":")[0] if failure.exceptions else ""


def _victims(end: NodeEnd, failures: Sequence[Failure], cause: Failure | None) -> list[str]:
    """What became of the node's others: those that were stopped in one text, those that failed in another."""
    if end.refused is not None:
        return []  # told by each node when it refused; nothing of the run ever lived there
    mine = [failure for failure in failures if failure is not cause]
    silent = [failure for failure in mine if _is_silent(failure)]
    away = [failure for failure in mine if failure.belief is Belief.LOST]
    loud = [failure for failure in mine if not _is_silent(failure) and failure not in away]
    # A stop may catch one in the slow end of a program that its own exception is ending: that is worth knowing.
    torn = [f for f in silent if f.exceptions and not tells_of_another(f.exceptions)]
    stopped = {f.rank for f in silent if f.rank is not None and f not in torn} | _stopped_unseen(end)
    texts = [f"{_ranks(sorted(stopped))} on {end.node} stopped"] if stopped or (silent and not torn) else []
    if torn:
        same = cause is not None and all(f.exceptions[-1:] == cause.exceptions[-1:] for f in torn)
        what = "raised the same" if same else f"was ending too ({_short(torn[0].exceptions[-1])})"
        texts.append(f"{_ranks([f.rank for f in torn if f.rank is not None])} on {end.node} {what}")
    texts += [f"{end.node} lost ({_short(failure.exceptions[-1])})" for failure in away]
    if loud:
        said = loud[0].exceptions[-1] if loud[0].exceptions else loud[0].how
        texts.append(f"{_ranks([f.rank for f in loud if f.rank is not None])} on {end.node} failed ({_short(said)})")
    return texts


def _is_silent(failure: Failure) -> bool:
    """torchrun's siblings die of a signal and say nothing: who reads this wants them with those that we stopped."""
    return failure.belief is Belief.STOPPED or (failure.belief is Belief.CONSEQUENCE and not failure.exceptions)


def _stopped_unseen(end: NodeEnd) -> set[int]:
    """Ranks that torchrun ended and reaped before anybody could read how: all that is known is that it was asked to."""
    return {
        end.first_rank + int(entry["local_rank"])
        for entry in (end.record or {}).get("ranks") or ()
        if entry.get("stopped") and entry.get("code") is None and entry.get("signal") is None
    }


def _short(said: str) -> str:
    """A victim's words are read in passing: without the place in somebody's source, and not too many."""
    said = _SOURCE_PLACE.sub("", said)
    return said if len(said) <= _SHORT else said[: _SHORT - 1].rstrip() + "…"


def _ranks(ranks: Sequence[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {ranges(ranks)}" if ranks else "launcher"


def ranges(numbers: Sequence[int]) -> str:
    """``0-3,6`` for 0, 1, 2, 3, 6."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def _summary(end: NodeEnd, failures: Sequence[Failure], cause: Failure | None) -> NodeSummary:
    record = end.record or {}
    survivors = record.get("survivors") or ()
    return NodeSummary(
        node=end.node,
        node_rank=end.node_rank,
        host=end.host,
        ranks=ranges(range(end.first_rank, end.first_rank + end.nproc)),
        state=_state(end, failures, cause),
        exit=_exits(end, failures),
        seconds=_seconds(record),
        # A node that refused never had anything of the run, and a reboot leaves nothing of it; one that said its end
        # says itself what still lives.
        confirmed=end.refused is not None or end.rebooted or end.gone or (end.record is not None and not survivors),
        detail=_detail(end, record),
    )


def _state(end: NodeEnd, failures: Sequence[Failure], cause: Failure | None) -> str:
    if end.refused is not None:
        return "not started"
    if end.record is None:
        return "running" if end.lost is None else "rebooted" if end.rebooted else "gone" if end.gone else "unknown"
    if not failures:
        return "stopped" if end.record.get("reason") == "stopped" else "finished"
    if end.record.get("reason") == "lost":
        return "lost"
    own = cause in failures or any(failure.belief < Belief.CONSEQUENCE for failure in failures)
    return "failed" if own else "stopped"


def _exits(end: NodeEnd, failures: Sequence[Failure]) -> str:
    """The exit codes and signals that differ from 0, the most telling first; "0" when all did well."""
    if end.record is None:
        return ""
    shown: list[str] = []
    for failure in sorted(failures, key=lambda failure: failure.key):
        text = str(failure.exit_code) if failure.signal is None else signal_name(failure.signal)
        if text not in shown and (failure.rank is not None or len(failures) == 1):
            shown.append(text)
    return ", ".join(shown[:_NAMED]) or ("0" if end.record.get("reason") == "finished" else "")


def _seconds(record: Mapping[str, Any]) -> float | None:
    started, ended = record.get("started_at"), record.get("ended_at")
    if isinstance(started, (int, float)) and isinstance(ended, (int, float)):
        return max(0.0, float(ended) - float(started))
    return None


def _detail(end: NodeEnd, record: Mapping[str, Any]) -> str:
    texts = [text for text in (end.refused, end.lost) if text]
    if survivors := record.get("survivors"):
        named = [f"{one.get('pid')} {one.get('command', '')}".strip() for one in survivors]
        texts.append(f"{len(survivors)} still alive: {', '.join(named[:_NAMED])}{', …' if named[_NAMED:] else ''}")
    if lost := sum((record.get("lost_bytes") or {}).values()):
        why = record.get("lost_why")
        texts.append(f"{lost} bytes of log lost on the node" + (f" ({why})" if why else ""))
    return "; ".join(texts)
