"""A transport without machines: scripted nodes that answer through real frames, for tests of what stands above."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ncclrun.model.cluster import Node
from ncclrun.model.errors import HostError, NodeRefused
from ncclrun.node.wire import PROTOCOL, Decoder, encode
from ncclrun.transport.boot import READY, boot_script

Request = dict[str, Any]
Reply = Mapping[str, Any] | Callable[[Request, bytes], Mapping[str, Any]]

HELLO: dict[str, Any] = {
    "protocol": PROTOCOL,
    "python": "3.12.0",
    "executable": "/usr/bin/python3",
    "hostname": "fake",
    "user": "nobody",
    "uid": 65534,
    "pid": 1,
    "boot_id": "b",
    "machine": "m",
    "time": 0.0,
    "state_dir": "/nonexistent",
    "state_note": "",
}


class FakeNode:
    """A node by script: for each request a recorded answer, or a function of request and body that returns one.

    A function may raise NodeRefused. ``requests`` keeps what was asked, beats left out. A request without a script is
    refused with the code ``unscripted``.
    """

    def __init__(self, replies: Mapping[str, Reply] | None = None, **hello: Any) -> None:
        self.replies: dict[str, Reply] = {"clock": {"time": 0.0}, **(replies or {})}
        self.hello = {**HELLO, **hello}
        self.requests: list[Request] = []
        self._channel: FakeChannel | None = None

    def emit(self, header: Mapping[str, Any], body: bytes = b"") -> None:
        """Sends an event that was not asked for."""
        assert self._channel is not None, "nobody is connected"
        self._channel.push(encode(dict(header), body))

    def die(self) -> None:
        """Ends the stream, as a node that loses power or a cable that is cut and noticed."""
        assert self._channel is not None, "nobody is connected"
        self._channel.close()

    def attach(self, channel: FakeChannel) -> None:
        """The channel on which events go from now on."""
        self._channel = channel

    def answer(self, request: Request, body: bytes) -> dict[str, Any]:
        """The frame that answers a request."""
        self.requests.append(request)
        reply = self.replies.get(str(request["do"]))
        try:
            if reply is None:
                raise NodeRefused("unscripted", f"`{request['do']}` is not in the script")
            fields = reply(request, body) if callable(reply) else reply
        except NodeRefused as error:
            refusal = {"code": error.code, "message": error.message, "fix": error.fix, "details": dict(error.details)}
            return {"re": request["id"], "ok": False, "error": refusal}
        return {"re": request["id"], "ok": True, **fields}


class FakeChannel:
    """Implements Channel: plays the shell, then the node part."""

    def __init__(self, node: FakeNode) -> None:
        self._node = node
        self._out: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._rest = b""
        self._input = b""
        self._step = self._shell
        self._decoder = Decoder()
        self._closed = threading.Event()

    def send(self, data: bytes) -> None:
        """Takes the controller's bytes and plays on; raises HostError ``lost`` after the end."""
        if self._closed.is_set():
            raise HostError("lost", "the fake node is gone")
        self._input += data
        self._step()

    def _shell(self) -> None:
        if self._input == boot_script():
            self._input = b""
            self._step = self._boot
            self.push(READY)

    def _boot(self) -> None:
        nonce, _, rest = self._input.partition(b"\n")
        _python, _, rest = rest.partition(b"\n")
        size, found, packed = rest.partition(b"\n")
        if found and len(packed) >= int(size):
            self._input = b""
            self._step = self._serve
            self._node.attach(self)
            self.push(nonce + b" frames\n" + encode({"ev": "hello", **self._node.hello}))

    def _serve(self) -> None:
        data, self._input = self._input, b""
        for header, body in self._decoder.feed(data):
            if header.get("do") != "beat":
                self.push(encode(self._node.answer(header, body)))

    def push(self, data: bytes) -> None:
        """Gives the controller something to receive; a node that is gone says nothing more."""
        if not self._closed.is_set():
            self._out.put(data)

    def recv(self, size: int) -> bytes:
        """At least one byte; b"" after the end."""
        while not self._rest:
            if self._closed.is_set() and self._out.empty():
                return b""
            self._rest = self._out.get()
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def stderr_tail(self) -> str:
        """Nothing: a fake has no stderr."""
        return ""

    def exit_status(self) -> int | None:
        """None: a fake does not say."""
        return None

    def close(self) -> None:
        """Ends the stream; what was said before can still be received."""
        self._closed.set()
        self._out.put(b"")


class FakeTransport:
    """Implements Transport over scripted nodes, by node name; a HostError in a node's place is raised instead."""

    def __init__(self, nodes: Mapping[str, FakeNode | HostError], *, local: bool = False) -> None:
        self.nodes = dict(nodes)
        self._local = local

    def is_local(self, node: Node) -> bool:
        """What the script says, the same for all nodes."""
        return self._local

    def open(self, node: Node) -> FakeChannel:
        """A channel to the node of that name; an unknown one has no such host."""
        fake = self.nodes.get(node.name)
        if fake is None:
            raise HostError("name", f"{node.name}: there is no such fake node")
        if isinstance(fake, HostError):
            raise fake
        return FakeChannel(fake)

    def close(self) -> None:
        """Nothing stays open."""
