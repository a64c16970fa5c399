"""The echo that path MTUs are proven against: it answers in short, and only the datagrams of this run's nodes."""

from __future__ import annotations

import hmac
import selectors
import socket
import struct
from typing import NamedTuple

from .addresses import endpoint
from .hello import Identity

# Magic, nonce, proof; padding follows. The answer is shorter than any question, so nobody can use us to amplify.
QUESTION = struct.Struct("!4s16s32s")
ANSWER = struct.Struct("!4s16s32sI")
ASK, TELL = b"nrq1", b"nra1"
LARGEST = 65535
"""Bytes of the largest IP packet."""
ECHO_BUFFER = 4 << 20
# Of one turn of the loop, so that a flood leaves time for beats and logs.
DATAGRAMS = 32


class Reply(NamedTuple):
    """The datagram with this nonce came through, and who has it."""

    nonce: bytes
    node_rank: int


def _seal(token: str, kind: bytes, nonce: bytes, number: int) -> bytes:
    return hmac.new(token.encode("utf-8"), kind + nonce + struct.pack("!I", number), "sha256").digest()


def question(token: str, nonce: bytes, size: int) -> bytes:
    """A datagram of ``size`` bytes that the echo believes."""
    return QUESTION.pack(ASK, nonce, _seal(token, ASK, nonce, size)).ljust(size, b"\0")


def answer(identity: Identity, datagram: memoryview) -> bytes | None:
    """What the echo says to a datagram; None: nothing."""
    if len(datagram) <= ANSWER.size:
        return None
    kind, nonce, seal = QUESTION.unpack_from(datagram)
    if kind != ASK or not hmac.compare_digest(seal, _seal(identity.token, ASK, nonce, len(datagram))):
        return None
    return ANSWER.pack(TELL, nonce, _seal(identity.token, TELL, nonce, identity.node_rank), identity.node_rank)


def read_answer(token: str, datagram: bytes) -> Reply | None:
    """The echo's answer; None if it is somebody else's noise."""
    if len(datagram) != ANSWER.size:
        return None
    kind, nonce, seal, node_rank = ANSWER.unpack(datagram)
    if kind != TELL or not hmac.compare_digest(seal, _seal(token, TELL, nonce, node_rank)):
        return None
    return Reply(nonce, node_rank)


def open_echo(address: str) -> socket.socket:
    """A UDP socket on a free port of this address. Raises OSError, Refusal."""
    family, target = endpoint(address, 0)
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # All peers may send their largest within one moment; the kernel gives what it allows.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ECHO_BUFFER)
        sock.bind(target)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


class Echo:
    """Answers the questions of peers on the serving loop."""

    def __init__(self, selector: selectors.BaseSelector, sock: socket.socket, identity: Identity) -> None:
        self._selector = selector
        self._sock = sock
        self._identity = identity
        self._buffer = bytearray(LARGEST)
        self.port = int(sock.getsockname()[1])
        selector.register(sock, selectors.EVENT_READ, self._readable)

    def _readable(self) -> None:
        for _ in range(DATAGRAMS):
            try:
                size, caller = self._sock.recvfrom_into(self._buffer)
                reply = answer(self._identity, memoryview(self._buffer)[:size])
                if reply is not None:
                    self._sock.sendto(reply, caller)
            except OSError:
                return  # nothing more is there, or the answer can't leave: the peer asks again

    def close(self) -> None:
        """Safe to call twice."""
        if self._sock.fileno() >= 0:
            self._selector.unregister(self._sock)
            self._sock.close()
