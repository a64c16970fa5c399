"""A port that we hold: on the serving loop it tells whoever asks which node of the run we are, and trusts nobody."""

from __future__ import annotations

import errno
import selectors
import socket
import struct
import time
from typing import Callable, NamedTuple

from . import hello
from .addresses import endpoint
from .hello import Hello, Identity

BACKLOG = 1024
"""All nodes may call within one moment: a SYN that finds no room comes again only after a second."""
MOST_CALLERS = 256
CALLER_SECONDS = 10.0
# Of one turn of the loop, so that a flood of callers leaves time for beats and logs.
ACCEPTS = 16
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)

Sink = Callable[[socket.socket, Hello, bytes], None]
"""Takes over a caller that wants to send: its socket (closed afterwards here), its hello, and what came behind it."""


def open_port(address: str, port: int) -> socket.socket:
    """A listening socket on exactly this address; port 0 is one of the kernel's choice. Raises OSError, Refusal."""
    family, target = endpoint(address, port)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        # So that the trainer can bind the moment that we close.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(target)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


class Caller(NamedTuple):
    """A connection that was accepted and not let go yet."""

    sock: socket.socket
    listener: Listener
    deadline: float
    received: bytearray


class Callers:
    """The callers of all listeners of a channel: few at a time, each for some seconds."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.selector = selector
        # Oldest first, which is also the order of their deadlines.
        self._callers: dict[socket.socket, Caller] = {}

    def take(self, sock: socket.socket, listener: Listener) -> Caller:
        """A new caller; when there are too many the oldest goes."""
        if len(self._callers) >= MOST_CALLERS:
            self.drop_oldest()
        caller = Caller(sock, listener, time.monotonic() + CALLER_SECONDS, bytearray())
        self._callers[sock] = caller
        self.selector.register(sock, selectors.EVENT_READ, lambda: listener.read(caller))
        return caller

    def drop(self, caller: Caller) -> None:
        """Closes a caller's connection."""
        self.selector.unregister(caller.sock)
        del self._callers[caller.sock]
        caller.sock.close()

    def drop_oldest(self) -> None:
        """Makes room."""
        if self._callers:
            self.drop(next(iter(self._callers.values())))

    def drop_all_of(self, listener: Listener) -> None:
        """Resets the callers of a listener that closes, so that nothing of them holds the port."""
        for caller in [caller for caller in self._callers.values() if caller.listener is listener]:
            caller.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.drop(caller)

    def next_deadline(self) -> float:
        """When `expire` has something to do (monotonic seconds)."""
        return next((caller.deadline for caller in self._callers.values()), float("inf"))

    def expire(self, now: float) -> None:
        """Drops those who have had their time."""
        while self.next_deadline() <= now:
            self.drop_oldest()


class Listener:
    """Answers every caller's challenge on one listening socket until it is closed."""

    def __init__(self, callers: Callers, sock: socket.socket, identity: Identity, sink: Sink | None = None) -> None:
        self._callers = callers
        self._sock = sock
        self._identity = identity
        self._sink = sink
        self.port = int(sock.getsockname()[1])
        # Callers come to us with their hello and are answered at once, so that those who say nothing push nobody out:
        # the kernel keeps them, without a descriptor of ours.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, int(CALLER_SECONDS))
        callers.selector.register(sock, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, _ = self._sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in NO_DESCRIPTOR:
                    self._callers.drop_oldest()
                return  # else the caller gave up
            sock.setblocking(False)
            self.read(self._callers.take(sock, self))

    def read(self, caller: Caller) -> None:
        """What a caller says; it closes first, so that no TIME_WAIT of ours stands in the trainer's way."""
        try:
            data = caller.sock.recv(hello.LONGEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # reset: gone as well
        caller.received.extend(data)
        line, end, rest = bytes(caller.received).partition(b"\n")
        if data and end and self._reply(caller, hello.read(self._identity.token, line), rest):
            caller.received.clear()
        elif not data or end or len(caller.received) > hello.LONGEST:
            self._callers.drop(caller)

    def _reply(self, caller: Caller, greeting: Hello | None, rest: bytes) -> bool:
        """Whether the caller may stay."""
        if greeting is None:
            return False
        if greeting.purpose == "sink":
            if self._sink is not None:
                self._sink(caller.sock, greeting, rest)
            return False
        try:
            caller.sock.send(hello.answer(self._identity, greeting.challenge).encode("ascii") + b"\n")
        except OSError:
            return False  # it has gone meanwhile
        return True

    def let_go(self) -> socket.socket:
        """The port without us: whoever has called and was not answered yet waits on in its queue."""
        self._callers.selector.unregister(self._sock)
        self._callers.drop_all_of(self)
        return self._sock

    def close(self) -> None:
        """Frees the port at once; safe to call twice."""
        if self._sock.fileno() < 0:
            return
        self._callers.selector.unregister(self._sock)
        self._sock.close()
        self._callers.drop_all_of(self)
