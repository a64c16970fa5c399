"""Takes a worker's output from its pipe into its log for ever; what can't be written is counted, never waited for."""

from __future__ import annotations

import contextlib
import fcntl
import os

from . import logfile

PIECE = 1 << 20
F_SETPIPE_SZ = 1031  # fcntl knows its name from Python 3.10 on
# What the end record takes of a stderr.
RANK_TAIL = 4 << 10
LAUNCHER_TAIL = 16 << 10


def widen(fd: int) -> None:
    """Makes a pipe hold 1 MiB: a worker then waits for us less often."""
    with contextlib.suppress(OSError):  # the user's share of pipe memory is used up; the usual 64 KiB work as well
        fcntl.fcntl(fd, F_SETPIPE_SZ, PIECE)


class Stream:
    """One stream: its pipe's reading end, its log, and the last ``keep`` bytes for the end record."""

    def __init__(self, name: str, fd: int, log: logfile.LogFile, keep: int) -> None:
        self.name = name
        self.fd = fd
        self.log = log
        self.tail = b""
        self._keep = keep
        os.set_blocking(fd, False)
        widen(fd)

    def take(self) -> int:
        """Moves what waits in the pipe, at most 1 MiB; returns how many bytes, -1 when the last writer has gone."""
        try:
            data = os.read(self.fd, PIECE)
        except BlockingIOError:
            return 0
        if not data:
            return -1
        self.tail = (self.tail + data[-self._keep :])[-self._keep :]
        self.log.append(data)
        return len(data)
