"""What the nodes say unasked, in the order in which it comes, for one reader."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ncclrun.model.cluster import Node

Message = tuple[int, int, dict[str, Any], bytes]
"""node_rank, generation of its link, header, body."""
Sink = Callable[[Node, dict[str, Any], bytes], None]

MOST_WAITING = 1 << 20
"""Bytes of a node's output that may wait here for whoever shows them."""


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
