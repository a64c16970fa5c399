"""Takes a worker's output from its pipe into its log for ever; what can't be written is counted, never waited for."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
from pathlib import Path

PIECE = 1 << 20
F_SETPIPE_SZ = 1031  # fcntl knows its name from Python 3.10 on
MOST_BYTES = 1 << 30
INDEX = struct.Struct(">Qd")
INDEX_SECONDS = 0.1
# What the end record takes of a stderr.
RANK_TAIL = 4 << 10
LAUNCHER_TAIL = 16 << 10
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


def widen(fd: int) -> None:
    """Makes a pipe hold 1 MiB: a worker then waits for us less often."""
    with contextlib.suppress(OSError):  # the user's share of pipe memory is used up; the usual 64 KiB work as well
        fcntl.fcntl(fd, F_SETPIPE_SZ, PIECE)


class Stream:
    """One stream: its pipe's reading end, its log, and the last ``keep`` bytes for the end record."""

    def __init__(self, name: str, fd: int, logs: Path, keep: int) -> None:
        self.name = name
        self.fd = fd
        self.lost = 0
        self.tail = b""
        self._keep = keep
        self._log, self._index = self._open(logs)
        self._offset = os.fstat(self._log).st_size
        self._indexed = -INDEX_SECONDS
        os.set_blocking(fd, False)
        widen(fd)

    def _open(self, logs: Path) -> tuple[int, int]:
        log, index = (os.open(logs / f"{self.name}.{kind}", FLAGS, 0o600) for kind in ("log", "idx"))
        return log, index

    def reopen(self, logs: Path) -> None:
        """Goes on at the same offset in a new log, where the old one was removed: that is lost here. Raises OSError."""
        old = self._log, self._index
        self._log, self._index = self._open(logs)
        for fd in old:
            os.close(fd)
        self.lost += self._offset - os.fstat(self._log).st_size
        os.ftruncate(self._log, self._offset)  # a hole, so that the size still says where the stream is

    def take(self) -> int:
        """Moves what waits in the pipe, at most 1 MiB; returns how many bytes, -1 when the last writer has gone."""
        try:
            data = os.read(self.fd, PIECE)
        except BlockingIOError:
            return 0
        if not data:
            return -1
        self.tail = (self.tail + data[-self._keep :])[-self._keep :]
        self._mark()
        self._append(data)
        return len(data)

    def _mark(self) -> None:
        now = time.monotonic()
        if now - self._indexed < INDEX_SECONDS:
            return
        self._indexed = now
        with contextlib.suppress(OSError):  # a full disk: a time less is no loss
            os.write(self._index, INDEX.pack(self._offset, time.time()))

    def _append(self, data: bytes) -> None:
        room = memoryview(data)[: max(0, MOST_BYTES - self._offset)]
        written = 0
        try:
            while written < len(room):
                written += os.write(self._log, room[written:])
        except OSError:
            pass  # full disk, quota, I/O error: the rest of this piece is lost, and counted below; the training goes on
        self._offset += written
        self.lost += len(data) - written
