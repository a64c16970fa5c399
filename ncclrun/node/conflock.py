"""Who may change a conf file now: one at a time, over machines that share a home, too."""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

from .refusal import Refusal

TRIES, PAUSE_SECONDS = 6, 0.05
"""Whoever only looks holds the lock for a moment, and one that lets go of it removes the file."""
MOST_BYTES = 4096


def _said(fd: int) -> dict[str, Any]:
    """What the holder wrote; {} as long as it has not."""
    try:
        value = json.loads(os.pread(fd, MOST_BYTES, 0).decode("utf-8"))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _try(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder(path: Path) -> dict[str, Any] | None:
    """Who holds the lock at ``path``, None if nobody does. Raises OSError."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return None if _try(fd, fcntl.LOCK_SH) else _said(fd)
    except OSError:
        return None  # a file system without locks
    finally:
        os.close(fd)


class Lock:
    """The lock at ``path`` for changing ``file``, held from the call on that makes it; refuses with `busy`.

    Raises OSError.
    """

    def __init__(self, path: Path, file: Path, who: dict[str, Any]) -> None:
        self._path = path
        self._file = file
        self._fd = self._take()
        try:
            os.fchmod(self._fd, 0o644)
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, json.dumps(who).encode("ascii"), 0)
            os.fsync(self._fd)  # for those on other machines
        except BaseException:
            self.release()
            raise

    def _take(self) -> int:
        said: dict[str, Any] = {}
        for _ in range(TRIES):
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            try:
                # The one before may have removed the file between the opening and the locking.
                if self._locked(fd):
                    return fd
                said = _said(fd)
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
            time.sleep(PAUSE_SECONDS)
        raise _busy(self._file, said)

    def _locked(self, fd: int) -> bool:
        try:
            if not _try(fd, fcntl.LOCK_EX):
                return False
        except OSError as error:
            message = f"{self._path.parent} takes no locks: {error.strerror}"
            raise Refusal("no_lock", message, "use deliver: env or file, which change no file of yours") from error
        return self._in_place(fd)

    def _in_place(self, fd: int) -> bool:
        """Whether the file is still the one at the path, and not a later one's."""
        try:
            return os.path.samestat(os.fstat(fd), self._path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Lets go of it, and removes the file. Raises OSError."""
        try:
            if self._in_place(self._fd):
                self._path.unlink()
        finally:
            os.close(self._fd)


def _busy(file: Path, said: dict[str, Any]) -> Refusal:
    who = f"{said.get('user')} on {said.get('host')} (push {said.get('push_id')})" if said else "somebody else"
    since = time.strftime(" since %H:%M:%S", time.localtime(said["at"])) if "at" in said else ""
    # A node that is cut off from its controller lets go of it after a minute.
    fix = "wait until that is done, at most a minute where its ncclrun has died, and run this again"
    return Refusal("busy", f"{who} is changing {file}{since}", fix, said)
