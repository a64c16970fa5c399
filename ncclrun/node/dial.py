"""Many TCP calls at once on one epoll, each with its own source and deadline, and how each of them ended."""

from __future__ import annotations

import collections
import errno
import heapq
import os
import resource
import select
import socket
import struct
import time
from typing import Any, Callable, Iterable

from . import hello
from .addresses import SocketAddress, endpoint
from .refusal import Refusal

MOST_AT_ONCE = 512
# Begun in one turn of the loop, so that those under way are not kept waiting: their time is measured.
BEGUN_AT_ONCE = 16
SPARE_DESCRIPTORS = 32
# Lets the kernel choose the port at connect: one that is free for this peer, not one that is free for all.
IP_BIND_ADDRESS_NO_PORT = 24
RESET = struct.pack("ii", 1, 0)

OUTCOMES = {
    errno.ECONNREFUSED: "refused",
    errno.ETIMEDOUT: "timeout",
    errno.EHOSTUNREACH: "no_route",
    errno.EHOSTDOWN: "no_route",
    errno.ENETUNREACH: "no_network",
    errno.ENETDOWN: "no_network",
    errno.EAFNOSUPPORT: "no_network",
    errno.EPERM: "forbidden",
    errno.EACCES: "forbidden",
    errno.ECONNRESET: "reset",
    errno.ECONNABORTED: "reset",
    errno.EPIPE: "reset",
}
WORDS = {
    "refused": "the connection was refused: nothing listens there, or a firewall rejects it",
    "timeout": "no answer came: a firewall drops the packets, or the address lies elsewhere",
    "no_route": "there is no route to that host, or a firewall rejects it",
    "no_network": "there is no route to that network",
    "forbidden": "a firewall or a route of this host forbids the connection",
    "reset": "the connection was reset",
    "bad_source": "the source is no address of this machine",
    "stranger": "something answers there, but it is no node of this run",
}
NO_SOURCE = (errno.EADDRNOTAVAIL, errno.EINVAL, errno.ENODEV)


def outcome_of(code: int, *, answered: bool = False) -> str:
    """The word for an error of connect, or of the connection; ``answered``: a packet of somebody's brought it."""
    # IPv6's REJECT with admin-prohibited arrives as EACCES, which a call that fails at once has from this host.
    return "no_route" if answered and code == errno.EACCES else OUTCOMES.get(code, "error")


def bind(sock: socket.socket, source: SocketAddress) -> bool:
    """Binds a socket that is to call to its source; False if that is no address of ours. Raises OSError."""
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    try:
        sock.bind(source)
    except OSError as error:
        if error.errno not in NO_SOURCE:
            raise
        return False
    return True


class Call:
    """One attempt. ``greet`` false: it is enough that the connection is taken (outcome ``open``).

    ``outcome`` is a word of model/network.py but for ``answered``: a node of the run did, number ``by``.
    """

    __slots__ = (
        "address",
        "begin",
        "by",
        "challenge",
        "detail",
        "greet",
        "limit",
        "local",
        "outcome",
        "port",
        "received",
        "seconds",
        "sock",
        "source",
        "tag",
    )

    def __init__(
        self, address: str, port: int, source: str | None, limit: float, *, greet: bool = True, tag: Any = None
    ) -> None:
        self.address, self.port, self.source, self.limit = address, port, source, limit
        self.greet, self.tag = greet, tag
        self.outcome = self.local = self.detail = ""
        self.by: int | None = None
        self.seconds: float | None = None
        self.begin = 0.0
        self.challenge = ""
        self.received = b""
        self.sock: socket.socket | None = None

    def fail(self, code: int, *, answered: bool = False) -> None:
        """Sets the outcome by an errno."""
        self.outcome = outcome_of(code, answered=answered)
        self.detail = os.strerror(code) if self.outcome == "error" else ""


Done = Callable[[Call], Iterable[Call]]
"""Takes a call that has ended, or that is late; gives further ones to make."""


def most_at_once() -> int:
    """How many calls may be under way; raises the soft limit of this process's descriptors for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_AT_ONCE + SPARE_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST_AT_ONCE if soft == resource.RLIM_INFINITY else max(1, min(MOST_AT_ONCE, soft - SPARE_DESCRIPTORS))


class Dialler:
    """Makes calls until none is left. For a process that does nothing else (in which SIGPIPE may well be deadly)."""

    def __init__(self, token: str, done: Done, late: Done = lambda _call: (), late_seconds: float = 0.0) -> None:
        """``late`` is told of each call that was not taken ``late_seconds`` before its limit."""
        self._token = token
        self._done = done
        self._late = late
        self._late_seconds = late_seconds
        self._most = most_at_once()
        self._waiting: collections.deque[Call] = collections.deque()
        self._open: dict[int, Call] = {}
        self._deadlines: list[tuple[float, int, Call]] = []
        self._begun = 0
        self._epoll = select.epoll()

    def run(self, calls: Iterable[Call]) -> None:
        """Makes these calls, in order, and those that ``done`` adds."""
        with self._epoll:
            self._waiting.extend(calls)
            while self._waiting or self._open:
                for _ in range(min(BEGUN_AT_ONCE, len(self._waiting), self._most - len(self._open))):
                    self._begin(self._waiting.popleft())
                for fd, events in self._epoll.poll(self._pause()):
                    self._happened(fd, self._open[fd], events)
                self._expire()

    def _pause(self) -> float:
        if not self._open or (self._waiting and len(self._open) < self._most):
            return 0.0
        return max(0.0, self._deadlines[0][0] - time.monotonic())

    def _expire(self) -> None:
        now = time.monotonic()
        while self._deadlines and self._deadlines[0][0] <= now:
            moment, _, call = heapq.heappop(self._deadlines)
            if call.sock is None:
                continue
            if moment < call.begin + call.limit:
                if not call.local:
                    self._waiting.extend(self._late(call))
            else:
                call.outcome = "stranger" if call.received else "timeout"
                self._end(call)

    def _begin(self, call: Call) -> None:
        try:
            source = None if call.source is None else endpoint(call.source, 0)[1]
            family, target = endpoint(call.address, call.port)
            call.sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            if source is not None and not bind(call.sock, source):
                call.outcome = "bad_source"
                return self._end(call)
        except Refusal:  # the zone of the source, which is the target's too, has gone
            call.outcome = "bad_source"
            return self._end(call)
        except OSError as error:
            call.fail(error.errno or 0)
            return self._end(call)
        call.begin = time.monotonic()
        code = call.sock.connect_ex(target)
        if code not in (0, errno.EINPROGRESS):
            call.fail(code)
            return self._end(call)
        fd = call.sock.fileno()
        self._open[fd] = call
        self._begun += 1
        heapq.heappush(self._deadlines, (call.begin + call.limit, self._begun, call))
        if 0 < self._late_seconds < call.limit:
            self._begun += 1
            heapq.heappush(self._deadlines, (call.begin + call.limit - self._late_seconds, self._begun, call))
        # By edges: one registration does for the connection and for the answer.
        self._epoll.register(fd, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        return None

    def _happened(self, fd: int, call: Call, events: int) -> None:
        assert call.sock is not None
        try:
            over = not call.local and not self._connected(call, call.sock)
            if not over and events & ~select.EPOLLOUT:
                over = self._heard(call, call.sock)
        except OSError as error:
            call.fail(error.errno or 0, answered=True)
            over = True
        if over:
            self._end(call)

    def _connected(self, call: Call, sock: socket.socket) -> bool:
        """Takes the result of connect and says hello; False when the call is over. Raises OSError."""
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            call.fail(code, answered=True)
            return False
        local = sock.getsockname()
        if local == sock.getpeername():
            # The kernel gave us the very port that we call, and TCP joined the socket to itself: nobody was there.
            call.fail(errno.ECONNREFUSED)
            return False
        call.local = local[0]
        if not call.greet:
            call.outcome = "open"
            return False
        call.challenge = hello.new_challenge()
        sock.send(hello.probe(call.challenge), socket.MSG_NOSIGNAL)
        return True

    def _heard(self, call: Call, sock: socket.socket) -> bool:
        """Reads what is there of the answer; True when the call is over. Raises OSError."""
        try:
            data = sock.recv(hello.LONGEST)
        except BlockingIOError:
            return False
        call.received += data
        if b"\n" in call.received or len(call.received) >= hello.LONGEST:
            call.by = hello.who(self._token, call.challenge, call.received)
            call.outcome = "stranger" if call.by is None else "answered"
            call.seconds = None if call.by is None else time.monotonic() - call.begin
            return True
        if not data:
            call.outcome = "stranger" if call.received else "reset"
        return not data

    def _end(self, call: Call) -> None:
        if call.sock is not None:
            self._open.pop(call.sock.fileno(), None)
            if call.local:
                # No TIME_WAIT on either side.
                call.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            call.sock.close()
            call.sock = None
        self._waiting.extend(self._done(call))
