"""torchrun's workers: heard of by a FIFO that each writes to, and seen ending before torchrun reaps them."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from pathlib import Path
from typing import Any, Callable

from . import kernel, processes

LARGEST_ERROR = 256 << 10
LONGEST_LINE = 1 << 13


class Rank:
    """One worker process. ``status`` is its wait status, None while it runs or when nobody could read it."""

    def __init__(self, local_rank: int, process: processes.Process, error_file: str = "") -> None:
        self.local_rank = local_rank
        self.process = process
        self.started_at = time.time()
        self.ended_at: float | None = None
        self.status: int | None = None
        self.stopped = False
        self.error_file = error_file

    def end(self, status: int | None, stopped: bool) -> None:
        """Notes the end, once; a status that becomes known later is added."""
        if self.ended_at is None:
            self.ended_at = time.time()
            self.stopped = stopped
        if self.status is None:
            self.status = status

    def as_json(self, tail: bytes) -> dict[str, Any]:
        """Its entry in the end record."""
        return {
            "local_rank": self.local_rank,
            "pid": self.process.pid,
            **outcome(self.status),
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "stopped": self.stopped,
            "error": self._error(),
            "tail": tail.decode("utf-8", "replace"),
        }

    def as_launcher(self, terminated: bool) -> dict[str, Any]:
        """The end record's entry of a launcher; ``terminated``: it got a SIGTERM, first from us."""
        return {
            "pid": self.process.pid,
            **outcome(self.status),
            "stopped": self.stopped,
            "terminated": terminated,
        }

    def _error(self) -> str | None:
        """What torch wrote about an exception, None where it wrote nothing."""
        if not self.error_file:
            return None
        try:
            with Path(self.error_file).open("rb") as file:
                return file.read(LARGEST_ERROR).decode("utf-8", "replace")
        except OSError:
            return None


def outcome(status: int | None) -> dict[str, int | None]:
    """`code` and `signal` of a wait status."""
    if status is None:
        return {"code": None, "signal": None}
    if os.WIFSIGNALED(status):
        return {"code": None, "signal": os.WTERMSIG(status)}
    return {"code": os.WEXITSTATUS(status), "signal": None}


def zombie_status(process: processes.Process) -> int | None:
    """The wait status of a process that ended and was not reaped yet; None when it was, or when we may not know."""
    now = processes.look(process.pid)
    if now is None or now.start != process.start or not now.ended:
        return None
    try:
        # The kernel shows 0 to those who may not look. This link asks for the same right, and says so.
        os.readlink(f"/proc/{process.pid}/exe")
    except PermissionError:
        return None
    except OSError:
        pass  # a zombie has no program any more
    return now.status


class Watch:
    """Knows the workers of a node's torchrun, on the supervisor's selector."""

    def __init__(self, selector: selectors.BaseSelector, fifo: Path, stopping: Callable[[], bool]) -> None:
        """``stopping`` says whether the workers are being stopped at this moment."""
        self._selector = selector
        self._stopping = stopping
        # Opened for both, so that it never ends and a worker's open never waits.
        self._fd = os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._text = b""
        self._polled: list[Rank] = []
        self.latest: dict[int, Rank] = {}
        # The global rank of local rank 0, as torchrun has given it; None until a worker said it.
        self.first_rank: int | None = None
        selector.register(self._fd, selectors.EVENT_READ, self.hear)

    @property
    def polling(self) -> bool:
        """Whether `poll` must be called often: a kernel without pidfds."""
        return bool(self._polled)

    def all_ended(self, nproc: int) -> bool:
        """Whether every one of the node's workers was there and has ended."""
        return len(self.latest) == nproc and all(rank.ended_at is not None for rank in self.latest.values())

    def hear(self) -> None:
        """Takes reports; a restarted worker replaces its forerunner."""
        with contextlib.suppress(BlockingIOError):
            self._text += os.read(self._fd, LONGEST_LINE)
        *lines, self._text = self._text.split(b"\n")
        self._text = self._text[-LONGEST_LINE:]
        for line in lines:
            words = os.fsdecode(line).split(" ", 3)
            if len(words) == 4 and all(word.isdigit() for word in words[:3]):  # local rank, pid, rank, error file
                self.first_rank = int(words[2]) - int(words[0])
                self._add(int(words[0]), int(words[1]), words[3])

    def _add(self, local_rank: int, pid: int, error_file: str) -> None:
        fd = kernel.pidfd_open(pid)
        process = processes.look(pid)
        if process is None:
            # Gone before we looked: known by its number only.
            process = processes.Process(pid, 0, "X", -1, 0)
        rank = self.latest[local_rank] = Rank(local_rank, process, error_file)
        if fd is not None:
            self._selector.register(fd, selectors.EVENT_READ, lambda: self._ended(rank, fd))
        else:
            self._polled.append(rank)

    def _ended(self, rank: Rank, fd: int | None) -> None:
        rank.end(zombie_status(rank.process), self._stopping())
        if fd is not None:
            self._selector.unregister(fd)
            os.close(fd)

    def poll(self) -> None:
        """Looks at those without a pidfd."""
        for rank in list(self._polled):
            now = processes.look(rank.process.pid)
            if now is None or now.ended or now.start != rank.process.start:
                self._polled.remove(rank)
                self._ended(rank, None)

    def look(self) -> None:
        """Notes the end of those whose end was not heard of yet."""
        for rank in self.latest.values():
            now = processes.look(rank.process.pid)
            if rank.ended_at is None and (now is None or now.ended or now.start != rank.process.start):
                rank.end(zombie_status(rank.process), self._stopping())

    def were_terminated(self) -> bool:
        """Whether a SIGTERM that was none of ours ended a worker."""
        return any(
            outcome(rank.status)["signal"] == signal.SIGTERM and not rank.stopped for rank in self.latest.values()
        )

    def close(self) -> None:
        """Takes the last reports, and notes the end of those whose end was not seen."""
        self.hear()
        self.look()

    def reaped(self, pid: int, status: int) -> None:
        """An adopted process's end: a worker whose torchrun died comes to us."""
        for rank in self.latest.values():
            if rank.process.pid == pid:
                rank.end(status, self._stopping())
