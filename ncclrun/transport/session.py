"""The conversation with one node: boot over a bare shell, then requests and answers, and events as they come."""

from __future__ import annotations

import importlib.resources
import json
import queue
import secrets
import threading
import time
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from ncclrun.model.cluster import Node
from ncclrun.model.errors import HostError, NodeRefused
from ncclrun.node.wire import PROTOCOL, Decoder, Frame, WireError, encode
from ncclrun.transport import pulse
from ncclrun.transport.base import Channel

Sink = Callable[[Node, dict[str, Any], bytes], None]
Answer = dict[str, Any] | None
"""The header of an answer; None: the conversation ended before it came."""

READY = b"ncclrun: shell ready\n"
NOISE = 4096
PIECE = 256 << 10
_READ = 64 << 10


@cache
def boot_script() -> bytes:
    """The constant script that the node's shell runs first."""
    return (importlib.resources.files("ncclrun.node") / "boot.sh").read_bytes()


@cache
def package() -> bytes:
    """The node part as it travels: its length, a line feed, zlib-compressed JSON {module name: source}."""
    files = importlib.resources.files("ncclrun.node").iterdir()
    sources = {f.name[:-3]: f.read_text(encoding="utf-8") for f in files if f.name.endswith(".py")}
    packed = zlib.compress(json.dumps(sources, sort_keys=True).encode("ascii"), 9)
    return b"%d\n" % len(packed) + packed


class Session:
    """A node that speaks frames; thread-safe, several requests may be under way at once.

    ``hello`` is the node's first event. Events that were not asked for go to the sink, in order of arrival and from the
    session's reader thread; the last one is ``{"ev": "gone", "reason": …, "detail": …}`` with reason ``lost`` (the
    stream ended), ``silent`` (nothing was heard for too long) or ``closed`` (by us). A slow sink holds up the answers.
    """

    def __init__(self, node: Node, channel: Channel, sink: Sink, hello: dict[str, Any], decoder: Decoder) -> None:
        self.node = node
        self.hello = hello
        self._channel = channel
        self._sink = sink
        self._decoder = decoder
        self._heard = time.monotonic()
        self._delivering = False
        self._ids = 0
        self._waiting: dict[int, Callable[[Answer], None]] = {}
        self._reason = self._detail = ""
        self._lock = threading.Lock()
        self._sending = threading.Lock()

    @classmethod
    def open(cls, node: Node, channel: Channel, sink: Sink, timeout: float = 30.0) -> Session:
        """Boots the node part within ``timeout`` seconds; closes the channel and raises HostError when that fails.

        Reasons: ``shell`` (what answers is no usable shell), ``no_python``, ``protocol``, ``lost``, ``timeout``.
        """
        boot = _Boot(node, channel)
        limit = threading.Timer(timeout, boot.expire)
        limit.daemon = True
        limit.start()
        try:
            hello, rest, decoder = boot.run(timeout)
        except BaseException:
            channel.close()
            raise
        finally:
            limit.cancel()
        session = cls(node, channel, sink, hello, decoder)
        threading.Thread(target=session._read, args=(rest,), name=f"ncclrun-{node.name}", daemon=True).start()
        pulse.watch(session)
        return session

    @property
    def last_heard(self) -> float:
        """When the node last said something, on this machine's monotonic clock; now, while a sink holds us up."""
        return time.monotonic() if self._delivering else self._heard

    @property
    def gone(self) -> bool:
        """Whether the conversation has ended."""
        return bool(self._reason)

    def call(self, do: str, body: bytes = b"", timeout: float = 30.0, **args: Any) -> dict[str, Any]:
        """Sends a request and returns the answer's fields.

        Raises NodeRefused when the node refuses, HostError ``lost`` when the link is or goes away, ``timeout`` when no
        answer comes within ``timeout`` seconds.
        """
        answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        number = self._number(answers.put)
        try:
            self._send({"id": number, "do": do, **args}, body)
            answer = answers.get(timeout=timeout)
        except queue.Empty:
            raise HostError("timeout", f"{self.node.name}: no answer to `{do}` within {timeout:g} s") from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if answer is None:
            raise self._lost()
        if (error := refusal(do, answer)) is not None:
            raise error
        return answer

    def ask(self, do: str, then: Callable[[Answer], None], **args: Any) -> None:
        """Sends a request and waits for nothing: ``then`` gets the answer, mostly in the reader's thread.

        Raises HostError ``lost``.
        """
        self._send({"id": self._number(then), "do": do, **args})

    def post(self, do: str, **args: Any) -> None:
        """As ``ask``, of whom wants no answer: a refusal goes unseen."""
        self.ask(do, lambda _: None, **args)

    def _number(self, then: Callable[[Answer], None]) -> int:
        """A new request's number, under which ``then`` waits for the answer."""
        with self._lock:
            self._ids += 1
            if not self._reason:
                self._waiting[self._ids] = then
            return self._ids

    def clock(self, rounds: int = 3) -> tuple[float, float]:
        """(offset, round trip) in seconds: the node's clock minus ours, from the quickest of some exchanges."""
        best: tuple[float, float] | None = None
        for _ in range(rounds):
            began, sent = time.monotonic(), time.time()
            theirs = float(self.call("clock")["time"])
            trip = time.monotonic() - began
            if best is None or trip < best[1]:
                best = (theirs - (sent + trip / 2), trip)
        assert best is not None
        return best

    def send_code(self, pieces: Iterable[bytes], sha256: str, timeout: float = 120.0) -> None:
        """Uploads a .tar.gz in pieces of 256 KiB; the node verifies it against ``sha256``. Raises as ``call``."""
        buffer = bytearray()
        for piece in pieces:
            buffer += piece
            while len(buffer) > PIECE:
                self.call("put", body=bytes(buffer[:PIECE]), timeout=timeout, sha256=sha256, last=False)
                del buffer[:PIECE]
        self.call("put", body=bytes(buffer), timeout=timeout, sha256=sha256, last=True)

    def beat(self) -> None:
        """Shows the node that we live. Does nothing while something else is being sent: that shows it as well."""
        if self._reason or not self._sending.acquire(blocking=False):
            return
        try:
            self._channel.send(encode({"do": "beat"}))
        except HostError as error:
            self._end("lost", error.message)
        finally:
            self._sending.release()

    def close(self, reason: str = "closed", detail: str = "") -> None:
        """Ends the conversation; what the node runs stays. Safe to call twice and from any thread."""
        self._end(reason, detail)

    def _send(self, header: dict[str, Any], body: bytes = b"") -> None:
        frame = encode(header, body)
        if self._reason:
            raise self._lost()
        with self._sending:
            try:
                self._channel.send(frame)
            except HostError as error:
                self._end("lost", error.message)
                raise self._lost() from error

    def _lost(self) -> HostError:
        why = {"silent": "nothing was heard from it", "closed": "the session was closed here"}
        gone = "the connection is gone" + (f": {self._detail}" if self._detail else "")
        return HostError("lost", f"{self.node.name}: {why.get(self._reason, gone)}")

    def _read(self, rest: list[Frame]) -> None:
        """The reader thread: until the stream ends, whatever way."""
        detail = ""
        try:
            self._deliver(rest)
            while data := self._channel.recv(_READ):
                self._heard = time.monotonic()
                self._deliver(self._decoder.feed(data))
        except WireError as error:
            detail = f"what came is no frame: {error}"
        finally:
            self._end("lost", detail or _last_words(self._channel))
            self._sink(self.node, {"ev": "gone", "reason": self._reason, "detail": self._detail}, b"")

    def _deliver(self, frames: list[Frame]) -> None:
        self._delivering = True
        try:
            for header, body in frames:
                if "re" in header:
                    with self._lock:
                        then = self._waiting.pop(header["re"], None)
                    if then is not None:
                        then(header)
                elif header.get("ev") != "beat":
                    self._sink(self.node, header, body)
        finally:
            self._heard = time.monotonic()
            self._delivering = False

    def _end(self, reason: str, detail: str) -> None:
        """The first to say why it ends is heard; all who wait for an answer are told."""
        with self._lock:
            if self._reason:
                return
            self._detail = detail
            self._reason = reason  # behind the detail: who sees the one may read the other, without the lock
            waiting, self._waiting = list(self._waiting.values()), {}
        self._channel.close()
        for then in waiting:
            then(None)


def refusal(do: str, answer: dict[str, Any]) -> NodeRefused | None:
    """The node's no to a request, None where the answer is none."""
    if answer.get("ok"):
        return None
    error = answer.get("error") or {}
    message = str(error.get("message", f"`{do}` was refused"))
    return NodeRefused(str(error.get("code", "refused")), message, fix=str(error.get("fix", "")))


def _last_words(channel: Channel) -> str:
    """What there is to say about a stream that ended."""
    status = channel.exit_status()
    lines = [f"the node part ended with status {status}" if status is not None else "the connection ended"]
    return ": ".join([*lines, *channel.stderr_tail().strip().splitlines()[-1:]])


class _Boot:
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
        data = self._channel.recv(_READ)
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
