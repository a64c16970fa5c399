"""A visit to all nodes that changes nothing there: connect, and ask each for its facts."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from ncclrun.commands.contact import ask_facts, connect
from ncclrun.commands.control import Control
from ncclrun.commands.findings import problem_of
from ncclrun.commands.inbox import Inbox, inbox_sink
from ncclrun.commands.survey import Participant
from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.errors import NcclrunError
from ncclrun.model.events import Connected, Connecting, Event, Unreachable
from ncclrun.model.facts import NodeFacts
from ncclrun.model.netevents import Problem
from ncclrun.transport.base import Transport
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session


class Visit:
    """The nodes that could be asked (``facts``) and why the others could not (``lost``), by node_rank."""

    def __init__(self, cluster: ClusterSpec, transport: Transport, control: Control) -> None:
        self.nodes = cluster.nodes
        self.connected: dict[int, Connected] = {}
        self.facts: dict[int, NodeFacts] = {}
        self.lost: dict[int, Problem] = {}
        self._transport = transport
        self._control = control
        self._sessions: dict[int, Session] = {}

    def __enter__(self) -> Visit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in self._sessions.values():
            session.close()

    def events(self) -> Iterator[Event]:
        """Connecting, Connected and Unreachable as they come; then all facts are there. Raises Interrupted."""
        yield Connecting(nodes=tuple(node.name for node in self.nodes))
        sink = inbox_sink(self.nodes, Inbox())
        for event in connect(self.nodes, self._transport, sink, self._control, self._sessions):
            if isinstance(event, Connected):
                self.connected[event.node_rank] = event
            elif isinstance(event, Unreachable):
                self.lost[event.node_rank] = Problem(code=event.reason, message=event.message, fix=event.fix)
            yield event

        def question(rank: int, session: Session) -> NodeFacts:
            return ask_facts(session, self.nodes[rank].launch.python)

        for rank, answer in for_all(self._sessions, question, cancelled=self._control.stopped):
            if isinstance(answer, NcclrunError):
                self.lost[rank] = problem_of(answer)
            else:
                self.facts[rank] = answer
        self._control.check()

    @property
    def participants(self) -> tuple[Participant, ...]:
        """The nodes that told their facts, in order of node_rank."""
        return tuple(
            Participant(self.nodes[rank], rank, self._sessions[rank], self.facts[rank]) for rank in sorted(self.facts)
        )
