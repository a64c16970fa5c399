"""Nodes on this very machine: the same byte stream to `/bin/sh -s`, by subprocess instead of SSH."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

import netifaces

from ncclrun.model.cluster import Node
from ncclrun.model.errors import HostError
from ncclrun.transport.dial import child_environment, look_up

SEND_SECONDS = 30.0
STATUS_SECONDS = 0.5
STDERR_TAIL = 8192
NAME_SECONDS = 3.0
_TICK_MS = 200
_PIECE = 1 << 16
ADDRESSES_SECONDS = 10.0
"""How long a look at this machine's addresses counts: each takes 100 ms where there are 80 interfaces (containers'
say), and every node asks."""


class _OwnAddresses:
    """All addresses of this machine's interfaces, without zones; looked at by one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until = 0.0
        self._found: frozenset[str] = frozenset()

    def __call__(self) -> frozenset[str]:
        with self._lock:
            if time.monotonic() >= self._until:
                self._found = self._look()
                self._until = time.monotonic() + ADDRESSES_SECONDS
            return self._found

    def _look(self) -> frozenset[str]:
        families = (netifaces.AF_INET, netifaces.AF_INET6)
        found = set()
        for name in netifaces.interfaces():
            try:
                by_family = netifaces.ifaddresses(name)
            except ValueError:  # it went away since it was listed
                continue
            found |= {
                entry["addr"].split("%")[0] for f in families for entry in by_family.get(f, ()) if "addr" in entry
            }
        return frozenset(found)


own_addresses = _OwnAddresses()


def is_this_machine(hostname: str) -> bool:
    """Whether a name or address leads here; a name that can't be resolved within 3 s does not."""
    if hostname == "localhost":
        return True
    try:
        found = {str(address[0]).split("%")[0] for _, address in look_up(hostname, 0, "any", NAME_SECONDS)}
    except OSError:  # no such name, or dead name servers: connecting will say so with the name in the message
        return False
    ours = own_addresses()
    return bool(found) and all(ipaddress.ip_address(a).is_loopback or a in ours for a in found)


class LocalChannel:
    """Implements Channel over the pipes of a child in a session of its own, so that Ctrl-C does not reach it."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close()
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-s"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                cwd=Path.home() if Path.home().is_dir() else "/",  # where a login would start
                env=child_environment(),
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise HostError("shell", f"{label}: /bin/sh can't be started: {error.strerror}") from error
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("both are pipes")
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        self._ended = False
        self._closed = threading.Event()
        self._sending, self._receiving, self._closing = threading.Lock(), threading.Lock(), threading.Lock()

    def send(self, data: bytes) -> None:
        """All of ``data``; raises HostError ``lost`` when the child is gone or took nothing for 30 s."""
        view = memoryview(data)
        with self._sending:
            poll = select.poll()
            waited = 0
            while view:
                if self._closed.is_set():
                    raise HostError("lost", f"{self._label}: the stream is closed")
                poll.register(self._stdin, select.POLLOUT)
                if not poll.poll(_TICK_MS):
                    waited += _TICK_MS
                    if waited >= SEND_SECONDS * 1000:
                        raise HostError("lost", f"{self._label}: nothing was read there for {SEND_SECONDS:.0f} s")
                    continue
                try:
                    view = view[os.write(self._stdin.fileno(), view[:_PIECE]) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise HostError("lost", f"{self._label}: the node part is gone ({error.strerror})") from error
                waited = 0

    def recv(self, size: int) -> bytes:
        """At least one byte; b"" at the end of the stream."""
        with self._receiving:
            poll = select.poll()
            while not self._closed.is_set():
                poll.register(self._stdout, select.POLLIN)
                if poll.poll(_TICK_MS):
                    data = os.read(self._stdout.fileno(), size)
                    self._ended = not data
                    return data
        return b""

    def stderr_tail(self) -> str:
        """The last 8 KiB of stderr."""
        with self._closing:
            if self._errors.closed:
                return ""
            size = os.fstat(self._errors.fileno()).st_size
            raw = os.pread(self._errors.fileno(), STDERR_TAIL, max(0, size - STDERR_TAIL))
        return raw.decode("utf-8", "replace")

    def exit_status(self) -> int | None:
        """Exit status of the child, negative for a signal; None while it runs."""
        if not self._ended:
            return self._process.poll()
        try:
            return self._process.wait(timeout=STATUS_SECONDS)  # the end of stdout comes a moment before the end itself
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """Ends the stream; the child has a second to see it, then it is killed."""
        self._closed.set()
        with self._closing:
            if self._errors.closed:
                return
            with self._sending:
                self._stdin.close()
            try:
                self._process.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):  # it ended in this moment
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            with self._receiving:
                self._stdout.close()
            self._errors.close()


class LocalTransport:
    """Implements Transport for this machine."""

    def __init__(self) -> None:
        self._channels: list[LocalChannel] = []
        self._lock = threading.Lock()

    def is_local(self, node: Node) -> bool:
        """True: every node is taken for this machine."""
        return True

    def open(self, node: Node) -> LocalChannel:
        """Starts the shell; raises HostError."""
        channel = LocalChannel(node.name)
        with self._lock:
            self._channels.append(channel)
        return channel

    def close(self) -> None:
        """Closes everything that is still open."""
        with self._lock:
            channels, self._channels = self._channels, []
        for channel in channels:
            channel.close()
