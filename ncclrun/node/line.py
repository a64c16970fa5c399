"""One connection of the lifeline: lines of JSON that only somebody with the run's token can have said."""

from __future__ import annotations

import hmac
import json
import re
import socket
import struct
from typing import Any

from .hello import new_challenge, proof

LONGEST = 8 << 10
"""Bytes of a line."""
MOST_WAITING = 64 << 10
_HELLO = re.compile(rb"life ([0-9]{1,6}) [0-9a-f]{16,64}")
_CHALLENGE = re.compile(rb"[0-9a-f]{16,64}")


class Broken(Exception):
    """The connection is of no use any more.

    ``closed``: the process at the other end closed it, or ended (FIN). A reset may be anybody's, and tells nothing.
    """

    def __init__(self, closed: bool = False) -> None:
        super().__init__("closed" if closed else "broken")
        self.closed = closed


class Line:
    """A connected socket, or one that is about to be; nothing here waits."""

    def __init__(self, sock: socket.socket, token: str) -> None:
        self.sock = sock
        self._token = token
        self._key = ""
        self._hello = ""
        self._received = bytearray()
        self._waiting = b""
        self._said = self._taken = 0
        self._ways = ("up", "down")

    @property
    def agreed(self) -> bool:
        """Whether both have given their challenge, so that lines may be said."""
        return self._key != ""

    @property
    def proven(self) -> bool:
        """Whether the other end has said something that only a supervisor of this run can say."""
        return self._taken > 0

    # --- the two first lines

    def call(self, node_rank: int) -> None:
        """The caller's first line."""
        self._hello = f"life {node_rank} {new_challenge()}"
        self._put(self._hello.encode("ascii") + b"\n")

    def take_challenge(self, line: bytes) -> None:
        """Node 0's first line. Raises Broken on anything else."""
        if not _CHALLENGE.fullmatch(line):
            raise Broken
        self._key = proof(self._token, f"{self._hello} {line.decode('ascii')}")

    def answer(self, line: bytes) -> int:
        """Answers a caller's first line; the node_rank that it claims, and its next line proves. Raises Broken."""
        found = _HELLO.fullmatch(line)
        if found is None:
            raise Broken
        challenge = new_challenge()
        self._key = proof(self._token, f"{line.decode('ascii')} {challenge}")
        self._ways = ("down", "up")
        self._put(challenge.encode("ascii") + b"\n")
        return int(found.group(1))

    # --- all others

    def say(self, value: dict[str, Any]) -> None:
        """Sends a line, unless the other end does not even take old ones: each is a whole account, the next will do."""
        if len(self._waiting) < MOST_WAITING:
            text = json.dumps(value)
            self._put(f"{self._proof(self._ways[0], self._said, text)} {text}\n".encode("ascii"))
            self._said += 1

    def open(self, line: bytes) -> dict[str, Any]:
        """What a line says. Raises Broken where it is not the next one of somebody who knows the token."""
        shown, _, text = line.decode("ascii", "replace").partition(" ")
        expected = self._proof(self._ways[1], self._taken, text) if text.isascii() else ""
        if not hmac.compare_digest(shown.encode("utf-8"), expected.encode("ascii")):
            raise Broken
        self._taken += 1
        value = json.loads(text)
        return dict(value)

    def _proof(self, way: str, number: int, text: str) -> str:
        return proof(self._key, f"{way} {number} {text}")

    def lines(self) -> list[bytes]:
        """The whole lines that have come, without their line feeds. Raises Broken at the end."""
        try:
            data = self.sock.recv(LONGEST)
        except BlockingIOError:
            return []
        except OSError:
            raise Broken from None
        if not data:
            raise Broken(closed=True)
        self._received += data
        *whole, rest = bytes(self._received).split(b"\n")
        self._received[:] = rest
        if len(rest) > LONGEST:
            raise Broken
        return whole

    def _put(self, data: bytes) -> None:
        self._waiting += data
        self.flush()

    def flush(self) -> None:
        """Sends what is left, as far as the kernel takes it."""
        try:
            while self._waiting:
                self._waiting = self._waiting[self.sock.send(self._waiting) :]
        except OSError:
            return  # it does not take it now, or has broken: then `lines` says so

    def close(self) -> None:
        """Ends it well: the other end reads what was said, and then that we have gone."""
        self.sock.close()

    def drop(self) -> None:
        """Ends it with a reset, so that nobody takes this for the end of a supervisor."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()
