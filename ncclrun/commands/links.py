"""New links to nodes whose link broke, each sought in a thread of its own."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ncclrun.commands.inbox import Message
from ncclrun.commands.member import Member
from ncclrun.model.cluster import Node
from ncclrun.model.errors import NcclrunError
from ncclrun.transport.session import Session

Connect = Callable[[Node, Callable[[Node, dict[str, Any], bytes], None]], Session]
"""Opens a new session to a node."""
Found = tuple[Member, int, Session | NcclrunError]
"""A node, the number of the link that was sought, and what came of one try."""


class Links:
    """Tries again and again for each node that it was asked to seek, until it has a session or the node is given up."""

    def __init__(self, inbox: queue.SimpleQueue[Message], connect: Connect) -> None:
        self._inbox = inbox
        self._connect = connect
        self._found: queue.SimpleQueue[Found] = queue.SimpleQueue()

    def seek(self, member: Member) -> None:
        """Begins; what the session says will bear the member's ``generation`` as it is now."""
        threading.Thread(
            target=self._seek, args=(member, member.generation), daemon=True, name=f"reconnect {member.node.name}"
        ).start()

    def found(self) -> Iterator[Found]:
        """What has come of it since."""
        while not self._found.empty():
            yield self._found.get()

    def _seek(self, member: Member, generation: int) -> None:
        def sink(_: Node, header: dict[str, Any], body: bytes) -> None:
            self._inbox.put((member.node_rank, generation, header, body))

        pause = 0.5
        while not member.over and member.generation == generation:
            try:
                self._found.put((member, generation, self._connect(member.node, sink)))
            except NcclrunError as error:
                self._found.put((member, generation, error))
            else:
                return
            time.sleep(pause)
            pause = min(pause * 2, 5.0)
