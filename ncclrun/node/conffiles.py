"""NCCL's conf files as they lie on this node: every one that an environment may lead to, whatever the version."""

from __future__ import annotations

import hashlib
import os
import pwd
import stat
from pathlib import Path
from typing import Any, Iterator

SYSTEM = Path("/etc/nccl.conf")
MOST_BYTES = 64 << 10
KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NoFile(OSError):
    """Something lies there that is no regular file: what, in ``strerror``."""


def content(path: Path, most: int) -> tuple[bytes, os.stat_result]:
    """The first ``most`` bytes of a regular file, links followed, and what it is. Raises OSError; waits for nobody."""
    # Looked at first: opening a device is enough to set some of them going. Then once more, for it may be another now.
    _check_regular(path.stat())
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        _check_regular(status)
        return file.read(most), status


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NoFile(0, kind(status))


def kind(status: os.stat_result) -> str:
    """What lies there, in words, where it is no regular file."""
    return KINDS.get(stat.S_IFMT(status.st_mode), "something else")


def owner(uid: int) -> str:
    """A user's name, or the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def passwd_home() -> str:
    """Our home by the passwd entry; "" without one (a container's user)."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def in_home(home: str) -> Path | None:
    """Where NCCL looks in that home; None where there is none."""
    return Path(home) / ".nccl.conf" if home else None


def look(path: Path, roles: list[str]) -> dict[str, Any]:
    """The fields of model ConfFile; of a file that is not there ``text`` is None and ``error`` "" ."""
    file: dict[str, Any] = {"path": str(path), "roles": roles, "text": None, "error": "", "sha256": ""}
    file.update(mode=0, owner="", link="")
    try:
        if path.is_symlink():
            file["link"] = os.readlink(path)  # as it is written: Path would tidy it
        data, status = content(path, MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        file["error"] = "a link to nothing" if file["link"] else ""
    except OSError as error:
        file["error"] = error.strerror or str(error)
    else:
        file.update(mode=stat.S_IMODE(status.st_mode), owner=owner(status.st_uid))
        if len(data) > MOST_BYTES:
            file["error"] = f"longer than {MOST_BYTES >> 10} KiB"
        else:
            file.update(text=data.decode("utf-8", "surrogateescape"), sha256=hashlib.sha256(data).hexdigest())
    return file


def _candidates(env: dict[str, str]) -> Iterator[tuple[Path | None, str]]:
    """Where some version of NCCL would look in this environment, and by which way."""
    yield Path(env["NCCL_CONF_FILE"]) if env.get("NCCL_CONF_FILE") else None, "named"
    yield in_home(env.get("HOME", "")), "home"
    yield in_home(passwd_home()), "passwd_home"
    yield SYSTEM, "system"


def read(env: dict[str, str]) -> list[dict[str, Any]]:
    """The fields of model ConfFile for each file that is there, and for the one that the environment names."""
    roles: dict[Path, list[str]] = {}
    for path, role in _candidates(env):
        if path is not None:
            roles.setdefault(path, []).append(role)
    files = []
    for path, ways in roles.items():
        file = look(path, ways)
        if not path.is_absolute():
            file.update(text=None, sha256="", error="a relative path: it depends on where each worker is started")
        if file["text"] is not None or file["error"] or "named" in ways:
            files.append(file)
    return files
