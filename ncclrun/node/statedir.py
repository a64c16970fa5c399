"""Where this user's runs are kept on this machine, safe from what other users may have planted there."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

from . import machine, rundir
from .refusal import Refusal

FALLBACKS = (Path("/var/tmp"), Path("/tmp"))  # noqa: S108  # checked for owner, mode and links by _owned


class StateDir(NamedTuple):
    """``path`` is `<state>/ncclrun` (None: nowhere), ``note`` says why it is not the usual place ("" when it is)."""

    path: Path | None
    note: str

    def need(self) -> Path:
        """The path; refuses with `no_state_dir` where there is none."""
        if self.path is None:
            raise Refusal("no_state_dir", self.note, "set XDG_STATE_HOME to a directory that this user may write to")
        return self.path


def _owned(path: Path) -> None:
    """Makes a private directory, or checks one that is there. Raises OSError with the reason in words."""
    path.mkdir(mode=0o700, exist_ok=True)
    # Opened without following: a link planted by somebody else would make us write where they want.
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if status.st_uid != os.getuid():
            raise PermissionError(f"{path} belongs to uid {status.st_uid}, not to us")
        if stat.S_IMODE(status.st_mode) & 0o077:
            if path.name != "ncclrun":
                raise PermissionError(f"{path} is open to other users (mode {stat.S_IMODE(status.st_mode):o})")
            os.fchmod(fd, 0o700)
    finally:
        os.close(fd)


def _usable(path: Path) -> None:
    """That files can be made there, or that runs of ours are there. Raises OSError.

    A disk that fills up, or turns read-only, under a run is still where that run is found.
    """
    try:
        with tempfile.TemporaryFile(dir=str(path)):
            pass
    except OSError:
        if not any(part.control.exists() for part in rundir.every(path)):
            raise


def _usual() -> Path | None:
    named = os.environ.get("XDG_STATE_HOME", "")
    if named.startswith("/"):
        return Path(named)
    home = machine.home()
    return None if home is None else home / ".local" / "state"


def find() -> StateDir:
    """The first place that works: $XDG_STATE_HOME, ~/.local/state, then private directories in /var/tmp and /tmp."""
    reasons: list[str] = []
    usual = _usual()
    if usual is None:
        reasons.append("this user has no home directory")
    else:
        try:
            usual.mkdir(mode=0o700, parents=True, exist_ok=True)
            _owned(usual / "ncclrun")
            _usable(usual / "ncclrun")
            return StateDir(usual / "ncclrun", "")
        except OSError as error:
            reasons.append(f"{usual}: {error.strerror or error}")
    for base in FALLBACKS:
        private = base / f"ncclrun-{os.getuid()}"
        try:
            _owned(private)
            _owned(private / "ncclrun")
            _usable(private / "ncclrun")
            return StateDir(private / "ncclrun", f"runs are kept in {private} ({'; '.join(reasons)})")
        except OSError as error:
            reasons.append(f"{private}: {error.strerror or error}")
    return StateDir(None, "no place to keep runs: " + "; ".join(reasons))
