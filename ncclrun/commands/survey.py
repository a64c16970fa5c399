"""The network as the nodes prove it: every node listens, and every node tries the others' addresses."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import TypeAdapter

from ncclrun.commands.answers import read_answer
from ncclrun.commands.control import Control
from ncclrun.model.cluster import Node
from ncclrun.model.errors import NcclrunError, PlanError
from ncclrun.model.events import Event
from ncclrun.model.facts import Address, NodeFacts
from ncclrun.model.netevents import Linked, Probed, Probing
from ncclrun.model.network import Evidence, Link
from ncclrun.model.plan import Endpoint
from ncclrun.planning.attempts import Target, targets
from ncclrun.planning.choice.candidates import one_machine
from ncclrun.planning.network import Choice, choose, probe_addresses
from ncclrun.planning.partners import partners, scheme
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session

ATTEMPT_SECONDS = 2.5
"""Until an address counts as dead: SYNs go out at 0 and 1 s."""
PATIENT_SECONDS = 4.0
"""The same for a second look, before nothing is said to work: SYNs go out at 0, 1 and 3 s."""
ASK_TIMEOUT = 60.0
"""Seconds for the answer to one request; what it may take is bounded by the node itself."""
EXTRA_PORTS = 3
"""Random high ports that are tried on the chosen address, beside the one that everything is proven by."""
WORKERS = 64

_T = TypeVar("_T")
_LINKS = TypeAdapter(tuple[Link, ...])


@dataclass(frozen=True)
class Participant:
    """A node that is connected and has told its facts."""

    node: Node
    node_rank: int
    session: Session
    facts: NodeFacts


@dataclass
class Listeners:
    """What one node holds open for its peers, by address."""

    ports: dict[str, int] = field(default_factory=dict)
    extra: dict[str, tuple[int, ...]] = field(default_factory=dict)
    udp: dict[str, int] = field(default_factory=dict)
    ssh_port: int | None = None


class Survey:
    """Proof of the network among these nodes. In here they are numbered by their place among them, as planning does;
    what goes to the nodes and into events has the cluster's node_rank.

    ``failed`` holds, by place, the nodes that were lost or refused on the way; ask after each step.
    """

    def __init__(self, participants: Sequence[Participant], control: Control) -> None:
        self.participants = tuple(participants)
        self.failed: dict[int, NcclrunError] = {}
        self.token = secrets.token_hex(16)
        self.listeners: list[Listeners] = [Listeners() for _ in participants]
        self.evidence: Evidence | None = None
        """Once everything was tried."""
        self.control = control
        self.partners: tuple[frozenset[int], ...] = partners(len(self.participants))
        """For each node the places of those that it tries."""
        self.ranks = [one.node_rank for one in self.participants]
        self.places = {rank: at for at, rank in enumerate(self.ranks)}

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, in order."""
        return tuple(one.node for one in self.participants)

    @property
    def facts(self) -> tuple[NodeFacts, ...]:
        """Their facts, in order."""
        return tuple(one.facts for one in self.participants)

    @property
    def one_machine(self) -> bool:
        """Whether there is nothing to prove: one node, or several that are one machine."""
        return one_machine(self.facts)

    def choose(self, *, everything: bool = False) -> Generator[Event, None, Choice]:
        """The network: what the facts speak for, if it is proven; else whatever is, once all was tried.

        With ``everything`` all is tried at once, so that each candidate is judged by proof. Raises PlanError with the
        evidence when no network is proven for all nodes. Where nodes were lost meanwhile (``failed``), the answer is
        what the facts speak for.
        """
        guess = choose(self.nodes, self.facts, None)  # what this refuses no proof can mend
        if self.one_machine:
            return guess
        if not everything:
            evidence = yield from self.prove(probe_addresses(self.nodes, self.facts, guess.endpoints))
            if self.failed:
                return guess
            try:
                return choose(self.nodes, self.facts, evidence)
            except PlanError:
                pass  # more than the guess is tried below, and what comes of that is told
        addresses = probe_addresses(self.nodes, self.facts)
        self.evidence = yield from self.prove(addresses)
        if self.failed:
            return guess
        try:
            return choose(self.nodes, self.facts, self.evidence)
        except PlanError:
            if not any(link.outcome == "timeout" for link in self.evidence.links):
                raise
        self.evidence = yield from self._again(self.evidence)
        return guess if self.failed else choose(self.nodes, self.facts, self.evidence)

    def part(self, places: Sequence[int]) -> Survey:
        """The survey of some of the nodes, with what was proven among them; it is not to be closed."""
        part = Survey([self.participants[at] for at in places], self.control)
        part.token = self.token
        part.listeners = [self.listeners[at] for at in places]
        part.evidence = None if self.evidence is None else self.evidence.only(places)
        return part

    def prove(self, addresses: Sequence[Sequence[str]]) -> Generator[Event, None, Evidence]:
        """Every node tries its partners' addresses from each of its own; ``addresses`` by place."""
        began = time.monotonic()
        self._listen(addresses)
        probed = [self._probed(at) for at in range(len(self.participants))]
        wanted = [targets(at, probed, self.partners[at]) for at in range(len(probed))]
        links = yield from self._try(wanted, ATTEMPT_SECONDS, scheme(len(probed)), other_ports=True)
        return Evidence(nodes=len(probed), links=links, seconds=time.monotonic() - began, partners=self.partners)

    def _again(self, evidence: Evidence) -> Generator[Event, None, Evidence]:
        """What gave no answer is tried once more, for longer, before it is held against anybody: a busy node or a lost
        packet is no dead network."""
        began = time.monotonic()
        silent: dict[tuple[int, int, str], list[str | None]] = {}
        for link in evidence.links:
            if link.outcome == "timeout":
                silent.setdefault((link.node_rank, link.peer, link.address), []).append(link.source)
        wanted = [
            tuple(Target(peer, address, tuple(s)) for (node, peer, address), s in silent.items() if node == at)
            for at in range(len(self.participants))
        ]
        links = yield from self._try(
            wanted, PATIENT_SECONDS, f"what gave no answer, for {PATIENT_SECONDS:.0f} s", other_ports=False
        )
        later = {(link.node_rank, link.peer, link.address, link.source): link for link in links if link.ok}
        return replace(
            evidence,
            links=tuple(later.get((k.node_rank, k.peer, k.address, k.source), k) for k in evidence.links),
            seconds=evidence.seconds + time.monotonic() - began,
        )

    def _try(
        self, wanted: Sequence[Sequence[Target]], limit: float, which: str, *, other_ports: bool
    ) -> Generator[Event, None, tuple[Link, ...]]:
        """All nodes make their attempts at once; ``wanted`` by place, ``limit`` seconds an attempt.

        ``other_ports``: where an attempt fails, a second more is spent on whether sshd's port answers.
        """
        began = time.monotonic()
        pairs = len({(at, target.peer) for at, row in enumerate(wanted) for target in row})
        links: list[Link] = []

        def question(at: int, session: Session) -> tuple[Link, ...]:
            answer = session.call(
                "probe",
                timeout=ASK_TIMEOUT,
                token=self.token,
                node_rank=self.ranks[at],
                targets=[self._target(target, other_ports=other_ports) for target in wanted[at]],
                limit=limit,
            )
            return self._links(at, answer)

        yield Probing(
            nodes=len(self.participants),
            pairs=pairs,
            connections=sum(len(target.sources) for row in wanted for target in row),
            scheme=which,
        )
        for at, found in self.ask(question):
            links += map(self._inward, found)
            one = self.participants[at]
            yield Linked(node=one.node.name, node_rank=one.node_rank, links=found)
        yield Probed(
            nodes=len(self.participants),
            pairs=pairs,
            connections=len(links),
            reached=sum(link.ok for link in links),
            seconds=time.monotonic() - began,
            scheme=which,
        )
        return tuple(links)

    def reach(self, address: str, port: int, token: str, endpoints: Sequence[Endpoint]) -> tuple[Link, ...]:
        """Every node but the first connects to one port of the first, from its own chosen address."""

        def question(at: int, session: Session) -> tuple[Link, ...]:
            if at == 0:
                return ()
            target = {"peer": self.ranks[0], "address": address, "port": port, "sources": [endpoints[at].address]}
            answer = session.call(
                "probe",
                timeout=ASK_TIMEOUT,
                token=token,
                node_rank=self.ranks[at],
                targets=[{**target, "other_ports": self._other_ports(0)}],
                limit=2 * ATTEMPT_SECONDS,
            )
            return self._links(at, answer)

        return tuple(link for _at, found in self.ask(question) for link in found)

    def close(self) -> None:
        """The nodes close what they opened for this; one that is gone does it by itself."""
        for at, one in enumerate(self.participants):
            if at not in self.failed and not one.session.gone:
                one.session.ask("unlisten", lambda _answer: None)

    # --- the questions

    def _listen(self, addresses: Sequence[Sequence[str]]) -> None:
        def question(at: int, session: Session) -> dict[str, Any]:
            return session.call(
                "listen",
                timeout=ASK_TIMEOUT,
                token=self.token,
                node_rank=self.ranks[at],
                addresses=list(addresses[at]),
                extra=EXTRA_PORTS,
            )

        for at, answer in self.ask(question):
            found = answer["listeners"]
            self.listeners[at] = Listeners(
                ports={address: one["port"] for address, one in found.items()},
                extra={address: tuple(one["extra"]) for address, one in found.items()},
                udp={address: one["udp"] for address, one in found.items()},
                ssh_port=answer.get("ssh_port"),
            )

    def ask(self, question: Callable[[int, Session], _T]) -> Iterator[tuple[int, _T]]:
        """Asks all that are still there; the answers as they come. Raises Interrupted."""
        sessions = {at: one.session for at, one in enumerate(self.participants) if at not in self.failed}
        for at, answer in for_all(sessions, question, cancelled=self.control.stopped, workers=WORKERS):
            if isinstance(answer, NcclrunError):
                self.failed[at] = answer
            else:
                yield at, answer
        self.control.check()

    # --- small things

    def _probed(self, at: int) -> list[Address]:
        """The addresses at which a node listens."""
        known = {a.address: a for interface in self.facts[at].interfaces for a in interface.addresses}
        return [known[address] for address in self.listeners[at].ports]

    def _target(self, target: Target, *, other_ports: bool) -> dict[str, Any]:
        return {
            "peer": self.ranks[target.peer],
            "address": target.address,
            "port": self.listeners[target.peer].ports[target.address],
            "sources": list(target.sources),
            "other_ports": self._other_ports(target.peer) if other_ports else [],
        }

    def _other_ports(self, at: int) -> list[int]:
        """Ports that may answer where a firewall keeps the high ones shut."""
        port = self.listeners[at].ssh_port
        return [] if port is None else [port]

    def _links(self, at: int, answer: Mapping[str, Any]) -> tuple[Link, ...]:
        return read_answer(_LINKS, [{**link, "node_rank": self.ranks[at]} for link in answer["links"]])

    def _inward(self, link: Link) -> Link:
        by = None if link.by is None else self.places.get(link.by)
        return replace(link, node_rank=self.places[link.node_rank], peer=self.places[link.peer], by=by)
