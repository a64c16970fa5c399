"""One diagnosis of all that shows in the logs: what explains others comes before them, class before place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ncclrun.diagnosis.explain.catalogue import BY_ID
from ncclrun.diagnosis.explain.own import SURVIVED, last_complaint, own_exceptions
from ncclrun.diagnosis.explain.rules import rule_hits
from ncclrun.diagnosis.explain.scan import Hits, LogScan, Place
from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import filled, mended
from ncclrun.diagnosis.outcome import ranges
from ncclrun.model.explainevents import Evidence, Explained, FoundFault, Verdict
from ncclrun.model.secrets import text_shown

MOST_OTHERS = 3
SHOWN = 300
"""Characters of a line that is shown as evidence."""
OUTLIVED = 20
"""Lines of training after which what came before is rather not what ended it."""
ENDED = ("stopped", "timeout", "stalled")
"""Reasons of a run that was ended from outside, and not by a failure."""
_RAISED = re.compile(r"\w(?:[Ee]rror|Exception): ")
_NO_INFO = (
    "NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET: interfaces, addresses, versions, settings",
    "TORCH_DISTRIBUTED_DEBUG=DETAIL: which collective of which rank does not fit",
    "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 with TORCH_NCCL_DUMP_ON_TIMEOUT=1: the last collectives of each rank, at a "
    "time-out",
    "ncclrun launch --stall 5m: the stack of every rank when none prints any more",
)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """How a run ended by its own record; ``reason`` as of Ended, "" where no end is known."""

    run_id: str = ""
    reason: str = ""
    cause: str = ""
    """Who failed first, and how: ``rank 3 on gpu2: signal 11 (SIGSEGV)``; "" for a run that did not fail."""
    rank: int | None = None
    """The rank that failed first."""
    hint: str = ""
    cluster: str = ""
    """What names the cluster on a command line."""

    @property
    def end(self) -> str:
        """In a few words."""
        return _short(": ".join(filter(None, (self.reason, self.cause))))


@dataclass(slots=True)
class _Shown:
    """A signature in all logs."""

    signature: Signature
    places: list[Place] = field(default_factory=list)
    lines: int = 0
    speakers: set[tuple[str, int | None]] = field(default_factory=set)
    live: bool = False
    """In some log nothing that tells of success comes after it."""
    outlived: bool = True
    """In every log training went on for long after it."""
    parting: bool = True
    """In every log it came only after the work was done: processes that end one after the other lose each other."""

    def add(self, log: LogScan, hits: Hits, enough: int) -> None:
        """``enough``: lines of training after it that tell that it was survived."""
        self.places += hits.places
        self.lines += hits.lines
        self.speakers |= hits.speakers
        after = log.progress.steps - hits.steps
        self.live = self.live or (log.progress.went == hits.went and after < enough)
        self.parting = self.parting and hits.parting
        # Where the streams come in their order the lines after it are the same rank's.
        self.outlived = self.outlived and after >= (OUTLIVED if enough < SURVIVED else SURVIVED)

    @property
    def fatal(self) -> bool:
        """Whether it tells that something failed."""
        lost = self.signature.weight is Weight.CONSEQUENCE and self.signature.network
        return self.signature.weight >= Weight.CONSEQUENCE and not self.circumstance and not (lost and self.parting)

    @property
    def circumstance(self) -> bool:
        """An ordinary line, unless an exception says it."""
        return self.signature.circumstance and not any(_RAISED.search(place.text) for place in self.places)


def judge(logs: Sequence[LogScan], record: Recorded = Recorded()) -> Explained:
    """The diagnosis of the logs, and of what a run's record says of its end."""
    suspect, succeeded = record.rank, record.reason == "finished"
    told = partial(_found, suspect=suspect, own={"cluster": record.cluster} if record.cluster else {})
    enough = SURVIVED if record.reason else 1
    shown = [one for one in _shown(logs, enough) if not succeeded or one.signature.weight is Weight.REMARK]
    fatal = [one for one in shown if one.fatal]
    troubled = any(one.live for one in fatal)
    cut_off = any(one.signature.network and one.live for one in fatal)
    faults = fatal if troubled else []
    fitting = [one for one in shown if one.circumstance and not one.outlived]
    faults += [one for one in fitting if cut_off or (one.live and _unfinished(logs, one))]
    ranked = sorted(_unexplained(faults), key=lambda one: _key(one, suspect))
    best = ranked[0] if ranked else None
    speakers = {who for log in logs for who in _speakers(log)}.union(*(one.speakers for one in shown))
    verdict, confidence = _by_record(record, best) or _verdict(best, ranked, logs)
    if verdict in ("failed", "stopped"):
        best = None
    rivals = [one for one in ranked[1:] if best and _rivals(one, best)][:MOST_OTHERS]
    rest = [one for one in faults if one is not best and one not in rivals]
    return Explained(
        verdict=verdict,
        found=None if best is None else told(best),
        confidence=confidence,
        consequences=tuple(told(one) for one in sorted(rest, key=lambda one: _key(one, suspect))),
        others=tuple(map(told, rivals)),
        remarks=tuple(told(one) for one in shown if one.signature.weight is Weight.REMARK),
        more=_more(verdict, best, logs),
        files=len(logs),
        lines=sum(log.lines for log in logs),
        hosts=tuple(sorted({host for host, _ in speakers if host})),
        ranks=_ranks(speakers),
        run_id=record.run_id,
        recorded=record.end,
        hint=record.hint if verdict == "failed" else "",
    )


def _shown(logs: Sequence[LogScan], enough: int) -> Iterator[_Shown]:
    found: dict[str, _Shown] = {}
    for log in logs:
        for name, hits in log.hits.items():
            found.setdefault(name, _Shown(BY_ID[name])).add(log, hits, enough)
        if own := own_exceptions(log):
            # It stands at the log's end, whatever other ranks of the same log printed after it.
            hits = Hits(
                len(own), own, {(place.host, place.rank) for place in own}, log.progress.went, log.progress.steps
            )
            found.setdefault("program", _Shown(BY_ID["program"])).add(log, hits, enough)
    for name, log, hits in rule_hits(logs):
        found.setdefault(name, _Shown(BY_ID[name])).add(log, hits, enough)
    yield from found.values()


def _unfinished(logs: Sequence[LogScan], one: _Shown) -> bool:
    """NCCL began where this shows, and never said that it was ready."""
    names = {place.log for place in one.places}
    return any(log.name in names and ("bootstrap" in log.facts or "sockets" in log.facts) for log in logs)


def _unexplained(faults: Sequence[_Shown]) -> list[_Shown]:
    """Those that no other one brings about."""
    explained = {name for one in faults for name in one.signature.over}
    return [one for one in faults if one.signature.id not in explained]


def _key(one: _Shown, suspect: int | None) -> tuple[object, ...]:
    return (
        one.outlived,
        -one.signature.weight,
        one.signature.id != "program",
        one.signature.waiting,
        one.circumstance,
        suspect is not None and all(rank != suspect for _, rank in one.speakers),
        min(place.line for place in one.places),
    )


def _rivals(one: _Shown, best: _Shown) -> bool:
    """Whether it may be the cause in the other's place: of no less weight, or the program's own error."""
    if one.signature.waiting and not best.signature.waiting:
        return False
    if one.outlived and not best.outlived and best.signature.weight > Weight.CONSEQUENCE:
        return False
    return one.signature.weight >= best.signature.weight or one.signature.id == "program"


def _by_record(record: Recorded, best: _Shown | None) -> tuple[Verdict, str] | None:
    """Where the run's record says more than its logs."""
    if record.reason == "finished":
        return "healthy", "the run ended well: exit code 0 on all nodes"
    if best is not None and best.signature.weight > Weight.CONSEQUENCE:
        return None
    if record.cause:
        return "failed", "sure of who failed first: the run's own record has it; no line of its logs says why"
    if record.reason in ENDED:
        return "stopped", "the run was ended from outside, and no line of its logs tells of a fault before"
    return None


def _verdict(best: _Shown | None, ranked: Sequence[_Shown], logs: Sequence[LogScan]) -> tuple[Verdict, str]:
    if best is None:
        if complaint := next(filter(None, map(last_complaint, logs)), ""):
            return "nothing", f"the end speaks of an error that is not known here: {text_shown(complaint)[:SHOWN]}"
        if any(log.progress.went or log.progress.steps for log in logs):
            return "healthy", "the logs show work that went on, and no sign of a fault after it"
        return "nothing", "no line of any known fault, and none that tells of success either"
    if best.signature.weight is Weight.CONSEQUENCE:
        return "consequence", "all that is found follows from something else, which none of these logs tells"
    alike = sum(_rivals(one, best) for one in ranked) - 1
    among = f", one of {alike + 1} that may be it" if alike else ""
    if best.signature.weight is Weight.COMPONENT and best.signature.id != "program":
        return "component", f"sure of what failed; why it did is told by no line{among}"
    if best.circumstance:
        return "cause", f"likely: an ordinary line that fits to what failed afterwards{among}"
    if best.outlived:
        return "cause", f"a guess: training went on for long after this line{among}"
    if best.signature.likely:
        return "cause", f"likely: the line allows other causes, too{among}"
    return "cause", f"likely{among}" if alike else "sure: this line names the cause itself"


def _found(one: _Shown, suspect: int | None, own: Mapping[str, str]) -> FoundFault:
    places = sorted(one.places, key=lambda place: (suspect is not None and place.rank != suspect, place.line))
    first = places[0]
    known = {"host": first.host} if first.host else {}
    known |= {name: value for place in reversed(places) for name, value in place.known.items()}
    known |= first.known
    known |= own
    signature = one.signature
    apart = {(place.host, place.rank, place.log): place for place in reversed(places)}
    return FoundFault(
        id=signature.id,
        title=signature.title,
        cause=text_shown(filled(signature.cause, known)),
        fix=mended(signature.cure, known),
        check=signature.before,
        evidence=tuple(_evidence(place) for place in list(reversed(apart.values()))[:MOST_OTHERS]),
        lines=one.lines,
        ranks=_ranks(one.speakers),
        hosts=tuple(sorted({host for host, _ in one.speakers if host})),
    )


def _evidence(place: Place) -> Evidence:
    text = _short(text_shown(place.text))
    return Evidence(file=place.log, line=place.line, host=place.host, rank=place.rank, text=text)


def _speakers(log: LogScan) -> set[tuple[str, int | None]]:
    """Whose the log is, and who else is known to speak in it."""
    said = [hits.speakers for hits in (*log.hits.values(), *log.facts.values())]
    return {(log.host, log.rank)}.union(*said)


def _ranks(speakers: set[tuple[str, int | None]]) -> str:
    return ranges(sorted({rank for _, rank in speakers if rank is not None}))


def _more(verdict: Verdict, best: _Shown | None, logs: Sequence[LogScan]) -> tuple[str, ...]:
    """Words about the network help only where that is what failed, or where nobody knows."""
    if verdict in ("healthy", "cause") or (verdict == "component" and best and not best.signature.network):
        return ()
    return _NO_INFO[1:] if any(log.speaks_info for log in logs) else _NO_INFO
