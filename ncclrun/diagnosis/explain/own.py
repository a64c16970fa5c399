"""The exceptions that a program raised of its own, at the end of a log of one or of many ranks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from ncclrun.diagnosis.explain.catalogue import ALL
from ncclrun.diagnosis.explain.scan import DONE, STEP, LogScan, Place
from ncclrun.diagnosis.explain.signature import Weight
from ncclrun.diagnosis.explain.speakers import speaker
from ncclrun.diagnosis.stderr import IGNORED, TRACEBACK, raises, tells_of_another

SURVIVED = 2
"""Lines of training after a traceback that tell that it ended nothing; one may be another rank's."""
_COMPLAINT = re.compile(
    r"^(?:\w+\.)*\w*(?:Error|Exception)(?::|$)|\b(?:Killed|CANCELLED|OOMKilled|Out Of Memory)\b|\bSegmentation fault\b"
    r"|\bBus error\b|\bcore dumped\b|\bterminate called\b|\bError response from daemon\b|\bon signal \d"
    r"|\b(?:exit(?:ed)?[ _]?(?:code|status)|return code)\b\W{0,5}[1-9]",
    re.MULTILINE,
)
"""What no work that went well ends with, whoever says it."""
_FRAME, _FRAME_END = "╭", "╰"
"""rich draws a frame around a traceback; the exception's line stands below it."""


def own_exceptions(log: LogScan) -> list[Place]:
    """The line that ends each traceback, but for those that tell of another process, for known faults, and for what its
    process survived."""
    lines = log.tail.split("\n")
    waiting: set[tuple[str, int | None]] = set()
    framed: set[tuple[str, int | None]] = set()
    ignored: set[tuple[str, int | None]] = set()
    found: list[Place] = []
    steps: Counter[tuple[str, int | None]] = Counter()
    for number, line in enumerate(lines, log.lines - len(lines) + 1):
        if not (waiting or framed or found or TRACEBACK[:-1] in line or IGNORED in line):
            continue
        host, rank, rest = speaker(line)
        who = (host, rank)
        if rest.startswith(IGNORED):
            ignored.add(who)
            waiting.add(who)
        elif raises(rest):
            waiting.add(who)
        elif rest.startswith(_FRAME) and TRACEBACK[:-1] in rest:
            framed.add(who)
        elif who in framed and rest.startswith(_FRAME_END):
            framed.discard(who)
            waiting.add(who)
        elif who in waiting and rest and not rest[0].isspace() and not rest.startswith(("|", "+")):
            waiting.discard(who)
            if who in ignored:
                ignored.discard(who)
            elif not tells_of_another((rest,)) and not _is_known(line):
                found.append(Place(log.name, host, rank, number, line.strip(), {"value": rest.strip()}))
                steps[who] = 0
        elif STEP.search(line):
            steps[who] += 1
        elif DONE.search(line):
            steps[who] += SURVIVED
    dead = [place for place in found if steps[place.host, place.rank] < SURVIVED]
    return [replace(p, host=log.host or p.host, rank=p.rank if log.rank is None else log.rank) for p in dead]


def last_complaint(log: LogScan) -> str:
    """The first line at the log's end, behind all work, that speaks of an error, be it known or not; "" for none."""
    complaint = ""
    ignored = False
    for line in log.tail.split("\n"):
        if STEP.search(line) or DONE.search(line):
            complaint = ""
        elif IGNORED in line:
            ignored = True
        elif not complaint and _COMPLAINT.search(speaker(line)[2].strip()):
            complaint = "" if ignored else line.strip()
            ignored = False
    return complaint


def _is_known(line: str) -> bool:
    if "NCCL error" in line or "DistBackendError" in line or "SystemExit" in line:
        return True
    return any(
        signature.match(line) is not None
        for signature in ALL
        if signature.weight >= Weight.CONSEQUENCE and any(word in line for word in signature.words)
    )
