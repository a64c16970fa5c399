"""Connects to all nodes and asks each for its facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pydantic import TypeAdapter

from ncclrun.commands.answers import read_answer
from ncclrun.commands.control import Control
from ncclrun.commands.inbox import Sink
from ncclrun.model.cluster import Node
from ncclrun.model.errors import HostError
from ncclrun.model.events import Connected, Event, Unreachable
from ncclrun.model.facts import NodeFacts
from ncclrun.transport.base import Transport
from ncclrun.transport.fleet import connect_all
from ncclrun.transport.session import Session

FACTS_TIMEOUT = 60.0
"""Seconds for a node's facts; a cold file system may need many for the training Python alone."""

_FACTS = TypeAdapter(NodeFacts)


def connect(
    nodes: Sequence[Node], transport: Transport, sink: Sink, control: Control, sessions: dict[int, Session]
) -> Iterator[Event]:
    """Fills ``sessions`` by node_rank and yields, as they come, Connected and Unreachable."""
    ranks = {node.name: rank for rank, node in enumerate(nodes)}
    for node, result, seconds in connect_all(transport, nodes, sink, cancelled=control.stopped):
        node_rank = ranks[node.name]
        if isinstance(result, HostError):
            yield unreachable(node, node_rank, result)
        else:
            sessions[node_rank] = result
            yield Connected(
                node=node.name,
                node_rank=node_rank,
                host=node.host,
                hostname=str(result.hello.get("hostname", "")),
                seconds=seconds,
                local=transport.is_local(node),
            )
    control.check()


def unreachable(node: Node, node_rank: int, error: HostError) -> Unreachable:
    """The event for a host that can't be talked to."""
    return Unreachable(
        node=node.name, node_rank=node_rank, host=node.host, reason=error.reason, message=error.message, fix=error.fix
    )


def ask_facts(session: Session, python: str) -> NodeFacts:
    """One node's facts with its clock against ours. Raises HostError when what it says makes no sense."""
    offset, round_trip = session.clock()
    answer = session.call("facts", timeout=FACTS_TIMEOUT, python=python)
    known = {key: value for key, value in answer.items() if key in NodeFacts.__dataclass_fields__}
    return read_answer(_FACTS, {**known, "clock_offset": offset, "round_trip": round_trip}, "its facts make")


def reopen(transport: Transport) -> Callable[[Node, Sink], Session]:
    """How a follower gets a new session to a node whose link broke."""

    def again(node: Node, sink: Sink) -> Session:
        return Session.open(node, transport.open(node), sink, timeout=node.ssh.connect_timeout)

    return again
