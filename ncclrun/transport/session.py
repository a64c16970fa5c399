"""The conversation with one node: requests and answers, and events as they come."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from ncclrun.model.cluster import Node
from ncclrun.model.errors import HostError, NodeRefused
from ncclrun.node.wire import Decoder, Frame, WireError, encode
from ncclrun.transport import pulse
from ncclrun.transport.base import Channel
from ncclrun.transport.boot import READ, Boot

Sink = Callable[[Node, dict[str, Any], bytes], None]
Answer = dict[str, Any] | None
"""The header of an answer; None: the conversation ended before it came."""

PIECE = 256 << 10


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
        boot = Boot(node, channel)
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
        here = self._reason == "closed"
        fix = "" if here else f"see whether it is up and answers:  ssh {self.node.host} uptime;  then run this again"
        return HostError("lost", f"{self.node.name}: {why.get(self._reason, gone)}", fix=fix)

    def _read(self, rest: list[Frame]) -> None:
        """The reader thread: until the stream ends, whatever way."""
        detail = ""
        try:
            self._deliver(rest)
            while data := self._channel.recv(READ):
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
    code, fix = str(error.get("code", "refused")), str(error.get("fix", ""))
    return NodeRefused(code, message, fix=fix, details=error.get("details"))


def _last_words(channel: Channel) -> str:
    """What there is to say about a stream that ended."""
    status = channel.exit_status()
    lines = [f"the node part ended with status {status}" if status is not None else "the connection ended"]
    return ": ".join([*lines, *channel.stderr_tail().strip().splitlines()[-1:]])
