"""Which addresses of its peers a node reaches, from each of its own, and who answers there."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, NamedTuple

from .addresses import as_seen_from
from .dial import Call, Dialler

TRY_OTHERS = ("refused", "timeout", "no_route", "no_network", "forbidden", "reset")
"""Outcomes after which other ports of the address tell a closed port from a dead address."""
OTHER_SECONDS = 1.0


class Target(NamedTuple):
    """An address of a peer, the port of its listener there, and the sources to try it from (None: as routed)."""

    peer: int
    address: str
    port: int
    sources: tuple[str | None, ...]
    other_ports: tuple[int, ...]


class _Attempt:
    """A target tried from one source."""

    def __init__(self, target: Target, source: str | None, address: str) -> None:
        self.target = target
        self.source = source
        self.address = address
        self.open_ports: list[int] = []
        self.others_asked = False

    def call(self, limit: float) -> Call:
        return Call(self.address, self.target.port, self.source, limit, tag=self)

    def others(self) -> Iterator[Call]:
        """The calls to the other ports, once."""
        if self.others_asked:
            return
        self.others_asked = True
        for port in self.target.other_ports:
            yield Call(self.address, port, self.source, OTHER_SECONDS, greet=False, tag=self)

    def link(self, call: Call) -> dict[str, Any]:
        outcome = call.outcome
        if outcome == "answered":
            outcome = "reached" if call.by == self.target.peer else "other"
        return {
            "peer": self.target.peer,
            "address": self.target.address,
            "port": self.target.port,
            "source": self.source,
            "outcome": outcome,
            "by": call.by,
            "seconds": call.seconds,
            "local": call.local,
            "open_ports": sorted(self.open_ports) if outcome in TRY_OTHERS else [],
            "detail": call.detail,
        }


def _attempts(node_rank: int, targets: Iterable[Target]) -> list[_Attempt]:
    """All that can be tried; the peers behind oneself first, so that not all nodes call node 0 at once."""
    attempts = []
    for target in sorted(targets, key=lambda target: (target.peer <= node_rank, target.peer)):
        for source in target.sources:
            address = as_seen_from(source, target.address)
            if address is not None:
                attempts.append(_Attempt(target, source, address))
    return attempts


def probe(token: str, node_rank: int, targets: Iterable[Target], limit: float) -> dict[str, Any]:
    """Tries each target from each of its sources, ``limit`` seconds at most each.

    ``links`` holds the fields of model/network.py: Link, one for each target and source; pairs that can't meet
    (IPv4 and IPv6, a link-local address without a link) are not tried and left out. For a process of its own: it
    raises that one's limit of descriptors.
    """
    attempts = _attempts(node_rank, targets)
    ended: dict[_Attempt, Call] = {}

    def late(call: Call) -> Iterable[Call]:
        # What has not been answered by now will hardly be: the other ports are asked in the time that is left to it.
        return call.tag.others() if call.greet else ()

    def done(call: Call) -> Iterable[Call]:
        attempt: _Attempt = call.tag
        if call.greet:
            ended[attempt] = call
            return attempt.others() if call.outcome in TRY_OTHERS else ()
        if call.outcome == "open":
            attempt.open_ports.append(call.port)
        return ()

    Dialler(token, done, late, OTHER_SECONDS).run(attempt.call(limit) for attempt in attempts)
    return {"links": [attempt.link(ended[attempt]) for attempt in attempts]}
