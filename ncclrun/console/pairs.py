"""What was seen between each two nodes, gathered from the events of a command: the matrix and the page show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ncclrun.console.words import moment
from ncclrun.model.events import Connected, Event, Failure, Refused, Unreachable
from ncclrun.model.netevents import Judged, Linked, NcclSays, PathFound, Pinged, Probed, Resolved, Transferred
from ncclrun.model.network import Link, Path, Reach
from ncclrun.model.words import listed
from ncclrun.planning.choice.wording import ENDINGS

State = Literal[
    "wrong",
    "no_route",
    "timeout",
    "forbidden",
    "refused",
    "error",
    "detour",
    "ports",
    "mtu",
    "ok",
    "untried",
    "self",
]
"""Of a directed pair; the worst first."""

STATES: tuple[State, ...] = get_args(State)
BROKEN: tuple[State, ...] = STATES[: STATES.index("detour")]
"""No connection on the chosen addresses."""
TROUBLED: tuple[State, ...] = STATES[: STATES.index("ok")]
"""All that somebody should look at."""

LOST = "lost"
"""Code of the problem of a node that had answered, and then did not any more."""

_STATE_OF: dict[Reach, State] = {
    "reached": "ok",
    "other": "wrong",
    "stranger": "wrong",
    "refused": "refused",
    "timeout": "timeout",
    "no_route": "no_route",
    "no_network": "no_route",
    "forbidden": "forbidden",
    "reset": "error",
    "bad_source": "error",
    "error": "error",
}
_NEAREST: tuple[Reach, ...] = (
    *("reached", "refused", "reset", "forbidden", "timeout", "no_route", "no_network", "error", "bad_source"),
    *("stranger", "other"),
)
"""Outcomes by how near they came. That another node answers is far off: all hosts have a docker0 of one address."""


@dataclass(frozen=True)
class Pair:
    """One node's way to another; ``words`` says what is wrong with it, or how fast it is."""

    node_rank: int
    peer: int
    state: State
    words: str
    link: Link | None = None
    """The attempt that decided."""
    path: Path | None = None
    gbits: float | None = None
    addresses: tuple[str, ...] = ()
    """Where the attempts that came to this went: several where none of the peer's addresses was chosen."""

    @property
    def seconds(self) -> float | None:
        """Of the connection, if there was one."""
        return self.link.seconds if self.link is not None and self.link.ok else None


class Seen:
    """Everything of the network that a command told; ``pairs`` puts it together."""

    def __init__(self, events: Sequence[Event] = ()) -> None:
        self.names: dict[int, str] = {}
        """By node_rank."""
        self.probed: list[Probed] = []
        """More than one where something was tried once more."""
        self.failed = False
        """No network joins all nodes."""
        self.lost: set[int] = set()
        """node_ranks of those that answered, and then did not any more: what others saw of them says nothing."""
        self._candidates: dict[tuple[int, str, str], Judged] = {}
        self.resolved: dict[int, Resolved] = {}
        self.nccl: dict[int, NcclSays] = {}
        self._paths: dict[tuple[int, int], Path] = {}
        self.transfers: dict[tuple[str, str], Transferred] = {}
        """The last measurement of each directed pair, by names."""
        self._links: dict[tuple[int, int], dict[tuple[str | None, str], Link]] = {}
        """Of each directed pair, by source and address: what is tried once more counts as it went then."""
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Takes an event; most say nothing of the network."""
        if isinstance(event, (Connected, Unreachable, Pinged, Linked, Judged, Resolved, NcclSays)):
            self.names[event.node_rank] = event.node
        if isinstance(event, Probed):
            self.probed.append(event)
        elif isinstance(event, Linked):
            for link in event.links:
                found = self._links.setdefault((link.node_rank, link.peer), {})
                before = found.get((link.source, link.address), link)
                ports = () if link.ok else link.open_ports or before.open_ports  # the second time nobody asks for them
                found[link.source, link.address] = replace(link, open_ports=ports)
        elif isinstance(event, Judged):
            self._candidates[event.node_rank, event.interface, event.address] = event  # the last verdict counts
        elif isinstance(event, Failure):
            self.failed = True
        elif isinstance(event, Resolved):
            self.resolved[event.node_rank] = event
        elif isinstance(event, NcclSays):
            self.nccl[event.node_rank] = event
        elif isinstance(event, PathFound):
            self._paths[event.path.node_rank, event.path.peer] = event.path
        elif (isinstance(event, Refused) and event.code == LOST) or (
            isinstance(event, Pinged) and any(problem.code == LOST for problem in event.problems)
        ):
            self.lost.add(event.node_rank)
        elif isinstance(event, Transferred):
            self.transfers[event.node, event.peer] = event

    @property
    def candidates(self) -> list[Judged]:
        """All addresses with what became of them."""
        return list(self._candidates.values())

    @property
    def paths(self) -> dict[tuple[int, int], Path]:
        """By node_ranks, of the nodes that are still there."""
        return {pair: path for pair, path in self._paths.items() if not self.lost.intersection(pair)}

    @property
    def ranks(self) -> list[int]:
        """node_ranks of all nodes heard of."""
        return sorted(self.names)

    @property
    def linked(self) -> bool:
        """Whether there is anything to say of pairs."""
        return bool(self._links or self.transfers)

    def name(self, node_rank: int | None) -> str:
        """The node's name, or how it is called for want of one."""
        return self.names.get(node_rank, f"node {node_rank}") if node_rank is not None else "another node"

    def pairs(self) -> dict[tuple[int, int], Pair]:
        """All directed pairs, also of a node with itself and those that were not tried."""
        addresses = {c.node_rank: c.address for c in self.candidates if c.verdict == "chosen"}
        addresses |= {rank: event.address for rank, event in self.resolved.items()}
        interfaces = {(c.node_rank, c.address): c.interface for c in self.candidates}
        widest: dict[int, int] = {}
        paths = self.paths
        for (rank, _), one in paths.items():
            widest[rank] = max(widest.get(rank, 0), one.mtu)
        found = {}
        for rank in self.ranks:
            for peer in self.ranks:
                links = list(self._links.get((rank, peer), {}).values())
                chosen = addresses.get(peer)
                state, words, link = self._judge(links, addresses.get(rank), chosen, interfaces)
                path = paths.get((rank, peer))
                if state == "ok" and path is not None:
                    state, words = _fits(path, path.tried or widest[rank], words)
                transfer = self.transfers.get((self.names[rank], self.names[peer]))
                if transfer is not None and transfer.error and state not in BROKEN:
                    state, words = "error", f"no throughput: {transfer.error}"
                gbits = None if transfer is None else transfer.gbits
                if rank == peer:
                    state, words = "self", ""
                elif gone := self.lost & {rank, peer}:
                    words = f"lost meanwhile: {listed([self.name(one) for one in sorted(gone)])}"
                    found[rank, peer] = Pair(rank, peer, "untried", words)
                    continue
                where = _where(links, link, chosen)
                found[rank, peer] = Pair(rank, peer, state, words, link, path, gbits, where)
        return found

    def _judge(
        self,
        links: Sequence[Link],
        source: str | None,
        address: str | None,
        interfaces: dict[tuple[int, str], str],
    ) -> tuple[State, str, Link | None]:
        """By the attempts on the chosen addresses, from the chosen source and as the kernel routes; else by the best.

        Of a node that has no choice the kernel's routing alone counts: from its other cards much can't be reached. A
        connection that leaves by another interface than the chosen one is a detour: NCCL's filter will not hold it.
        """
        if not links:
            return "untried", "not tried", None
        there = [link for link in links if link.address == address]
        direct = [link for link in there if link.source in (None, source)]
        if not direct:
            best = _nearest(there or links)
            return _STATE_OF[best.outcome], self._said(best), best
        failed = [link for link in direct if not link.ok]
        if not failed:
            for link in direct:
                way = interfaces.get((link.node_rank, link.local))
                wanted = interfaces.get((link.node_rank, source or ""))
                if way and wanted and way != wanted and link.local != link.address:
                    return "detour", f"leaves by {way} ({link.local}), not by {wanted}", link
            best = next((link for link in direct if link.source is None), direct[0])
            return "ok", self._said(best), best
        worst = _nearest(failed)
        others = [link for link in there if link.ok]
        if others:
            good = others[0]
            return "detour", f"{self._said(worst)}, but reached from {good.source or 'where the kernel sends it'}", good
        elsewhere = sorted({link.address for link in links if link.ok})
        also = f" (reached at {listed(elsewhere, 2)})" if elsewhere else ""
        return _STATE_OF[worst.outcome], self._said(worst) + also, worst

    def _said(self, link: Link) -> str:
        """How an attempt ended: ``connected in 0.31 ms``, ``no answer, though port 22 answers``."""
        if link.outcome == "reached":
            return f"connected in {moment(link.seconds)}" if link.seconds is not None else "connected"
        if link.outcome == "other":
            return "reached itself" if link.by == link.node_rank else f"reached {self.name(link.by)} instead"
        said = ENDINGS.get(link.outcome) or link.detail or "failed"
        if link.open_ports:
            return f"{said}, though port {link.open_ports[0]} answers"
        return said


def _fits(path: Path, wanted: int, words: str) -> tuple[State, str]:
    """What gets through where the connection itself is fine."""
    if path.nothing:
        return "timeout", "no answer any more, though it connected a moment before"
    if path.blocked:
        return "ports", f"TCP ports {listed([str(port) for port in path.blocked])} do not answer"
    if 0 < path.mtu < wanted and not path.told:
        return "mtu", f"packets over {path.mtu} bytes vanish ({wanted} were sent)"
    return "ok", words


def _nearest(links: Sequence[Link]) -> Link:
    return min(links, key=lambda link: (_NEAREST.index(link.outcome), link.seconds or 0.0, link.source is not None))


def _where(links: Sequence[Link], decisive: Link | None, chosen: str | None) -> tuple[str, ...]:
    if decisive is None:
        return ()
    if decisive.ok or decisive.address == chosen:
        return (decisive.address,)
    return tuple(dict.fromkeys(link.address for link in links if link.outcome == decisive.outcome))


def worst_first(pairs: Sequence[Pair]) -> list[Pair]:
    """The troubled ones first, the worst kind on top; then the slow ones."""
    return sorted(
        pairs,
        key=lambda pair: (
            STATES.index(pair.state),
            pair.gbits if pair.gbits is not None else float("inf"),
            -(pair.seconds or 0.0),
            pair.node_rank,
            pair.peer,
        ),
    )


def troubled(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Those that somebody should look at, the worst first."""
    return (pair for pair in worst_first(pairs) if pair.state in TROUBLED)
