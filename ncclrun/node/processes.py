"""Processes as /proc shows them: who belongs to a run, and how to signal exactly these."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Callable, Iterable, NamedTuple

from . import kernel

PROC = Path("/proc")
COOKIE = b"NCCLRUN_COOKIE="


class Process(NamedTuple):
    """A line of /proc/PID/stat. ``start`` is in clock ticks after boot; ``status`` a wait status, 0 until it ended."""

    pid: int
    ppid: int
    state: str
    start: int
    status: int

    @property
    def ended(self) -> bool:
        """Nothing runs any more, though the parent may not have looked yet."""
        return self.state in "ZXx"


def look(pid: int) -> Process | None:
    """One process, None when there is none with this id."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The command's name may hold spaces and parentheses: what counts stands behind the last one.
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(pid, int(fields[1]), fields[0].decode("ascii"), int(fields[19]), int(fields[49]))


def lives(process: Process) -> bool:
    """Whether this very process has not ended."""
    now = look(process.pid)
    return now is not None and now.start == process.start and not now.ended


def every() -> dict[int, Process]:
    """All processes that can be seen from here."""
    found = (look(int(entry.name)) for entry in list(PROC.iterdir()) if entry.name.isdigit())
    return {process.pid: process for process in found if process is not None}


def started_at(process: Process) -> float:
    """When it was started, in Unix seconds by this machine's clock as it goes now."""
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + process.start / os.sysconf("SC_CLK_TCK")


def cookie_of(pid: int) -> str:
    """The run cookie in a process's environment, "" without one, or when it belongs to somebody else."""
    try:
        environment = (PROC / str(pid) / "environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
    for item in environment.split(b"\0"):
        if item.startswith(COOKIE):
            return item[len(COOKIE) :].decode("utf-8", "replace")
    return ""


def command_of(pid: int) -> str:
    """Its command line for people, at most 200 characters; the bare name in brackets where there is none."""
    try:
        text = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").strip()
        text = text or b"[" + (PROC / str(pid) / "comm").read_bytes().strip() + b"]"
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
    return text.decode("utf-8", "replace")[:200]


def is_of_this_system(pid: int) -> bool:
    """False for one in a container's process namespace: its directory and its supervisor are to be sought in there."""
    try:
        return (PROC / str(pid) / "ns/pid").stat().st_ino == (PROC / "self/ns/pid").stat().st_ino
    except OSError:
        return False  # it has gone, or is nobody's that we may look at


def owner_of(pid: int) -> int:
    """The user id that a process runs as, -1 when it is gone."""
    try:
        return (PROC / str(pid)).stat().st_uid
    except (FileNotFoundError, ProcessLookupError):
        return -1


def descendants(root: int, table: dict[int, Process]) -> set[int]:
    """The process ids below ``root``."""
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.ppid, []).append(process.pid)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        for pid in children.get(waiting.pop(), []):
            if pid not in found:
                found.add(pid)
                waiting.append(pid)
    return found


def members(belongs: Callable[[str], bool], root: int | None = None, others: Iterable[int] = ()) -> list[Process]:
    """What lives of a run: everything with a cookie that ``belongs``, and everything below ``root`` or below those.

    ``others``: process ids that belong to it too.
    """
    table = every()
    found = descendants(root, table) if root is not None else set()
    found |= table.keys() & set(others)
    marked = [pid for pid in table if pid not in found and belongs(cookie_of(pid))]
    for pid in marked:
        found |= {pid} | descendants(pid, table)
    found.discard(os.getpid())
    return [table[pid] for pid in sorted(found) if not table[pid].ended]


def send(process: Process, number: int) -> bool:
    """Signals this very process; False when it has ended, be its id in use again or not. Raises PermissionError."""
    fd = kernel.pidfd_open(process.pid)
    try:
        now = look(process.pid)
        if now is None or now.start != process.start:
            return False
        if fd is not None:
            return kernel.pidfd_signal(fd, number)
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    finally:
        if fd is not None:
            os.close(fd)
    return True


def send_all(targets: Iterable[Process], number: int) -> None:
    """Signals each; those that we may not signal are left to be reported as survivors."""
    for process in targets:
        try:
            send(process, number)
        except PermissionError:
            continue


def kill_all(find: Callable[[], list[Process]], seconds: float) -> list[Process]:
    """SIGKILL until two scans in a row find nothing; gives up after ``seconds`` and returns what lives."""
    deadline = time.monotonic() + seconds
    empty = 0
    while True:
        alive = find()
        empty = 0 if alive else empty + 1
        if empty == 2 or (alive and time.monotonic() > deadline):
            return alive
        send_all(alive, signal.SIGKILL)
        time.sleep(0.02)


def describe(alive: Iterable[Process]) -> list[dict[str, object]]:
    """Survivors as JSON."""
    return [{"pid": p.pid, "command": command_of(p.pid), "state": p.state, **_asleep(p)} for p in alive]


def _asleep(process: Process) -> dict[str, object]:
    """Where in the kernel it sleeps that can't be woken, as far as the kernel shows it; "" else."""
    return {name: _kernel_text(process.pid, name) if process.state == "D" else "" for name in ("wchan", "stack")}


def _kernel_text(pid: int, name: str) -> str:
    try:
        text = (PROC / str(pid) / name).read_text("ascii", "replace").strip()
    except OSError:
        return ""  # gone, or for root alone
    return "" if text == "0" else text[:2000]
