"""The master's port before the start: chosen, held by a listener that proves who we are, its holder named."""

from __future__ import annotations

import errno
import hashlib
import hmac
import ipaddress
import os
import random
import re
import selectors
import socket
import struct
from pathlib import Path

from . import processes
from .refusal import Refusal

CHOICES = range(20000, 32001)
LONGEST_HELLO = 256
LISTEN_STATE = "0A"


def family_of(address: str) -> socket.AddressFamily:
    """IPv4 or IPv6; refuses what is no address (a zone is allowed)."""
    try:
        version = ipaddress.ip_address(address.split("%", 1)[0]).version
    except ValueError:
        raise Refusal("bad_address", f"{address!r} is no IP address") from None
    return socket.AF_INET6 if version == 6 else socket.AF_INET


def endpoint(address: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]:
    """Family and socket address; a zone (`fe80::1%eth1`) becomes the scope id."""
    family = family_of(address)
    if family == socket.AF_INET:
        return family, (address, port)
    name, _, zone = address.partition("%")
    try:
        scope = 0 if not zone else int(zone) if zone.isdigit() else socket.if_nametoindex(zone)
    except OSError:
        raise Refusal("bad_address", f"there is no interface {zone!r} here (address {address})") from None
    return family, (name, port, 0, scope)


def proof(token: str, challenge: bytes) -> bytes:
    """What only a node of this run can answer: the token itself never crosses the network."""
    return hmac.new(token.encode("utf-8"), challenge, hashlib.sha256).hexdigest().encode("ascii")


def _listen(address: str, port: int) -> socket.socket:
    family, target = endpoint(address, port)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        # So that the trainer can bind the moment that we close.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(target)
        sock.listen(128)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _check_everywhere(port: int) -> None:
    """torch listens on all addresses: somebody on another address of this machine is in its way too. Raises OSError."""
    for address in ("0.0.0.0", "::"):  # noqa: S104  # looked at and closed again
        try:
            _listen(address, port).close()
        except OSError as error:
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):  # IPv6 is switched off
                raise


def _reserved() -> list[range]:
    """Port ranges that the kernel hands out or keeps: a chosen port there may be gone before torch binds it."""
    ranges = []
    for name in ("ip_local_port_range", "ip_local_reserved_ports"):
        try:
            text = (Path("/proc/sys/net/ipv4") / name).read_text("ascii")
        except OSError:
            continue
        pattern = r"(\d+)\s+(\d+)" if name == "ip_local_port_range" else r"(\d+)(?:-(\d+))?"
        ranges += [range(int(low), int(high or low) + 1) for low, high in re.findall(pattern, text)]
    return ranges


def _candidates() -> list[int]:
    reserved = _reserved()
    free = [port for port in CHOICES if not any(port in span for span in reserved)]
    chosen = random.sample(free, min(64, len(free)))
    return chosen or random.sample(list(CHOICES), 64)


def _holder(port: int) -> str:
    """Who listens on a port, for people: "" where it can't be found out (another user's process)."""
    inodes = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = (Path("/proc/net") / name).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        rows = [line.split() for line in lines]
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


def _open(address: str, port: int) -> socket.socket:
    for candidate in [port] if port else _candidates():
        try:
            _check_everywhere(candidate)
            return _listen(address, candidate)
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


class Listener:
    """Holds the master's port on the serving loop and answers every caller's challenge, until the run starts."""

    def __init__(self, selector: selectors.BaseSelector, address: str, port: int, token: str) -> None:
        self._selector = selector
        self._token = token
        self._sock = _open(address, port)
        self._callers: dict[socket.socket, bytes] = {}
        self.port = int(self._sock.getsockname()[1])
        selector.register(self._sock, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        try:
            caller, _ = self._sock.accept()
        except OSError:
            return  # the caller gave up, or we are out of descriptors: it tries again
        caller.setblocking(False)
        self._callers[caller] = b""
        self._selector.register(caller, selectors.EVENT_READ, lambda: self._read(caller))

    def _read(self, caller: socket.socket) -> None:
        try:
            data = caller.recv(LONGEST_HELLO)
            text = self._callers[caller] + data
            if data and b"\n" in text:
                caller.send(proof(self._token, text.split(b"\n", 1)[0]) + b"\n")
                text = b""
        except BlockingIOError:
            return
        except OSError:
            data = text = b""
        # The caller closes first, so that no TIME_WAIT of ours stands in the trainer's way.
        if not data or len(text) > LONGEST_HELLO:
            self._drop(caller)
        else:
            self._callers[caller] = text

    def _drop(self, caller: socket.socket) -> None:
        self._selector.unregister(caller)
        del self._callers[caller]
        caller.close()

    def close(self) -> None:
        """Frees the port at once; safe to call twice."""
        if self._sock.fileno() < 0:
            return
        self._selector.unregister(self._sock)
        self._sock.close()
        for caller in list(self._callers):
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._drop(caller)
