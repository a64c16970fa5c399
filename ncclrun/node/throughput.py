"""TCP throughput between two nodes: one sends for some seconds, the other counts what arrives."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from typing import Any, NamedTuple

from . import hello
from .addresses import as_seen_from, endpoint
from .dial import WORDS, bind, outcome_of
from .hello import Identity
from .refusal import Refusal

MOST_SECONDS = 30.0
MOST_STREAMS = 32
MOST_RECEIVERS = 64
SILENCE_SECONDS = 10.0
"""A receiver gives up on a sender that sends nothing for so long, and a sender on a receiver."""
UNFINISHED = "the connection was ended without an answer: what was sent did not arrive, as when large packets vanish"
SENT_AT_ONCE = bytes(1 << 20)
BUFFER = 1 << 20
# A child has the default signals: without this a connection that is reset would kill it by SIGPIPE.
NO_SIGNAL = socket.MSG_NOSIGNAL


class Order(NamedTuple):
    """What to send where: ``source`` null leaves our address to the routing."""

    peer: int
    address: str
    port: int
    source: str | None
    seconds: float
    streams: int


def receive(sock: socket.socket, challenge: str, first: int, identity: Identity) -> dict[str, Any]:
    """Counts until the sender has shut down, then tells it: one line, the proof, bytes and seconds.

    ``first`` bytes had come along with the hello. The clock runs from the first byte to the end. Raises OSError.
    """
    sock.settimeout(SILENCE_SECONDS)
    buffer = bytearray(BUFFER)
    size = first or sock.recv_into(buffer)
    begin = time.monotonic()
    while True:
        count = sock.recv_into(buffer)
        if not count:
            break
        size += count
    seconds = time.monotonic() - begin
    sock.sendall(f"{hello.answer(identity, challenge)} {size} {seconds:.6f}\n".encode("ascii"), NO_SIGNAL)
    return {"size": size, "seconds": seconds}


class _Stream:
    """One connection of ours to the receiver."""

    def __init__(self, token: str, order: Order, where: str) -> None:
        address = as_seen_from(order.source, order.address)
        if address is None:
            raise Refusal("unreachable", f"{where}: the two can't meet")
        family, target = endpoint(address, order.port)
        self.challenge = hello.new_challenge()
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(SILENCE_SECONDS)
        try:
            if order.source is not None and not bind(self.sock, endpoint(order.source, 0)[1]):
                raise Refusal("bad_source", f"{where}: {WORDS['bad_source']}")
            self.sock.connect(target)
            self.sock.sendall(hello.sink(token, self.challenge), NO_SIGNAL)
        except (OSError, Refusal):
            self.sock.close()
            raise

    def send(self) -> None:
        """As much as goes at once. Raises OSError."""
        with contextlib.suppress(BlockingIOError):  # the kernel had promised too much
            self.sock.send(SENT_AT_ONCE, NO_SIGNAL)

    def result(self, token: str, order: Order, where: str) -> tuple[int, float]:
        """Ends sending; bytes and seconds as the receiver counted them. Raises OSError, Refusal."""
        with self.sock.makefile("rb") as answers:
            line = answers.readline(hello.LONGEST)
        if not line:
            raise Refusal("unfinished", f"{where}: {UNFINISHED}")
        words = line.split()
        by = hello.who(token, self.challenge, b" ".join(words[:2]))
        if by is None or len(words) != 4:
            raise Refusal("wrong_machine", f"{where}: {WORDS['stranger']}")
        if by != order.peer:
            raise Refusal("wrong_machine", f"{where}: node {by} answered, not node {order.peer}")
        return int(words[2]), float(words[3])


def _pour(streams: list[_Stream], seconds: float) -> None:
    """Sends on all streams until the time is up. Raises OSError."""
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            stream.sock.setblocking(False)
            selector.register(stream.sock, selectors.EVENT_WRITE, stream)
        end = time.monotonic() + seconds
        left = seconds
        while left > 0:
            for key, _ in selector.select(left):
                key.data.send()
            left = end - time.monotonic()
    for stream in streams:
        stream.sock.settimeout(SILENCE_SECONDS)
        stream.sock.shutdown(socket.SHUT_WR)


def send(token: str, order: Order) -> dict[str, Any]:
    """Sends over all streams at once; ``size`` is what arrived, ``seconds`` the longest stream's time.

    Refuses with the words of `probe`, with `wrong_machine` when somebody else is there, or with `unfinished` when the
    other end hung up.
    """
    where = f"{order.address} port {order.port}" + (f" from {order.source}" if order.source else "")
    try:
        with contextlib.ExitStack() as stack:
            streams = []
            for _ in range(order.streams):
                streams.append(_Stream(token, order, where))
                stack.enter_context(streams[-1].sock)
            _pour(streams, order.seconds)
            counted = [stream.result(token, order, where) for stream in streams]
    except OSError as error:
        outcome = "timeout" if isinstance(error, socket.timeout) else outcome_of(error.errno or 0)
        raise Refusal(outcome, f"{where}: {WORDS.get(outcome, error.strerror or str(error))}") from error
    return {
        "size": sum(size for size, _ in counted),
        "seconds": max(seconds for _, seconds in counted),
        "streams": order.streams,
    }
