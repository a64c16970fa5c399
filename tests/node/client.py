"""A controller in small: boots the node part through `/bin/sh -s` and speaks its protocol."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ncclrun.node import wire

NODE = Path(wire.__file__).parent
NONCE = "5eed0123456789ab"
TOKEN = f"token-of-the-tests-{os.getpid()}"
MARK, OTHER = f"9{os.getpid():08}", f"8{os.getpid():08}"
"""Seconds that processes of these tests sleep, by which they are found: others run such tests at the same time."""
"""Another one in each session of tests: what a test leaves is found by it, and killed."""
SECONDS = 60.0


def package() -> bytes:
    """What follows the two lines: length and compressed sources."""
    sources = {path.stem: path.read_text("utf-8") for path in NODE.glob("*.py")}
    data = zlib.compress(json.dumps(sources).encode("utf-8"))
    return b"%d\n" % len(data) + data


class Refused(Exception):
    """The node's refusal; ``code`` is its word."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']} [{error['fix']}]")
        self.code: str = error["code"]
        self.message: str = error["message"]
        self.fix: str = error["fix"]
        self.details: dict[str, Any] = error.get("details") or {}


class Client:
    """One channel. Events that arrive while an answer is awaited are kept in ``events``."""

    def __init__(self, python: str, env: dict[str, str], shell: tuple[str, ...] = ("/bin/sh",)) -> None:
        self.process = subprocess.Popen(
            [*shell, "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, start_new_session=True, bufsize=0
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin = self.process.stdin.fileno()
        self.stdout = self.process.stdout.fileno()
        self.decoder = wire.Decoder()
        self.events: list[wire.Frame] = []
        self.answers: dict[int, dict[str, Any]] = {}
        self.number = 0
        self._buffer = b""
        self.write((NODE / "boot.sh").read_bytes())
        self.line_ending("ncclrun: shell ready")
        self.write(f"{NONCE}\n{python}\n".encode() + package())

    def write(self, data: bytes) -> None:
        """All of it."""
        while data:
            data = data[os.write(self.stdin, data) :]

    def line_ending(self, text: str) -> str:
        """Skips lines until one ends so."""
        while True:
            while b"\n" in self._buffer:
                line, self._buffer = self._buffer.split(b"\n", 1)
                if line.decode().endswith(text):
                    return line.decode()
            piece = os.read(self.stdout, 1)
            assert piece, f"the channel ended before {text!r}"
            self._buffer += piece

    def hello(self) -> dict[str, Any]:
        """The first frame."""
        self.line_ending(f"{NONCE} frames")
        return self.event("hello")[0]

    def receive(self, seconds: float) -> None:
        """Takes what arrives within the time."""
        if not select.select([self.stdout], [], [], seconds)[0]:
            return
        data = os.read(self.stdout, 1 << 18)
        if not data:
            raise EOFError("the node part has gone")
        for header, body in self.decoder.feed(data):
            if "re" in header:
                self.answers[header["re"]] = header
            else:
                self.events.append((header, body))

    def send(self, do: str, body: bytes = b"", **arguments: Any) -> int:
        """A request, its answer not awaited."""
        self.number += 1
        self.write(wire.encode({"id": self.number, "do": do, **arguments}, body))
        return self.number

    def answer(self, number: int, seconds: float = SECONDS) -> dict[str, Any]:
        """The answer to a request; raises Refused."""
        deadline = time.monotonic() + seconds
        while number not in self.answers:
            assert time.monotonic() < deadline, "no answer"
            self.receive(0.5)
        found = self.answers.pop(number)
        if not found["ok"]:
            raise Refused(found["error"])
        return found

    def call(self, do: str, body: bytes = b"", **arguments: Any) -> dict[str, Any]:
        """A request and its answer."""
        return self.answer(self.send(do, body, **arguments))

    def event(self, name: str, seconds: float = SECONDS, **fields: Any) -> wire.Frame:
        """The next event of this name with these fields; those before it stay in ``events``."""
        deadline = time.monotonic() + seconds
        seen = 0
        while True:
            for index in range(seen, len(self.events)):
                header = self.events[index][0]
                if header["ev"] == name and all(header.get(key) == value for key, value in fields.items()):
                    return self.events.pop(index)
            seen = len(self.events)
            assert time.monotonic() < deadline, f"no event {name} {fields}"
            self.receive(0.5)

    # --- what most tests do

    def prepare(self, run_id: str, **more: Any) -> dict[str, Any]:
        """A run of one `exec` worker, unless ``more`` says otherwise."""
        usual = {"node_rank": 0, "nproc": 1, "launcher": "exec", "code": None, "workdir": None, "script": None}
        request = {**usual, "python": "", "listen": None, "token": TOKEN, **more}
        return self.call("prepare", run_id=run_id, **request)

    def start(self, run_id: str, *commands: list[str], **more: Any) -> dict[str, Any]:
        """One worker for each command."""
        processes = [{"argv": argv, "local_rank": rank, "env": {}} for rank, argv in enumerate(commands)]
        request = {"processes": processes, "env": {}, "unset": [], "grace": 5.0, "token": TOKEN, "node_rank": 0, **more}
        return self.call("start", run_id=run_id, **request)

    def launch(self, run_id: str, *commands: list[str], **more: Any) -> dict[str, Any]:
        """prepare, start and follow; the answer of prepare."""
        prepared = self.prepare(run_id, nproc=len(commands))
        self.start(run_id, *commands, **more)
        self.call("follow", run_id=run_id, node_rank=0, offsets={}, tail=None)
        return prepared

    def end(self, seconds: float = SECONDS) -> dict[str, Any]:
        """The end record."""
        record: dict[str, Any] = self.event("end", seconds)[0]["record"]
        return record

    def logs(self) -> dict[str, bytes]:
        """What arrived so far, by stream; the offsets must follow each other."""
        found: dict[str, bytearray] = {}
        first: dict[str, int] = {}
        for header, body in self.events:
            if header["ev"] == "log":
                stream = header["stream"]
                first.setdefault(stream, header["offset"])
                text = found.setdefault(stream, bytearray())
                assert header["offset"] == first[stream] + len(text)
                text += body
        return {stream: bytes(text) for stream, text in found.items()}

    def hang_up(self) -> int:
        """Ends the channel; the exit status of the node part."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        return self.process.wait(SECONDS)

    def close(self) -> None:
        """Ends everything of this channel."""
        if self.process.poll() is None:
            try:
                self.hang_up()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextlib.contextmanager
def connected(python: str, env: dict[str, str], shell: tuple[str, ...] = ("/bin/sh",)) -> Iterator[Client]:
    """A client whose hello was read."""
    client = Client(python, env, shell)
    try:
        client.hello()
        yield client
    finally:
        client.close()
