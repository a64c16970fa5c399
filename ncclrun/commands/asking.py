"""Nodes that are asked one question each, by a command that belongs to no run: who answers, and who does not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from pydantic import TypeAdapter

from ncclrun.commands.answers import read_answer
from ncclrun.commands.contact import connect, unreachable
from ncclrun.commands.control import Control
from ncclrun.commands.inbox import Inbox, inbox_sink
from ncclrun.model.cluster import Node
from ncclrun.model.errors import HostError, NcclrunError
from ncclrun.model.events import Connecting, Event, Unreachable
from ncclrun.model.inventory import Inventory
from ncclrun.transport.base import Transport
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session

RUNS_TIMEOUT = 60.0
"""Seconds for a node's answer to `runs`: it looks at every process, and asks a driver that may be slow."""
_INVENTORY = TypeAdapter(Inventory)


class Asking:
    """Some nodes by their place in ``nodes``; ``sessions`` to those that answer, ``lost`` says why the others don't.

    ``offsets``: the clocks of those that told their inventory, minus ours, as well as an answer shows it.
    """

    def __init__(self, nodes: Sequence[Node], transport: Transport, control: Control) -> None:
        self.nodes = tuple(nodes)
        self.sessions: dict[int, Session] = {}
        self.lost: dict[int, Unreachable] = {}
        self.offsets: dict[int, float] = {}
        self._transport = transport
        self._control = control

    def __enter__(self) -> Asking:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in self.sessions.values():
            session.close()

    def connect(self) -> Iterator[Event]:
        """Connecting, Connected and Unreachable as they come. Raises Interrupted."""
        yield Connecting(nodes=tuple(node.name for node in self.nodes))
        sink = inbox_sink(self.nodes, Inbox())
        for event in connect(self.nodes, self._transport, sink, self._control, self.sessions):
            if isinstance(event, Unreachable):
                self.lost[event.node_rank] = event
            yield event

    def ask(self, do: str, timeout: float, arguments: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
        """(place, answer) of each node that answers; who refuses or is lost now is in ``lost``. Raises Interrupted."""

        def question(place: int, session: Session) -> dict[str, Any]:
            return session.call(do, timeout=timeout, **arguments)

        for place, answer in for_all(self.sessions, question, cancelled=self._control.stopped):
            if isinstance(answer, NcclrunError):
                self._lose(place, answer)
            else:
                yield place, answer
        self._control.check()

    def inventories(self, limit: int) -> dict[int, Inventory]:
        """What runs on each node that answers, with the newest ``limit`` of what has ended. Raises Interrupted."""
        found: dict[int, Inventory] = {}
        for place, answer in self.ask("runs", RUNS_TIMEOUT, {"limit": limit}):
            now = time.time()
            try:
                found[place] = read_answer(_INVENTORY, answer, "what it says of its runs makes")
                self.offsets[place] = found[place].time - now
            except HostError as error:
                self._lose(place, error)
        return found

    def _lose(self, place: int, error: NcclrunError) -> None:
        node = self.nodes[place]
        as_host = error if isinstance(error, HostError) else HostError("refused", error.message, fix=error.fix)
        self.lost[place] = unreachable(node, place, as_host)


def way_to(node: Node) -> tuple[object, ...]:
    """The same for two names of one host."""
    return node.host, node.ssh.user, node.ssh.port, node.ssh.gateway


def unique_nodes(nodes: Sequence[Node]) -> list[Node]:
    """Each host once, under names that tell them apart: the nodes of several runs are often the same ones."""
    found: dict[tuple[object, ...], Node] = {}
    names: set[str] = set()
    for node in nodes:
        key = way_to(node)
        if key not in found:
            name = node.name if node.name not in names else f"{node.name} ({node.host}, {len(names)})"
            names.add(name)
            found[key] = replace(node, name=name)
    return list(found.values())
