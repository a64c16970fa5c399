"""Tells the controller what a run does: its logs from where it has them, its states, its end. Only reads files."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from . import logfile, rundir
from .channel import Channel
from .refusal import Refusal

LARGEST_PIECE = 256 << 10
LOOK_SECONDS = 0.5
# From the taking of a part to its supervisor's first word; then it died before it, or whoever took it did.
BIRTH_SECONDS = 15.0
BLOCK = 1 << 16
MOST_BACK = 16 << 20


class Log:
    """One stream's log, read onwards from ``offset``."""

    def __init__(self, logs: Path, stream: str, offset: int) -> None:
        self.stream = stream
        self.offset = offset
        self.missing = 0
        """Bytes before ``offset`` that the node did not have any more, and that nobody was told of yet."""
        self.drained = False
        """Whether the last piece was all that there is by now."""
        self._path = logs / f"{stream}.log"
        self._open()

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            index = self._path.with_suffix(".idx")
            self._index: int | None = os.open(index, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            self._index = None

    def next(self, most: int) -> bytes:
        """Up to ``most`` bytes that were not read yet, those before ``offset`` then."""
        data = self._read(most)
        self.drained = len(data) < most
        if not data and self._is_replaced():
            data = self._read(most)  # what came before it was
            self.drained = False
            if not data:
                self.close()
                self._open()
                data = self._read(most)
                self.drained = len(data) < most
        return data

    def _read(self, most: int) -> bytes:
        while True:
            data = os.pread(self._file, most, self.offset)
            # After the read: the writer says where the rest begins before it gives the beginning back.
            gone = self._begin() - self.offset
            if gone <= 0:
                self.offset += len(data)
                return data
            self.missing += gone
            self.offset += gone

    def _begin(self) -> int:
        return 0 if self._index is None else logfile.begin(self._index)

    def time_of(self, offset: int) -> float:
        """When the byte at ``offset`` came from the worker (Unix seconds, to a tenth); 0.0 when that is not known."""
        return 0.0 if self._index is None else logfile.time_of(self._index, offset)

    def _is_replaced(self) -> bool:
        """Whether somebody has removed the log, and its supervisor goes on in a new one."""
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def size(self) -> int:
        """Bytes of the stream so far."""
        return os.fstat(self._file).st_size

    def has_more(self) -> bool:
        """Whether anything is there to be read."""
        return self.size() > max(self.offset, self._begin())

    def go_back(self, lines: int) -> None:
        """Moves to where the last ``lines`` lines begin; at most 16 MiB from the end."""
        end = self.size()
        first = min(end, max(self._begin(), end - MOST_BACK))
        place = end
        left = lines + 1  # the line feed before the first of them
        if end and os.pread(self._file, 1, end - 1) != b"\n":
            left -= 1  # a last line without its end counts as one
        while place > first:
            start = max(first, place - BLOCK)
            block = os.pread(self._file, place - start, start)
            at = len(block)
            while left and at >= 0:
                at = block.rfind(b"\n", 0, at)
                if at >= 0:
                    left -= 1
                    if not left:
                        self.offset = start + at + 1
                        return
            place = start
        self.offset = place if lines else end

    def close(self) -> None:
        """Lets the files go."""
        os.close(self._file)
        if self._index is not None:
            os.close(self._index)


def _offsets(value: Any) -> dict[str, int]:
    if not isinstance(value, dict) or not all(
        rundir.STREAM.match(name) and isinstance(place, int) and place >= 0 for name, place in value.items()
    ):
        raise Refusal("bad_request", "offsets must be {stream: byte}")
    return dict(value)


class Follow:
    """One `follow` request, until its `end` was sent."""

    def __init__(self, run: rundir.RunDir, offsets: Any, tail: int | None) -> None:
        self.run = run
        self.ended = False
        self.orphaned = False
        self._offsets = _offsets(offsets or {})
        self._logs: dict[str, Log] = {}
        self._turn = 0
        self._state: dict[str, Any] | None = None
        self._look_at = 0.0
        self._peers: dict[str, float | None] | None = None
        self._halted = False
        self._lifeline_told: tuple[dict[str, float | None] | None, bool] = (None, False)
        self._began = time.monotonic()
        self._who = {"run_id": run.run_id, "node_rank": run.node_rank}
        self._open(tail)

    def _open(self, tail: int | None = None) -> None:
        for stream in self.run.streams():
            if stream in self._logs:
                continue
            log = self._logs[stream] = Log(self.run.logs, stream, self._offsets.get(stream, 0))
            if tail is not None and stream not in self._offsets:
                log.go_back(tail)

    def ends(self) -> dict[str, int]:
        """Where each stream ends now that has something to tell: who wants no more than that knows when it is all."""
        return {stream: log.size() for stream, log in self._logs.items() if log.has_more()}

    def pump(self, channel: Channel) -> bool:
        """Sends what is new, as far as the channel has room; True when it stopped for want of room."""
        record = self.run.end()  # before the logs: what it ends was written by then
        state = self.run.state()
        lifeline = (self._peers, self._halted)
        if state is not None and (state != self._state or lifeline != self._lifeline_told):
            self._state, self._lifeline_told = state, lifeline
            told = {name: state.get(name) for name in ("state", "time", "reason", "origin", "first_rank")}
            channel.send({"ev": "state", **told, "peers": self._peers, "halted": self._halted, **self._who})
        self._open()
        if not self._send_logs(channel):
            return True
        if record is not None:
            channel.send({"ev": "end", "record": record, **self._who})
            self.ended = True
        else:
            self._look_for_supervisor()
        return False

    def _send_logs(self, channel: Channel) -> bool:
        """One piece of each stream in turn, so that a flood starves none; False when the room was too small."""
        waiting = list(self._logs.values())
        self._turn += 1
        start = self._turn % len(waiting) if waiting else 0
        waiting = waiting[start:] + waiting[:start]
        while waiting:
            for log in list(waiting):
                if not channel.room:
                    return False
                data = log.next(LARGEST_PIECE)
                if data:
                    channel.send(self._head(log, log.offset - len(data)), data)
                if log.drained:
                    waiting.remove(log)
        return True

    def _head(self, log: Log, offset: int) -> dict[str, Any]:
        missing, log.missing = log.missing, 0
        head = {"ev": "log", "stream": log.stream, "offset": offset, "time": log.time_of(offset), **self._who}
        return {**head, "missing": missing} if missing else head

    def _look_for_supervisor(self) -> None:
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        self._peers = self.run.peers()
        if self.run.state() is not None:
            self._began = now
        # One that has just been forked has not said anything yet, nor one whose directory was removed.
        young = now - self._began < BIRTH_SECONDS and self.run.state() is None
        # In this order: it writes the record before it goes.
        owner = self.run.supervisor()
        self._halted = owner is not None and owner.state in "Tt"
        self.orphaned = not young and owner is None and not self.run.lives() and self.run.end() is None

    def tell_alive(self) -> None:
        """Tells the supervisor that a controller follows the run, if it is one that wants to know."""
        if self._state is not None and self._state.get("lifeline"):
            self.run.order({"alive": True})

    def close(self) -> None:
        """Lets the files go."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()
