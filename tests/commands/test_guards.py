"""One machine is asked for its GPUs before the others, the same one by everybody, and no other once that is lost."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pytest

from ncclrun.commands.guards import Guards, Question, Taken
from ncclrun.model.events import Event
from ncclrun.model.facts import Leftover, LeftoverProcess, NodeFacts
from ncclrun.model.plan import Endpoint, LaunchPlan, NodePlan
from tests.planning.makers import facts, node

HOLDER = {"gpus": [0], "run_id": "other", "uid": 5, "user": "anna", "own": False, "seconds": 60.0}
LEFT = Leftover("old", 3, 60.0, 1, (LeftoverProcess(7, "sleep 1"),))


class Nodes:
    """Stand-ins for all sessions; ``held`` are the machines of which somebody else has a GPU."""

    def __init__(self, *machines: NodeFacts, held: Collection[str] = (), alive: Collection[str] = ()) -> None:
        self.facts = machines
        self.rounds: list[list[tuple[str, str]]] = []
        self._held = held
        self._alive = [{"pid": 7, "command": command, "state": "D"} for command in alive]
        plans = tuple(one_plan(rank, fact) for rank, fact in enumerate(machines))
        self.guards = Guards(LaunchPlan("mine", "exec", "10.0.0.1", 1, len(plans), plans), machines, self.ask)

    def ask(self, question: Question, taken: Taken, ranks: Collection[int]) -> Iterator[Event]:
        self.rounds.append([])
        for rank in ranks:
            self._now = self.facts[rank].machine
            yield from taken(rank, question(rank, self))  # type: ignore[arg-type]  # it has the one method that is used

    def call(self, do: str, *, timeout: float, **fields: Any) -> dict[str, Any]:
        self.rounds[-1].append((self._now, do))
        return {"holders": [HOLDER] if self._now in self._held else [], "alive": self._alive}


def one_plan(rank: int, fact: NodeFacts) -> NodePlan:
    return NodePlan(
        node=node(fact.machine),
        node_rank=rank,
        endpoint=Endpoint("eth0", "10.0.0.1", ""),
        nproc=1,
        first_rank=rank,
        python="/py",
        argv=(),
        environment=(),
        file=(),
        conf=None,
        defaults=(),
        unset=(),
        workdir=None,
        grace=1.0,
    )


def returned(steps: Any) -> Any:
    """What a generator of events returns."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value


class TestLocks:
    def test_the_first_by_machine_is_asked_alone_whatever_the_nodes_order(self) -> None:
        nodes = Nodes(facts("c", gpus=1), facts("a", gpus=1), facts("b", gpus=1))
        assert returned(nodes.guards.lock()) == []
        assert [[name for name, _ in one] for one in nodes.rounds] == [["a"], ["b", "c"]]

    def test_nobody_is_asked_after_the_first_was_lost(self) -> None:
        nodes = Nodes(facts("b", gpus=1), facts("a", gpus=1), held=("a", "b"))
        (finding,) = returned(nodes.guards.lock())
        assert (finding.node_rank, finding.problem.code) == (1, "gpu_locked")
        assert nodes.rounds == [[("a", "lock")]]

    def test_nodes_without_gpus_are_not_asked(self) -> None:
        nodes = Nodes(facts("a"), facts("b", gpus=1))
        assert returned(nodes.guards.lock()) == []
        assert [name for one in nodes.rounds for name, _ in one] == ["b"]


class TestLeftovers:
    def test_those_of_a_machine_are_told_once(self) -> None:
        nodes = Nodes(facts("a", leftovers=(LEFT,)), facts("a", leftovers=(LEFT,)), facts("b", leftovers=(LEFT,)))
        assert [finding.node_rank for finding in nodes.guards.leftovers()] == [0, 2]

    @pytest.mark.parametrize("alive", [(), ("sleep 1",)])
    def test_what_survives_is_a_warning(self, alive: tuple[str, ...]) -> None:
        nodes = Nodes(facts("a"), facts("b", leftovers=(LEFT,)), alive=alive)
        found = returned(nodes.guards.clear())
        assert [(finding.node_rank, finding.problem.level) for finding in found] == [(1, "warning")] * len(alive)
        assert nodes.rounds == [[("b", "clear")]]
