"""Ports: the master's is chosen and opened before the start, or its holder is named; free ones are found."""

from __future__ import annotations

import errno
import os
import random
import re
import socket
from pathlib import Path

from . import processes
from .listener import open_port
from .refusal import Refusal
from .sysfs import read

CHOICES = range(20000, 32001)
HIGH = range(1024, 65536)
MOST_TRIES = 200
LISTEN_STATE = "0A"


def _check_everywhere(port: int) -> None:
    """torch listens on all addresses: somebody on another address of this machine is in its way too. Raises OSError."""
    for address in ("0.0.0.0", "::"):  # noqa: S104  # looked at and closed again
        try:
            open_port(address, port).close()
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):  # IPv6 is switched off
                raise


def reserved() -> list[range]:
    """Port ranges that the kernel hands out or keeps: a chosen port there may be gone before torch binds it."""
    ranges = []
    for name in ("ip_local_port_range", "ip_local_reserved_ports"):
        text = read(Path("/proc/sys/net/ipv4") / name)
        pattern = r"(\d+)\s+(\d+)" if name == "ip_local_port_range" else r"(\d+)(?:-(\d+))?"
        ranges += [range(int(low), int(high or low) + 1) for low, high in re.findall(pattern, text)]
    return ranges


def _candidates() -> list[int]:
    taken = reserved()
    free = [port for port in CHOICES if not any(port in span for span in taken)]
    chosen = random.sample(free, min(64, len(free)))
    return chosen or random.sample(list(CHOICES), 64)


def open_high(address: str) -> socket.socket:
    """A listening socket on a random port that the kernel does not hand out by itself. Raises OSError, Refusal."""
    taken = reserved()
    for _ in range(MOST_TRIES):
        port = random.choice(HIGH)  # noqa: S311  # guards nothing
        if any(port in span for span in taken):
            continue
        try:
            return open_port(address, port)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    return open_port(address, 0)


def _holder(port: int) -> str:
    """Who listens on a port, for people: "" where it can't be found out (another user's process)."""
    inodes = set()
    for name in ("tcp", "tcp6"):
        rows = [line.split() for line in read(Path("/proc/net") / name).splitlines()[1:]]
        inodes |= {row[9] for row in rows if row[3] == LISTEN_STATE and int(row[1].rsplit(":", 1)[1], 16) == port}
    links = {f"socket:[{inode}]" for inode in inodes}
    for pid in processes.every() if links else {}:
        try:
            if any(os.readlink(entry) in links for entry in (processes.PROC / str(pid) / "fd").iterdir()):
                return f"process {pid}: {processes.command_of(pid)}"
        except OSError:
            continue  # gone meanwhile, or somebody else's
    return ""


def _in_use(port: int) -> Refusal:
    holder = _holder(port)
    return Refusal(
        "port_in_use",
        f"port {port} on the master is taken" + (f" by {holder}" if holder else " (by another user's process)"),
        "end that process, or give another port: --master-port auto",
    )


def open_master(address: str, port: int) -> socket.socket:
    """A listening socket for the master; port 0: a free one of `CHOICES`. Refuses with `port_in_use`, `bad_address`."""
    for candidate in [port] if port else _candidates():
        try:
            _check_everywhere(candidate)
            return open_port(address, candidate)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                if port:
                    raise _in_use(port) from error
            elif error.errno == errno.EADDRNOTAVAIL:
                raise Refusal("bad_address", f"this machine has no address {address}") from error
            elif error.errno == errno.EACCES:
                raise Refusal(
                    "port_in_use", f"port {port} may not be used by this user", "--master-port auto"
                ) from error
            else:
                raise
    raise Refusal("port_in_use", f"no free port between {CHOICES[0]} and {CHOICES[-1]}", "give one: --master-port N")
