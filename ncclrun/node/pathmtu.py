"""The largest packet that fits through to each peer, by UDP with don't-fragment (no root, no ping); ports that pass."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from typing import Any, Iterable, NamedTuple, Sequence

from . import echo
from .addresses import as_seen_from, endpoint
from .dial import Call, Dialler

# <linux/in.h>, <linux/in6.h>: the socket module lacks them. PROBE sets don't-fragment and does not trust what the
# kernel remembers of the path.
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3
IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE, IPV6_DONTFRAG = 23, 3, 62
UDP_HEADER = 8
IP_HEADERS = {socket.AF_INET: 20, socket.AF_INET6: 40}
# fmt: off
USUAL = (
    576, 1280, 1300, 1350, 1380, 1400, 1420, 1450, 1460, 1476, 1480, 1492, 1500, 2044, 2304, 4092, 4352, 8000, 8192,
    8900, 8942, 8950, 8981, 9000, 9100, 9180, 9216, 9600, 16384, 32768, 65520,
)
# fmt: on
"""MTUs that are met: tunnels, clouds, IPoIB, jumbo frames."""
SMALLEST = 128
"""Of an interface whose paths can be measured: the echo's questions have to fit."""
TRIES = 3
PAUSE = 0.2
QUICK_PAUSE = 0.04
ROUND_TRIPS = 4
"""A try is over after so many round trips, as soon as there was one; never before QUICK_PAUSE nor after PAUSE."""
SPLIT = 16
BETWEEN_PEERS = 0.001
"""Peers are begun one after the other, so that a node's buffer is not filled by the first packets of all others."""


class Target(NamedTuple):
    """A peer's address, the port of its echo there, and TCP ports on which it listens."""

    peer: int
    address: str
    udp: int
    ports: tuple[int, ...]


class Way:
    """The search for one path's MTU: rounds of sizes, each tried some times, until the answer is exact."""

    def __init__(self, token: str, target: Target, sock: socket.socket, mtu: int, begin: float, limit: float) -> None:
        self.target = target
        self.sock = sock
        self.told = False
        self.low = 0
        self.over = False
        self._token = token
        self._high = mtu + 1
        self._sizes = [mtu]
        self._rounds = self._tries = 0
        self._pause = PAUSE
        self._sent: dict[bytes, tuple[int, float]] = {}
        self._headers = IP_HEADERS[socket.AddressFamily(sock.family)] + UDP_HEADER
        self.due = begin
        self._deadline = begin + limit

    def step(self, now: float) -> None:
        """Sends what is due; ``over`` is set when all is known, or time is up."""
        if self._tries == TRIES or self.low >= self._sizes[-1]:
            self._next_round()
        self.over = self.over or now >= self._deadline
        if self.over:
            return
        for size in self._sizes:
            if size > self.low:
                self._send(size)
        self._tries += 1
        self.due = min(time.monotonic() + self._pause, self._deadline)

    def _next_round(self) -> None:
        self._high = min([size for size in self._sizes if size > self.low], default=self._high)
        self._tries = 0
        self._rounds += 1
        if self._high - self.low <= 1:
            self.over = True
        elif self._rounds == 1:
            # With each usual size the one above it: when that fails, the answer is exact without a further round.
            near = {size + more for size in USUAL for more in (0, 1)}
            self._sizes = sorted(size for size in near if size < self._high)
            self.over = not self._sizes
        elif not self.low:
            self.over = True  # UDP does not pass at all
        else:
            step = max(1, (self._high - self.low) // SPLIT)
            self._sizes = list(range(self.low + step, self._high, step))

    def _send(self, size: int) -> None:
        nonce = os.urandom(16)
        # What an earlier packet met is told first; else it would be taken for this one's own failure.
        self._note(self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        try:
            self.sock.send(echo.question(self._token, nonce, size - self._headers))
        except OSError:
            return  # larger than our own interface, or forbidden here: it did not come through
        self._sent[nonce] = (size, time.monotonic())

    def _note(self, code: int) -> None:
        # "Fragmentation needed", "packet too big": on a connected socket the kernel says so by this error.
        self.told = self.told or code == errno.EMSGSIZE

    def receive(self) -> None:
        """Takes the answers that are there."""
        while True:
            try:
                data = self.sock.recv(echo.ANSWER.size + 1)
            except BlockingIOError:
                return
            except OSError as error:
                self._note(error.errno or 0)
                continue
            reply = echo.read_answer(self._token, data)
            if reply is not None and reply.node_rank == self.target.peer and reply.nonce in self._sent:
                self._came_through(*self._sent.pop(reply.nonce))

    def _came_through(self, size: int, sent: float) -> None:
        now = time.monotonic()
        self.low = max(self.low, size)
        self._pause = min(PAUSE, max(QUICK_PAUSE, ROUND_TRIPS * (now - sent)))
        self.due = now if self.low >= self._sizes[-1] else min(self.due, now + self._pause)


def _open(source: str, target: Target) -> socket.socket | None:
    """A socket to the peer's echo; None if there is no way to it at all."""
    address = as_seen_from(source, target.address)
    if address is None:
        return None
    family, there = endpoint(address, target.udp)
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE)
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_DONTFRAG, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
        sock.setblocking(False)
        sock.bind(endpoint(source, 0)[1])
        sock.connect(there)
    except OSError:
        sock.close()
        return None
    return sock


def _measure(token: str, source: str, mtu: int, targets: Sequence[Target], limit: float) -> dict[int, tuple[int, bool]]:
    """Path MTU (0: UDP does not pass) and whether a router told it, by place in ``targets``."""
    ways: dict[int, Way] = {}
    begin = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for place, target in enumerate(targets):
            sock = _open(source, target)
            if sock is not None:
                way = Way(token, target, sock, min(mtu, echo.LARGEST), begin + place * BETWEEN_PEERS, limit)
                ways[place] = way
                selector.register(sock, selectors.EVENT_READ, way.receive)
        going = list(ways.values())
        while going:
            pause = min(way.due for way in going) - time.monotonic()
            for key, _ in selector.select(max(0.0, pause)):
                key.data()
            now = time.monotonic()
            for way in going:
                if way.due <= now:
                    way.step(now)
            for way in [way for way in going if way.over]:
                selector.unregister(way.sock)
                way.sock.close()
            going = [way for way in going if not way.over]
    return {place: (way.low, way.told) for place, way in ways.items()}


def _try_ports(token: str, source: str, targets: Sequence[Target], limit: float) -> list[Call]:
    """Says hello on each port of each peer; the calls' tags are the places in ``targets``."""
    ended: list[Call] = []

    def done(call: Call) -> Iterable[Call]:
        ended.append(call)
        return ()

    seen = [(place, target, as_seen_from(source, target.address)) for place, target in enumerate(targets)]
    Dialler(token, done).run(
        Call(address, port, source, limit, tag=place)
        for place, target, address in seen
        if address is not None
        for port in target.ports
    )
    return ended


def paths(token: str, node_rank: int, source: str, mtu: int, targets: Iterable[Target], limit: float) -> dict[str, Any]:
    """Looks for the MTU of each path, from the size of our own interface down, and tries the ports.

    ``paths`` holds the fields of model/network.py: Path. An MTU above 65535 bytes (loopback's) counts as that.
    ``limit``: seconds for a path's MTU, and again for its ports. For a process of its own, as `probe`.
    """
    ordered = sorted(targets, key=lambda target: (target.peer <= node_rank, target.peer))
    measured = _measure(token, source, mtu, ordered, limit)
    passed: dict[int, set[int]] = {}
    for call in _try_ports(token, source, ordered, limit):
        if call.outcome == "answered" and call.by == ordered[call.tag].peer:
            passed.setdefault(call.tag, set()).add(call.port)
    found = []
    for place, target in enumerate(ordered):
        size, told = measured.get(place, (0, False))
        through = passed.get(place, set())
        found.append(
            {
                "peer": target.peer,
                "address": target.address,
                "mtu": size,
                "told": told,
                "passed": [port for port in target.ports if port in through],
                "blocked": [port for port in target.ports if port not in through],
            }
        )
    return {"paths": found}
