"""A stream's log on its node: one file with stable offsets whose beginning the disk gets back, and its index."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from pathlib import Path

from . import kernel

LIMIT = 1 << 30
LEAST_LIMIT = 1 << 20
STEPS = 8
"""The beginning is given back in steps of this part of the limit: each makes a hole in the file system's books."""
BLOCK = 64 << 10
"""The largest block that file systems have: only whole ones are given back."""
# The first pair is (where the kept bytes begin, 0), the others are (offset, Unix seconds), in order.
PAIR = struct.Struct(">Qd")
INDEX_SECONDS = 0.1
FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def begin(index: int) -> int:
    """Where the bytes begin that are kept; who asks after having read knows that what is behind it was not cut."""
    data = os.pread(index, PAIR.size, 0)
    return int(PAIR.unpack(data)[0]) if len(data) == PAIR.size else 0


def time_of(index: int, offset: int) -> float:
    """When the byte at ``offset`` came from the worker (Unix seconds, to a tenth); 0.0 when that is not known."""
    last = _after(index, offset) - 1
    return float(PAIR.unpack(os.pread(index, PAIR.size, last * PAIR.size))[1]) if last else 0.0


def _after(index: int, offset: int) -> int:
    """Number of the first pair that tells of a byte behind ``offset``; those that were cut are zeros, and before it."""
    low, high = 1, os.fstat(index).st_size // PAIR.size
    while low < high:
        middle = (low + high) // 2
        if PAIR.unpack(os.pread(index, PAIR.size, middle * PAIR.size))[0] <= offset:
            low = middle + 1
        else:
            high = middle
    return low


class LogFile:
    """The writer's side: the last ``limit`` bytes stay, and up to an eighth more."""

    def __init__(self, logs: Path, stream: str, limit: int) -> None:
        self.lost = 0
        """Bytes that were never stored, or that somebody removed."""
        self.dropped = 0
        """Bytes that were stored and given back, for the limit."""
        self.why = ""
        """Why bytes were lost, for people."""
        self._stream = stream
        self._limit = limit
        self._log, self._index = self._open(logs)
        self._offset = os.lseek(self._log, 0, os.SEEK_END)
        self._begin = self._cut = 0
        self._indexed = -INDEX_SECONDS

    def _open(self, logs: Path) -> tuple[int, int]:
        log = os.open(logs / f"{self._stream}.log", FLAGS | os.O_APPEND, 0o600)
        try:
            index = os.open(logs / f"{self._stream}.idx", FLAGS, 0o600)
        except OSError:
            os.close(log)
            raise
        os.lseek(index, max(PAIR.size, os.fstat(index).st_size), os.SEEK_SET)
        return log, index

    def reopen(self, logs: Path) -> None:
        """Goes on at the same offset in a new log, where the old one was removed: that is lost here. Raises OSError."""
        log, index = self._open(logs)
        same = os.path.sameopenfile(log, self._log)
        first = self._begin if same else self._offset
        try:
            os.pwrite(index, PAIR.pack(first, 0.0), 0)
            os.ftruncate(log, self._offset)  # a hole, so that the size still says where the stream is
        except OSError:
            os.close(log)
            os.close(index)
            raise
        os.close(self._log)
        os.close(self._index)
        self._log, self._index = log, index
        if first > self._begin:
            self.lost += first - self._begin
            self.why = "the run's directory was removed"
        self._begin = self._cut = first

    def append(self, data: bytes) -> None:
        """Adds to the end; what can't be written is counted."""
        self._mark()
        rest = memoryview(data)
        try:
            if self._offset - self._cut >= self._limit + self._limit // STEPS:
                self._make_room()
            while rest:
                written = os.write(self._log, rest)
                self._offset += written
                rest = rest[written:]
        except OSError as error:  # full disk, quota, I/O error: the rest of this piece is lost; the training goes on
            self.lost += len(rest)
            self.why = error.strerror or str(error)

    def _mark(self) -> None:
        now = time.monotonic()
        if now - self._indexed < INDEX_SECONDS:
            return
        self._indexed = now
        with contextlib.suppress(OSError):  # a full disk: a time less is no loss
            os.write(self._index, PAIR.pack(self._offset, time.time()))

    def _make_room(self) -> None:
        """Gives back all but the last ``limit`` bytes; readers are told where the rest begins before it is done."""
        first = (self._offset - self._limit) // BLOCK * BLOCK
        try:
            kernel.punch_hole(self._log, self._offset, BLOCK)  # nothing is there: it says whether this can be done
        except OSError as error:
            text = f"the log is full, and its file system can't give back the beginning: {error.strerror}"
            raise OSError(error.errno, text) from error
        os.pwrite(self._index, PAIR.pack(first, 0.0), 0)
        self.dropped += first - self._begin
        self._begin = first
        kernel.punch_hole(self._log, self._cut, first - self._cut)
        self._cut = first
        with contextlib.suppress(OSError):  # a longer index is no loss
            kernel.punch_hole(self._index, PAIR.size, (_after(self._index, first) - 2) * PAIR.size)
