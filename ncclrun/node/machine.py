"""Which machine this is, and who we are on it."""

from __future__ import annotations

import hashlib
import os
import pwd
import socket
from pathlib import Path
from typing import Iterable

from .sysfs import read


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def boot_id() -> str:
    """Changes with every start of the machine; "" where the kernel does not say."""
    return read(Path("/proc/sys/kernel/random/boot_id"))


def _network() -> str:
    try:
        return str(Path("/proc/self/ns/net").stat().st_ino)
    except OSError:
        return ""


def host_id() -> str:
    """12 hex digits that stay the same when the machine restarts: what finds its runs again in a shared home."""
    return _digest([read(Path("/etc/machine-id")), socket.gethostname()])


def machine_id() -> str:
    """12 hex digits, equal only for two nodes on one machine and in one network namespace, until it restarts."""
    return _digest([boot_id(), read(Path("/etc/machine-id")), socket.gethostname(), _network()])


def uid() -> int:
    """The user id that we act as."""
    return os.getuid()


def name_of(number: int) -> str:
    """The login name of a user id, or the number where it has none (containers)."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def user() -> str:
    """Our login name."""
    return name_of(os.getuid())


def home() -> Path | None:
    """The home directory: $HOME where it is absolute, else the password file's; None where there is none."""
    named = os.environ.get("HOME", "")
    if named.startswith("/"):
        return Path(named)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return None


def expand(path: str) -> Path:
    """A path as a user writes it in the cluster file: `~/` is the home directory here."""
    base = home()
    if base is not None and (path == "~" or path.startswith("~/")):
        return base / path[2:]
    return Path(path)
