"""`ncclrun logs`: a run's output again, from what is here and, for what is not, from the nodes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from typing import Any

from ncclrun.commands.contact import connect
from ncclrun.commands.control import Control
from ncclrun.commands.history import RunDir, find_run
from ncclrun.commands.inbox import Inbox, inbox_sink
from ncclrun.commands.logfiles import Place, gap
from ncclrun.commands.recorded import RunNode, is_followed, run_nodes
from ncclrun.model.errors import NcclrunError, UsageError
from ncclrun.model.events import Event, Log, Stream, Unreachable, Warn
from ncclrun.model.lines import CAP, LineAssembler
from ncclrun.planning.hostlist import select_ranks
from ncclrun.transport.base import Transport
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session

BLOCK = 64 << 10
LONGEST_LINE = 4 * CAP
"""Bytes of the longest line that is shown in one piece."""
_ORDER = re.compile(rb"([0-9.]+) ([a-z]+[0-9]+\.[a-z]+) ([0-9]+) ([0-9]+)( missing)?\n")
POLL = 0.2
"""Seconds between looks at files that another ncclrun writes."""


@dataclass(frozen=True)
class Wanted:
    """Which streams the user wants."""

    nodes: frozenset[int]
    ranks: frozenset[int] | None = None
    stream: Stream | None = None
    tail: int | None = None

    def takes(self, place: Place) -> bool:
        """Whether this stream is among them."""
        return (
            place.node_rank in self.nodes
            and (self.ranks is None or place.rank in self.ranks)
            and self.stream in (None, place.stream)
        )


def select(
    nodes: tuple[RunNode, ...], *, node: str | None, ranks: str | None, stream: Stream | None, tail: int | None
) -> Wanted:
    """The selection from the options as typed; raises UsageError for a node or rank that the run does not have."""
    chosen = frozenset(range(len(nodes)))
    if node is not None:
        match = [n.node_rank for n in nodes if n.node.name == node] or [
            n.node_rank for n in nodes if str(n.node_rank) == node
        ]
        if not match:
            names = ", ".join(f"{n.node_rank} ({n.node.name})" for n in nodes)
            raise UsageError(f"the run has no node {node!r}", fix=f"it has {names}")
        chosen = frozenset(match)
    world_size = sum(n.nproc for n in nodes)
    picked = None if ranks is None else frozenset(select_ranks(ranks, world_size))
    there = {rank for n in nodes if n.node_rank in chosen for rank in range(n.first_rank, n.first_rank + n.nproc)}
    if picked is not None and not picked & there:
        raise UsageError(
            f"rank {ranks} is not on node {node}", fix=f"it has the ranks {', '.join(map(str, sorted(there)))}"
        )
    return Wanted(nodes=chosen, ranks=picked, stream=stream, tail=tail)


class LogReader:
    """Reads one run's logs in the order in which they came."""

    def __init__(self, run: RunDir, wanted: Wanted, cut: str = "") -> None:
        """``cut`` ends each piece of a line that is too long, but for its last one."""
        self._run = run
        self._cut = cut
        self._nodes = run_nodes(run)
        self._wanted = wanted
        self._lines: dict[str, LineAssembler] = {}
        self._places = {
            place.filename: place
            for node in self._nodes
            for rank in (None, *range(node.first_rank, node.first_rank + node.nproc))
            for place in (Place(node.node_rank, rank, "out"), Place(node.node_rank, rank, "err"))
        }
        self._order_offset = 0
        self._read: dict[str, int] = {}
        """How far each file was read: every byte is shown once, whatever the order file says of it."""
        self._when: dict[str, float] = {}

    def local(self) -> Iterator[Event]:
        """Everything that is here, but for last lines that have no end yet: see ``finish``."""
        if self._wanted.tail is None:
            yield from self._more()
        else:
            self._skip_order()
            yield from self._tails(self._wanted.tail)
        yield from self._rest()

    def follow(self, control: Control) -> Iterator[Event]:
        """What another ncclrun still writes here, until the run ends or that one is gone."""
        going = True
        while going and not control.stopped():
            going = is_followed(self._run)  # before reading: what was written before the end is read in this round
            yield from self._more()
            if going:
                time.sleep(POLL)
        yield from self._rest()

    def finish(self) -> Iterator[Event]:
        """The last lines that have no line feed."""
        for filename, lines in self._lines.items():
            rest = lines.flush()
            if rest is not None:
                yield self._event(self._places[filename], rest, self._when[filename])

    def remote(self, transport: Transport, control: Control, *, follow: bool) -> Iterator[Event]:
        """What the nodes have by now beyond what is here; with ``follow`` until their part of the run ends.

        Of a ``tail``, where the last lines are is known only to them: then what is here stands in for a node that
        does not answer.
        """
        inbox = Inbox()
        sessions: dict[int, Session] = {}
        nodes = [n.node for n in self._nodes]
        owed: dict[int, dict[str, int]] = {rank: {} for rank in self._wanted.nodes}
        tail = self._wanted.tail
        try:
            for event in connect(nodes, transport, inbox_sink(nodes, inbox), control, sessions):
                if isinstance(event, Unreachable):
                    owed.pop(event.node_rank, None)
                    yield event
                    yield from self._instead(event.node_rank)
            asked = {rank: session for rank, session in sessions.items() if rank in owed}
            for rank, answer in for_all(asked, self._ask(tail), cancelled=control.stopped):
                if isinstance(answer, NcclrunError):
                    del owed[rank]
                    yield Warn(node=nodes[rank].name, text=answer.message, fix=answer.fix)
                    yield from self._instead(rank)
                else:
                    owed[rank] = dict(answer["ends"])
            yield from self._until_said(inbox, owed, control, follow=follow)
        finally:
            for session in sessions.values():
                session.close()

    def _ask(self, tail: int | None) -> Callable[[int, Session], Any]:
        def question(node_rank: int, session: Session) -> Any:
            offsets = self._offsets(node_rank) if tail is None else {}
            return session.call("follow", run_id=self._run.run_id, node_rank=node_rank, offsets=offsets, tail=tail)

        return question

    def _offsets(self, node_rank: int) -> dict[str, int]:
        """What is here of each stream of a node, by the node's name for it."""
        offsets = {}
        node = self._nodes[node_rank]
        for place in self._places.values():
            file = self._run.logs / place.filename
            if place.node_rank == node_rank and file.is_file():
                who = "launcher" if place.rank is None else str(place.rank - node.first_rank)
                offsets[f"{who}.{place.stream}"] = file.stat().st_size
        return offsets

    def _until_said(
        self, inbox: Inbox, owed: dict[int, dict[str, int]], control: Control, *, follow: bool
    ) -> Iterator[Event]:
        """``owed``: up to which byte each node's streams are to come; a job that goes on printing has no other end."""
        while not control.stopped():
            if not follow:
                owed = {rank: streams for rank, streams in owed.items() if streams}
            if not owed:
                return
            try:
                rank, _, header, body = inbox.get(timeout=POLL)
            except Empty:
                continue
            if header.get("ev") == "log":
                stream = str(header["stream"])
                place, when = self._place(rank, stream), float(header["time"])
                if "missing" in header and self._wanted.takes(place):
                    yield from self._gap(place, int(header["missing"]), when)
                yield from self._feed(place, body, when)
                streams = owed.get(rank, {})
                if header["offset"] + len(body) >= streams.get(stream, 0):
                    streams.pop(stream, None)
            elif header.get("ev") in ("end", "gone"):
                owed.pop(rank, None)
                if header["ev"] == "gone":
                    yield Warn(node=self._nodes[rank].node.name, text=f"connection lost: {header.get('reason', '')}")

    def _place(self, node_rank: int, stream: str) -> Place:
        who, _, kind = stream.partition(".")
        node = self._nodes[node_rank]
        return Place(node_rank, None if who == "launcher" else node.first_rank + int(who), kind)

    def _more(self) -> Iterator[Event]:
        """What the order file names beyond what was read."""
        order = self._run.logs / "order"
        if not order.is_file():
            return
        with order.open("rb") as file:
            file.seek(self._order_offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # being written: the next round reads it whole
                self._order_offset += len(line)
                entry = _ORDER.fullmatch(line)
                place = self._places.get(entry[2].decode()) if entry else None
                if entry and place:  # a line torn by a power cut costs the order of its bytes, not the bytes
                    start, size, when = int(entry[3]), int(entry[4]), float(entry[1])
                    yield from self._read_to(place, start if entry[5] else start + size, when)
                    if entry[5]:
                        yield from self._pass_over(place, start + size, when)

    def _pass_over(self, place: Place, end: int, when: float) -> Iterator[Event]:
        """What is missing here up to ``end``."""
        size = end - self._read.get(place.filename, 0)
        if size > 0 and self._wanted.takes(place):
            self._read[place.filename] = end
            yield from self._gap(place, size, when)

    def _gap(self, place: Place, size: int, when: float) -> Iterator[Event]:
        """The line that was open will not end."""
        lines = self._lines.get(place.filename)
        if lines is not None and (rest := lines.flush()) is not None:
            yield self._event(place, rest, when)
        yield gap(self._nodes[place.node_rank].node, place, size)

    def _read_to(self, place: Place, end: int, when: float) -> Iterator[Event]:
        """The stream up to ``end``, from where it was read so far."""
        start = self._read.get(place.filename, 0)
        if end <= start or not self._wanted.takes(place):
            return
        with (self._run.logs / place.filename).open("rb") as stream:
            stream.seek(start)
            while data := stream.read(min(BLOCK, end - start)):
                start = self._read[place.filename] = start + len(data)
                yield from self._feed(place, data, when)

    def _rest(self) -> Iterator[Event]:
        """What is here without a line in the order file, as when the disk was full or the writer was killed."""
        for place, file in self._present():
            status = file.stat()
            yield from self._read_to(place, status.st_size, status.st_mtime)

    def _present(self) -> Iterator[tuple[Place, Path]]:
        for place in self._places.values():
            file = self._run.logs / place.filename
            if self._wanted.takes(place) and file.is_file():
                yield place, file

    def _skip_order(self) -> None:
        order = self._run.logs / "order"
        self._order_offset = order.stat().st_size if order.is_file() else 0

    def _instead(self, node_rank: int) -> Iterator[Event]:
        if self._wanted.tail is not None:
            yield from self._tails(self._wanted.tail, node_rank)

    def _tails(self, count: int, node_rank: int | None = None) -> Iterator[Event]:
        """The last ``count`` lines of each stream, or of each of one node."""
        for place, file in self._present():
            if node_rank not in (None, place.node_rank):
                continue
            status = file.stat()
            self._read[place.filename] = status.st_size
            yield from self._feed(place, last_lines(file, count, status.st_size), status.st_mtime)

    def _feed(self, place: Place, data: bytes, when: float) -> Iterator[Event]:
        if not self._wanted.takes(place):
            return
        self._when[place.filename] = when
        whole = self._lines.setdefault(place.filename, LineAssembler(cut=self._cut)).feed(data)
        if whole is not None:
            yield self._event(place, whole, when)

    def _event(self, place: Place, text: str, when: float) -> Log:
        node = self._nodes[place.node_rank]
        return Log(
            node=node.node.name,
            node_rank=place.node_rank,
            rank=place.rank,
            local_rank=None if place.rank is None else place.rank - node.first_rank,
            stream="err" if place.stream == "err" else "out",
            time=when,
            text=text,
        )


def last_lines(file: Path, count: int, end: int) -> bytes:
    """The last ``count`` lines of the first ``end`` bytes, none of before a hole; a last one without its end counts."""
    if count <= 0:
        return b""
    blocks: list[bytes] = []
    feeds, start = 0, end
    with file.open("rb") as stream:
        first = _last_piece(stream.fileno(), end)
        while start > first and feeds <= count and end - start < (count + 1) * LONGEST_LINE:
            size = min(BLOCK, start - first)
            start -= size
            stream.seek(start)
            blocks.append(stream.read(size))
            feeds += blocks[-1].count(b"\n")
    lines = b"".join(reversed(blocks)).split(b"\n")  # not splitlines: it also cuts at progress bars' carriage returns
    keep = count + 1 if lines[-1] == b"" else count
    return b"\n".join(lines[-keep:])


def _last_piece(fd: int, end: int) -> int:
    """Where the bytes begin that have no hole between them and ``end``."""
    piece = 0
    while piece < end and (hole := os.lseek(fd, piece, os.SEEK_HOLE)) < end:
        try:
            piece = os.lseek(fd, hole, os.SEEK_DATA)
        except OSError:  # a hole is the last that there is
            return end
    return piece


def kept_logs(run: RunDir, cut: str) -> Iterator[Event]:
    """What the directory of a run has of its logs, wherever that lies; nobody is asked."""
    reader = LogReader(run, select(run_nodes(run), node=None, ranks=None, stream=None, tail=None), cut)
    yield from reader.local()
    yield from reader.finish()


def read_logs(
    run_id: str | None,
    transport: Transport,
    control: Control,
    *,
    node: str | None = None,
    ranks: str | None = None,
    stream: Stream | None = None,
    tail: int | None = None,
    follow: bool = False,
    cut: str = "",
) -> Iterator[Event]:
    """The logs of a run (the last one by default): from here and, when nothing more comes here, from the nodes."""
    run = find_run(run_id)
    reader = LogReader(run, select(run_nodes(run), node=node, ranks=ranks, stream=stream, tail=tail), cut)
    followed, complete = is_followed(run), (run.end() or {}).get("complete", False)
    # The ncclrun that wrote here is gone and did not have it all: the nodes know more.
    incomplete = not followed and not complete
    if tail is None or not incomplete:
        yield from reader.local()
    if followed and follow:
        yield from reader.follow(control)
    elif incomplete:
        yield from reader.remote(transport, control, follow=follow)
    yield from reader.finish()
