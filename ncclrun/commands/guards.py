"""Guards of a start, asked of the nodes: the end of what dead runs left, and a lock for each GPU."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from typing import Any

from ncclrun.commands.findings import Finding
from ncclrun.diagnosis.guards import crowded, gpus_to_lock, left_over, locked, survived
from ncclrun.model.events import Event
from ncclrun.model.facts import NodeFacts
from ncclrun.model.plan import LaunchPlan
from ncclrun.transport.session import Session

GUARD_TIMEOUT = 60.0

Question = Callable[[int, Session], Any]
Taken = Callable[[int, Any], Iterator[Event]]
Asking = Callable[[Question, Taken, Collection[int]], Iterator[Event]]
"""Asks the nodes of these node_ranks at once; a node that refuses or is lost ends the launch."""


class Guards:
    """Each step returns what it found; errors among it are reasons not to start. ``facts`` are by node_rank."""

    def __init__(self, plan: LaunchPlan, facts: Sequence[NodeFacts], asking: Asking) -> None:
        self._plan = plan
        self._facts = facts
        self._asking = asking

    def crowded(self) -> list[Finding]:
        """Who else uses what the run will use, as far as the nodes' facts tell."""
        return [
            Finding(node.node_rank, problem)
            for node in self._plan.nodes
            for problem in crowded(node, self._facts[node.node_rank])
        ]

    def leftovers(self) -> list[Finding]:
        """What dead runs of this user left on the nodes, each once, though several nodes may be on one machine."""
        found: dict[tuple[str, str, int], Finding] = {}
        for rank, facts in enumerate(self._facts):
            for left in facts.leftovers:
                found.setdefault((facts.machine, left.run_id, left.node_rank), Finding(rank, left_over(left)))
        return list(found.values())

    def clear(self) -> Generator[Event, None, list[Finding]]:
        """Ends exactly those processes; returns what lives all the same."""
        survivors: list[Finding] = []

        def question(rank: int, session: Session) -> list[Finding]:
            found = []
            for left in self._facts[rank].leftovers:
                answer = session.call("clear", timeout=GUARD_TIMEOUT, run_id=left.run_id, node_rank=left.node_rank)
                alive = answer["alive"]
                found += [Finding(rank, survived(left, alive))] if alive else []
            return found

        def taken(rank: int, found: list[Finding]) -> Iterator[Event]:
            survivors.extend(found)
            yield from ()

        yield from self._asking(question, taken, [rank for rank, facts in enumerate(self._facts) if facts.leftovers])
        return survivors

    def lock(self) -> Generator[Event, None, list[Finding]]:
        """Takes the locks of all GPUs that the run will see; returns who holds some already.

        One machine is asked before the others, the same one by everybody who wants it: so of two launches on the same
        nodes at once one gets all of them, and not each a part.
        """
        wanted = gpus_to_lock(self._plan.nodes, self._facts)
        held: list[Finding] = []

        def question(rank: int, session: Session) -> Any:
            gpus = [{"index": gpu.index, "uuid": gpu.uuid} for gpu in wanted[rank]]
            answer = session.call("lock", timeout=GUARD_TIMEOUT, run_id=self._plan.run_id, node_rank=rank, gpus=gpus)
            return answer["holders"]

        def taken(rank: int, holders: list[dict[str, Any]]) -> Iterator[Event]:
            held.extend(Finding(rank, locked(holder)) for holder in holders)
            yield from ()

        order = sorted(wanted, key=lambda rank: self._facts[rank].machine)
        for ranks in (order[:1], order[1:]):
            if not held:
                yield from self._asking(question, taken, ranks)
        return held
