"""The nodes' output as it comes: every byte once, into the logs here and as lines to be shown."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from ncclrun.commands.findings import page_of
from ncclrun.commands.logfiles import LogSink, Place, gap
from ncclrun.commands.member import Member
from ncclrun.diagnosis.ncclwatch import NcclWatch
from ncclrun.model.events import Event, Log, Stream, Warn
from ncclrun.model.lines import LineAssembler


class Streams:
    """Takes the `log` events of all members; ``watch`` holds what NCCL says in them against the plan."""

    def __init__(self, writer: LogSink, watch: NcclWatch) -> None:
        self._writer = writer
        self._watch = watch
        self._told_of_disk = False

    def take(self, member: Member, header: dict[str, Any], body: bytes) -> Iterator[Event]:
        """The next piece of a stream; what of it is known already is left out."""
        stream, offset = str(header["stream"]), int(header["offset"])
        known = member.offsets.get(stream, 0)
        if offset + len(body) <= known:
            return
        body = body[max(0, known - offset) :]
        member.offsets[stream] = max(offset, known) + len(body)
        place = member.place(stream)
        lines = member.lines.setdefault(stream, LineAssembler())
        when = float(header["time"])
        if missing := min(int(header.get("missing", 0)), offset - known):
            yield from self._missing(member, place, missing, when, lines.flush())
        self._writer.append(place, when, body)
        if self._writer.lost and not self._told_of_disk:
            self._told_of_disk = True
            yield Warn(
                text=f"this machine's disk does not take the logs ({self._writer.trouble}); the nodes keep theirs",
                fix="free some space here",
            )
        whole = lines.feed(body)
        if whole is not None:
            # After a failure or a stop torchrun prints a traceback of its own on every node; after a good end too,
            # where the master's torchrun went first.
            told = member.asked is not None or member.state == "stopping" or member.workers_over
            folded = place.rank is None and told
            yield _log_event(member, place, header["time"], whole, folded=folded)
            wrong = None if place.rank is None else self._watch.line(member.node_rank, whole, place.rank)
            if wrong is not None:
                yield Warn(node=member.node.name, text=wrong.message, fix=wrong.fix, id=page_of(wrong.code))
        if lines.partial:
            yield _log_event(member, place, header["time"], lines.partial, partial=True)

    def _missing(self, member: Member, place: Place, size: int, when: float, before: str | None) -> Iterator[Event]:
        """Bytes that the node did not have any more; what came ``before`` them is a line that will not end."""
        self._writer.skip(place, when, size)
        if before is not None:
            yield _log_event(member, place, when, before)
        yield gap(member.node, place, size)

    def flush(self, member: Member) -> Iterator[Event]:
        """The last lines that ended without a line feed."""
        for stream, lines in member.lines.items():
            rest = lines.flush()
            if rest is not None:
                yield _log_event(member, member.place(stream), time.time(), rest)


def _log_event(
    member: Member, place: Place, when: float, text: str, *, partial: bool = False, folded: bool = False
) -> Log:
    stream: Stream = "err" if place.stream == "err" else "out"
    return Log(
        node=member.node.name,
        node_rank=member.node_rank,
        rank=place.rank,
        local_rank=None if place.rank is None else place.rank - member.first_rank,
        stream=stream,
        time=when,
        text=text,
        partial=partial,
        folded=folded,
    )
