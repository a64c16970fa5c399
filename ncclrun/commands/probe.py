"""Connects to all nodes and asks each for its facts."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pydantic import TypeAdapter

from ncclrun.commands.answers import read_answer
from ncclrun.commands.control import Control
from ncclrun.model.cluster import Node
from ncclrun.model.errors import HostError
from ncclrun.model.events import Connected, Event, Unreachable
from ncclrun.model.facts import NodeFacts
from ncclrun.transport.base import Transport
from ncclrun.transport.fleet import connect_all
from ncclrun.transport.session import Session

Message = tuple[int, int, dict[str, Any], bytes]
"""node_rank, generation of its link, header, body."""
Sink = Callable[[Node, dict[str, Any], bytes], None]

FACTS_TIMEOUT = 60.0
"""Seconds for a node's facts; a cold file system may need many for the training Python alone."""

MOST_WAITING = 1 << 20
"""Bytes of a node's output that may wait here for whoever shows them."""

_FACTS = TypeAdapter(NodeFacts)


class Inbox(queue.SimpleQueue[Message]):
    """What the nodes say, in order of arrival, for one reader, who is never far behind.

    ``put`` waits while much of that node's output waits already: its session reads no further then, and what the node
    says stays in its files. So a flood costs no memory here, and the word of a stop is not behind minutes of it. What
    has no body (ends, states, lost links) never waits.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[int, int] = {}
        self._taken = threading.Condition()

    def put(self, item: Message, block: bool = True, timeout: float | None = None) -> None:
        """Adds a message, once there is room for its body."""
        node_rank, _, _, body = item
        if body:
            with self._taken:
                self._taken.wait_for(lambda: self._waiting.get(node_rank, 0) < MOST_WAITING)
                self._waiting[node_rank] = self._waiting.get(node_rank, 0) + len(body)
        super().put(item, block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Message:
        """The next message; raises queue.Empty after ``timeout`` seconds."""
        message = super().get(block, timeout)
        node_rank, _, _, body = message
        if body:
            with self._taken:
                self._waiting[node_rank] -= len(body)
                self._taken.notify_all()
        return message


def inbox_sink(nodes: Sequence[Node], inbox: Inbox) -> Sink:
    """A sink that puts what sessions of the first generation say into ``inbox``, by node_rank."""
    ranks = {node.name: rank for rank, node in enumerate(nodes)}

    def sink(node: Node, header: dict[str, Any], body: bytes) -> None:
        inbox.put((ranks[node.name], 0, header, body))

    return sink


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
