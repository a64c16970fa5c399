"""One question to all nodes of a launch: who refuses it, or is lost, is told, and the launch ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from ncclrun.commands.contact import unreachable
from ncclrun.commands.control import Control
from ncclrun.commands.findings import page_of
from ncclrun.model.cluster import Node
from ncclrun.model.errors import HostError, NcclrunError, NodeRefused
from ncclrun.model.events import Event, Refused, Unreachable
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session


class NotStarted(NcclrunError):
    """Events have told why; ``exit_code`` is what the command ends with."""

    def __init__(self, exit_code: int, reason: str = "nothing was started") -> None:
        super().__init__(reason)
        self.exit_code = exit_code


class Everywhere:
    """All nodes of a launch by node_rank; ``sessions`` may still fill."""

    def __init__(self, nodes: Sequence[Node], sessions: Mapping[int, Session], control: Control) -> None:
        self._nodes = nodes
        self._sessions = sessions
        self._control = control

    def ask(
        self,
        question: Callable[[int, Session], Any],
        taken: Callable[[int, Any], Iterator[Event]],
        among: Collection[int] | None = None,
    ) -> Iterator[Event]:
        """Asks all nodes, or those; tells of each that refuses or is lost, then raises NotStarted if there was one."""
        code = 0
        asked = {rank: session for rank, session in self._sessions.items() if among is None or rank in among}
        for node_rank, answer in for_all(asked, question, cancelled=self._control.stopped):
            node = self._nodes[node_rank]
            if isinstance(answer, NcclrunError):
                code = max(code, answer.exit_code)
                yield failure_event(node, node_rank, answer)
            else:
                yield from taken(node_rank, answer)
        self._control.check()
        if code:
            raise NotStarted(code)


def failure_event(node: Node, node_rank: int, error: NcclrunError) -> Unreachable | Refused:
    """The event for a node that is lost or says no."""
    if isinstance(error, HostError):
        return unreachable(node, node_rank, error)
    code = error.code if isinstance(error, NodeRefused) else "error"
    page = page_of(code)
    return Refused(node=node.name, node_rank=node_rank, code=code, message=error.message, fix=error.fix, id=page)
