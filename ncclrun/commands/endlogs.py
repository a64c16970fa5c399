"""What the logs of a run show when it ends: one known fault beside its first failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO

from ncclrun.commands.history import RunDir
from ncclrun.commands.logfiles import Place
from ncclrun.commands.member import Member
from ncclrun.commands.reading import feed
from ncclrun.diagnosis.explain.judge import Recorded, judge
from ncclrun.diagnosis.explain.scan import LogScan
from ncclrun.model.endevents import Ended

MOST = 32 << 20
"""Bytes of a run's logs that are looked at: a launch is to end within seconds."""


def with_finding(run: RunDir, ended: Ended, members: Sequence[Member]) -> Ended:
    """The end of a run that failed or hung, with the fault that its logs show, if they are here and one is known."""
    if ended.cause is None and ended.reason not in ("timeout", "stalled"):
        return ended
    try:
        scans = of_run_here(run, members)
    except OSError:  # the end is told all the same, and `explain` says what can't be read
        return ended
    rank = ended.cause.rank if ended.cause else None
    found = judge(scans, Recorded(reason=ended.reason, rank=rank, cluster=run.cluster()))
    known = found.verdict in ("cause", "component") and found.found is not None and found.found.id != "program"
    return replace(ended, finding=found.found) if known else ended


def of_run_here(run: RunDir, members: Sequence[Member]) -> list[LogScan]:
    """What lies here of a run's logs, at most MOST bytes: of each stream the beginning and the end."""
    places = [
        (member, Place(member.node_rank, rank, stream))
        for member in members
        for rank in (None, *range(member.first_rank, member.first_rank + member.nproc))
        for stream in ("out", "err")
    ]
    scans = []
    for member, place in places:
        file = run.logs / place.filename
        if file.is_file():
            scan = LogScan(place.filename, member.node.name, place.rank)
            with file.open("rb") as stream:
                feed(scan, _head_and_tail(stream, MOST // (2 * len(places))))
            scans.append(scan)
    return scans


def _head_and_tail(stream: BinaryIO, share: int) -> Iterator[bytes]:
    yield stream.read(share)
    size = stream.seek(0, 2)
    if size > share:
        stream.seek(max(share, size - share))
        yield stream.read(share)
