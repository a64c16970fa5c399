"""Raw SSH channels: the remote shell's stdin and stdout with bounded sends, and a passage through a gateway."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from paramiko import Channel as RawChannel
from paramiko import SSHException

from ncclrun.model.errors import HostError
from ncclrun.transport.dial import Deadline

SEND_SECONDS = 30.0
STATUS_SECONDS = 0.5
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
        self._ended = False
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
            self._ended = not data
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
        # it comes a moment after the end of stdout
        if not self._channel.status_event.wait(STATUS_SECONDS if self._ended else 0):
            return None
        status = self._channel.recv_exit_status()
        return None if status < 0 else status

    def close(self) -> None:
        """Ends the connection at once."""
        if not self._closed.is_set():
            self._closed.set()
            self._end()


class Passage:
    """A direct-tcpip channel through a gateway in a socket's place; its end is orderly and quiet.

    paramiko lets data or an end of file overtake a close from another thread, and sshd then ends the gateway's whole
    connection, with all nodes behind it: so sends and the close take turns here, and nothing is half closed. A close
    that the gateway can't hear any more would raise in the thread of the connection on top, where nobody listens.
    """

    def __init__(self, channel: RawChannel) -> None:
        self._channel = channel
        self._turn = threading.Lock()
        self.recv = channel.recv
        self.settimeout = channel.settimeout

    @property
    def _closed(self) -> bool:  # paramiko asks its sockets for this
        return self._channel.closed

    def send(self, data: bytes) -> int:
        """As a socket's: how much was taken, TimeoutError after the time-out that was set."""
        with self._turn:
            return self._channel.send(data)

    def shutdown(self, _how: int) -> None:
        """Closes it, which wakes whoever reads."""
        self.close()

    def close(self) -> None:
        """Closes the channel; safe to call twice."""
        with self._turn, contextlib.suppress(OSError, EOFError, SSHException):
            self._channel.close()
