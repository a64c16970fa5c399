"""The start of a conversation: over a bare shell the node part is sent, until it speaks frames."""

from __future__ import annotations

import importlib.resources
import json
import secrets
import zlib
from functools import cache
from typing import Any

from ncclrun.model.cluster import Node
from ncclrun.model.errors import HostError
from ncclrun.node.wire import PROTOCOL, Decoder, Frame, WireError
from ncclrun.transport.base import Channel

READY = b"ncclrun: shell ready\n"
NOISE = 4096
READ = 64 << 10


@cache
def boot_script() -> bytes:
    """The constant script that the node's shell runs first."""
    return (importlib.resources.files("ncclrun.node") / "boot.sh").read_bytes()


@cache
def package() -> bytes:
    """The node part as it travels: its length, a line feed, zlib-compressed JSON {module name: source}."""
    files = importlib.resources.files("ncclrun.node").iterdir()
    sources = {f.name[:-3]: f.read_text(encoding="utf-8") for f in files if f.name.endswith(".py")}
    packed = zlib.compress(json.dumps(sources, sort_keys=True).encode("ascii"))  # level 9 takes twice the time for 1 %
    return b"%d\n" % len(packed) + packed


class Boot:
    """The start of a conversation: shell ready, package sent, the node's first frame."""

    def __init__(self, node: Node, channel: Channel) -> None:
        self._node = node
        self._channel = channel
        self._nonce = secrets.token_hex(16).encode("ascii")
        self._buffer = b""
        self._noise = b""
        self._expired = False
        self._doing = "the shell did not answer"

    def expire(self) -> None:
        """The time is up."""
        self._expired = True
        self._channel.close()

    def run(self, timeout: float) -> tuple[dict[str, Any], list[Frame], Decoder]:
        """The hello, the frames that came right behind it, and the decoder for what follows."""
        try:
            return self._run()
        except _StreamEnded as error:
            if self._expired:
                message = f"{self._node.name}: {self._doing} within {timeout:g} s{self._printed()}"
                raise HostError("timeout", message, fix=_SHELL_FIX) from error
            status = self._channel.exit_status()
            ended = f"the remote shell ended{'' if status is None else f' with status {status}'}"
            message = f"{self._node.name}: {ended} before the node part ran{self._printed()}"
            raise HostError("shell", message, fix=_SHELL_FIX) from error

    def _run(self) -> tuple[dict[str, Any], list[Frame], Decoder]:
        self._send(boot_script())
        self._skip_to(READY)
        self._doing = "the node part did not start"
        python = self._node.launch.python.replace("\n", "")
        self._send(self._nonce + b"\n" + python.encode("utf-8", "surrogateescape") + b"\n" + package())
        self._skip_to(self._nonce + b" ")
        words = self._line()
        if words.startswith("no-python"):
            message = f"{self._node.name}: no Python 3.8 or later; tried:{words.removeprefix('no-python')}"
            raise HostError("no_python", message, fix="install one, or name it with `python` in the cluster file")
        if words != "frames":
            raise HostError("protocol", f"{self._node.name}: the node part said {words!r} instead of frames")
        return self._first_frame()

    def _first_frame(self) -> tuple[dict[str, Any], list[Frame], Decoder]:
        decoder = Decoder()
        try:
            frames = decoder.feed(self._buffer)
            while not frames:
                frames = decoder.feed(self._more())
        except WireError as error:
            raise HostError("protocol", f"{self._node.name}: what came is no frame: {error}") from error
        hello = frames[0][0]
        if hello.get("ev") != "hello" or hello.get("protocol") != PROTOCOL:
            said = f"protocol {hello.get('protocol')}, and we speak {PROTOCOL}"
            raise HostError("protocol", f"{self._node.name}: the node part speaks {said}")
        return hello, frames[1:], decoder

    def _send(self, data: bytes) -> None:
        try:
            self._channel.send(data)
        except HostError as error:
            raise _StreamEnded from error

    def _more(self) -> bytes:
        data = self._channel.recv(READ)
        if not data:
            raise _StreamEnded
        return data

    def _skip_to(self, mark: bytes) -> None:
        """Reads past ``mark``; what stands before it is a login shell's chatter, kept for messages."""
        while (position := self._buffer.find(mark)) < 0:
            keep = len(mark) - 1
            self._noise = (self._noise + self._buffer[: max(0, len(self._buffer) - keep)])[-NOISE:]
            self._buffer = self._buffer[max(0, len(self._buffer) - keep) :]
            try:
                self._buffer += self._more()
            except _StreamEnded:
                self._noise = (self._noise + self._buffer)[-NOISE:]
                raise
        self._noise = (self._noise + self._buffer[:position])[-NOISE:]
        self._buffer = self._buffer[position + len(mark) :]

    def _line(self) -> str:
        while b"\n" not in self._buffer:
            self._buffer += self._more()
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode("utf-8", "replace").rstrip("\r")

    def _printed(self) -> str:
        """What the shell printed instead, for the message."""
        text = self._noise.decode("utf-8", "replace") + "\n" + self._channel.stderr_tail()
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return f"; it printed: {' | '.join(lines[-5:])}" if lines else ""


class _StreamEnded(Exception):
    """The stream ended while more was awaited."""


_SHELL_FIX = (
    "the account needs a login shell that runs commands: no nologin, no forced command in authorized_keys, and no "
    "start-up file such as .bashrc that ends the shell or reads its input"
)
