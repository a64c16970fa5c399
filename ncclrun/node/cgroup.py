"""A cgroup of the run's own, where this user may make one: the kernel then ends all that is in it at one stroke."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path

SELF = Path("/proc/self/cgroup")
MOUNTS = Path("/proc/self/mountinfo")
SYSTEMD = Path("/run/systemd/system")


def _own() -> Path | None:
    """The directory of the cgroup (version 2) that we are in; None where there is none to be seen."""
    found = re.search(r"^0::(/.*)$", SELF.read_text("utf-8", "replace"), re.M)
    for line in MOUNTS.read_text("utf-8", "replace").splitlines() if found else []:
        fields, _, kind = line.partition(" - ")
        if found is not None and kind.startswith("cgroup2 "):
            root, mount = fields.split()[3:5]
            below = found.group(1)
            if root != "/" and not (below + "/").startswith(root + "/"):
                return None
            return Path(mount) / below[len(root) if root != "/" else 0 :].lstrip("/")
    return None


def _ours_to_divide(directory: Path) -> bool:
    """Where systemd runs the machine, only a cgroup that it has handed over may be divided."""
    if not os.access(directory, os.W_OK | os.X_OK) or not os.access(directory / "cgroup.procs", os.W_OK):
        return False
    if not SYSTEMD.exists():
        return True
    with contextlib.suppress(OSError):  # it has no such mark
        return os.getxattr(directory, "user.delegate") == b"1"
    return False


def name(cookie: str) -> str:
    """The name of the cgroup of a run's part: it tells nobody the token."""
    return f"ncclrun-{hashlib.sha256(cookie.encode('utf-8')).hexdigest()[:16]}"


def find(cookie: str) -> Path | None:
    """Where the cgroup of a run's part is, made or not; None where there can be none."""
    try:
        own = _own()
        if own is None or not _ours_to_divide(own):
            return None
    except OSError:
        return None  # no /proc, or a mount that is not ours to see: the cookie does as well
    return own / name(cookie)


def make(cookie: str) -> Path | None:
    """A new cgroup for a run's part; None where the kernel or the administrator does not let us have one."""
    path = find(cookie)
    if path is None:
        return None
    try:
        path.mkdir()
        if os.access(path / "cgroup.kill", os.W_OK):
            return path
        path.rmdir()  # before Linux 5.14: nothing would be won
    except OSError:
        pass  # read-only, or full: the cookie does as well
    return None


def enter(path: Path) -> None:
    """Moves this process into it. Raises OSError."""
    (path / "cgroup.procs").write_text("0", "ascii")


def members(path: Path | None) -> list[int]:
    """Process ids of all that is in it, what it was divided into included; [] where there is none."""
    found: list[int] = []
    for directory in [path, *path.rglob("*/")] if path is not None and path.is_dir() else []:
        with contextlib.suppress(OSError):  # gone meanwhile
            found += [int(word) for word in (directory / "cgroup.procs").read_text("ascii").split()]
    return found


def kill(path: Path | None) -> None:
    """SIGKILL to all that is in it, and to whatever they fork at that moment."""
    if path is not None:
        with contextlib.suppress(OSError):  # gone: nobody was in it
            (path / "cgroup.kill").write_text("1", "ascii")


def remove(path: Path | None) -> None:
    """Takes it away with all that it was divided into, once nobody is in it."""
    if path is None or not path.is_dir():
        return
    for directory in sorted(path.rglob("*/"), reverse=True):
        with contextlib.suppress(OSError):  # a survivor is in it
            directory.rmdir()
    with contextlib.suppress(OSError):
        path.rmdir()
