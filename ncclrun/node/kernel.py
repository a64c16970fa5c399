"""The few system calls that Python's library lacks (on 3.8): prctl, pidfds and holes in files, by ctypes."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# Both numbers are the same on every architecture: they came after the tables were unified.
SYS_PIDFD_SEND_SIGNAL = 424
SYS_PIDFD_OPEN = 434
FALLOC_FL_KEEP_SIZE = 1
FALLOC_FL_PUNCH_HOLE = 2

# Loaded at import: a forked child must not begin with loading libraries.
_libc = ctypes.CDLL(None, use_errno=True)
# With glibc only this one takes 64 bits on every machine; newer musl has but the other, which does there.
_fallocate = getattr(_libc, "fallocate64", None) or _libc.fallocate


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def become_subreaper() -> None:
    """Orphans among our descendants become our children instead of init's."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int, number: int) -> None:
    """Asks for a signal when the parent (its process id, as known before the fork) dies, also when it died already."""
    _prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def pidfd_open(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None if the kernel has none or it is gone."""
    fd = int(_libc.syscall(SYS_PIDFD_OPEN, pid, 0))
    if fd < 0:
        return None
    os.set_inheritable(fd, False)
    return fd


def pidfd_signal(fd: int, number: int) -> bool:
    """Sends a signal through a pidfd; False when the process has ended. Raises PermissionError."""
    if _libc.syscall(SYS_PIDFD_SEND_SIGNAL, fd, number, None, 0) == 0:
        return True
    code = ctypes.get_errno()
    if code == errno.ESRCH:
        return False
    raise OSError(code, os.strerror(code))


def punch_hole(fd: int, offset: int, size: int) -> None:
    """Gives a file's blocks back to the disk; its size stays, and zeros are read there. Raises OSError."""
    mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
    if size > 0 and _fallocate(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(size)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def close_descriptors(keep: frozenset[int]) -> None:
    """Closes every descriptor above stderr but ``keep``: what a forked process must not hold open for others."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        fd = int(entry.name)
        if fd > 2 and fd not in keep:
            try:
                os.close(fd)
            except OSError as error:
                if error.errno != errno.EBADF:  # the one that listed the directory
                    raise


def default_signals() -> None:
    """Undoes what Python or a parent did to signals, so that an exec'd program finds them as it expects."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
