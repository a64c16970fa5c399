"""The remote shell's stdin and stdout over a raw SSH channel: bounded sends, stderr kept out of the way."""

from __future__ import annotations

import threading
from collections.abc import Callable

from paramiko import Channel as RawChannel
from paramiko import SSHException

from ncclrun.model.errors import HostError
from ncclrun.transport.dial import Deadline

SEND_SECONDS = 30.0
STDERR_TAIL = 8192
_TICK = 2.0
_PIECE = 1 << 15


class SshChannel:
    """Implements Channel on a connection of its own, which ``end`` closes."""

    def __init__(self, label: str, channel: RawChannel, end: Callable[[], None]) -> None:
        self._label = label
        self._channel = channel
        self._end = end
        self._errors = b""
        self._closed = threading.Event()
        channel.settimeout(_TICK)

    def send(self, data: bytes) -> None:
        """All of ``data``; raises HostError ``lost`` when the stream is gone or took nothing for 30 s."""
        position = 0
        patience = Deadline(SEND_SECONDS)
        while position < len(data):
            try:
                sent = self._channel.send(data[position : position + _PIECE])
            except TimeoutError:
                if patience.passed():
                    raise HostError("lost", f"{self._label}: nothing was read there for {SEND_SECONDS:.0f} s") from None
                continue
            except (OSError, EOFError, SSHException) as error:
                raise HostError("lost", f"{self._label}: the connection is gone ({error or 'closed'})") from error
            if sent == 0:
                raise HostError("lost", f"{self._label}: the connection is gone")
            position += sent
            patience = Deadline(SEND_SECONDS)

    def recv(self, size: int) -> bytes:
        """At least one byte; b"" at the end of the stream."""
        while not self._closed.is_set():
            try:
                data = self._channel.recv(size)
            except TimeoutError:
                self._drain()
                continue
            self._drain()
            return data
        return b""

    def _drain(self) -> None:
        """Takes what came on stderr: it shares the window with stdout, so what is left there would stop both."""
        while self._channel.recv_stderr_ready() and (piece := self._channel.recv_stderr(STDERR_TAIL)):
            self._errors = (self._errors + piece)[-STDERR_TAIL:]

    def stderr_tail(self) -> str:
        """The last 8 KiB of stderr."""
        return self._errors.decode("utf-8", "replace")

    def exit_status(self) -> int | None:
        """Exit status of the remote shell, None while it runs or when it never said."""
        if not self._channel.exit_status_ready():
            return None
        status = self._channel.recv_exit_status()
        return None if status < 0 else status

    def close(self) -> None:
        """Ends the connection at once."""
        if not self._closed.is_set():
            self._closed.set()
            self._end()
