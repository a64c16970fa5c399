"""Is a node fit? Each fault told once, on the right node, with what mends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ncclrun.diagnosis.checks.across import cluster_problems
from ncclrun.diagnosis.checks.registry import node_problems
from ncclrun.model.facts import NodeFacts, PythonFacts
from tests.planning.makers import facts, node


def codes(**fields: Any) -> list[tuple[str, str]]:
    """Code and level of what is wrong with a node of these facts."""
    return [(p.code, p.level) for p in node_problems(node("a"), facts("a", **fields))]


def with_python(name: str, **fields: str) -> NodeFacts:
    return facts(name, python=PythonFacts(**{"executable": "/py", "version": "3.11.4", "torch": "2.5.1", **fields}))


class TestOneNode:
    """By itself."""

    def test_a_sound_one_has_no_problems(self) -> None:
        assert codes() == []

    def test_a_python_that_can_not_be_run(self) -> None:
        (problem,) = node_problems(node("a"), facts("a", python=PythonFacts("/no/python", error="no such file")))
        assert (problem.code, problem.level) == ("no_python", "error")
        assert "'/no/python' is of no use: no such file" in problem.message
        assert problem.fix.startswith("on a:  command -v python3   (")

    def test_a_python_of_another_age_is_told_as_that_and_not_as_one_without_torch(self) -> None:
        old = facts("a", python=PythonFacts("/py", "3.6.9", error="Python 3.6.9 is too old"))
        (problem,) = node_problems(node("a"), old)
        assert problem.code == "no_python"
        assert "3.6.9 is too old" in problem.message

    def test_a_python_without_torch(self) -> None:
        bare = facts("a", python=PythonFacts("/my env/python", "3.11.4"))
        (problem,) = node_problems(node("a"), bare)
        assert problem.code == "no_torch"
        assert problem.fix.startswith("on a:  '/my env/python' -m pip install torch   (")
        assert node_problems(node("a"), bare, torch_needed=False) == ()

    def test_little_disk_is_a_warning(self) -> None:
        assert codes(free_bytes=(1 << 30) - 1) == [("disk_low", "warning")]
        assert codes(free_bytes=1 << 30) == []

    @pytest.mark.parametrize(("offset", "words"), [(7.4, "7 s ahead of"), (-3600.0, "3600 s behind")])
    def test_a_wrong_clock_is_a_warning(self, offset: float, words: str) -> None:
        (problem,) = node_problems(node("a"), facts("a", clock_offset=offset))
        assert (problem.code, problem.level) == ("clock", "warning")
        assert words in problem.message

    def test_a_gpu_that_is_not_there(self) -> None:
        (problem,) = node_problems(node("a", gpus=(0, 2, 3)), facts("a", gpus=2))
        assert (problem.code, problem.level) == ("no_such_gpu", "error")
        assert problem.message == "the cluster file wants GPU 2, 3, the host has 0, 1"

    def test_more_workers_than_gpus_is_a_warning(self) -> None:
        (problem,) = node_problems(node("a", nproc_per_node=2), facts("a", gpus=1))
        assert (problem.code, problem.level) == ("few_gpus", "warning")
        assert problem.message.startswith("2 workers for 1 GPU:")

    def test_more_workers_than_gpus_named_is_a_warning(self) -> None:
        (problem,) = node_problems(node("a", nproc_per_node=3, gpus=(0, 1)), facts("a", gpus=8))
        assert problem.message.startswith("3 workers for 2 GPUs:")

    def test_workers_without_any_gpu_are_meant(self) -> None:
        assert node_problems(node("a", nproc_per_node=8), facts("a")) == ()

    def test_every_fault_is_told_at_once(self) -> None:
        found = codes(python=PythonFacts("/p", error="x"), free_bytes=0, clock_offset=9.0)
        assert [code for code, _ in found] == ["no_python", "disk_low", "clock"]


class TestBetweenNodes:
    """What differs and should not."""

    @staticmethod
    def messages(machines: Sequence[NodeFacts]) -> list[list[str]]:
        nodes = [node(fact.hostname) for fact in machines]
        return [[problem.message for problem in row] for row in cluster_problems(nodes, machines)]

    def test_equal_ones_have_nothing_to_say(self) -> None:
        assert self.messages([facts("a", gpus=2), facts("b", gpus=2)]) == [[], []]

    def test_the_minority_is_told(self) -> None:
        machines = [with_python("a", torch="2.4.0"), with_python("b"), with_python("c")]
        assert self.messages(machines) == [["torch 2.4.0 here, 2.5.1 on b"], [], []]

    def test_of_two_the_second_is_told(self) -> None:
        machines = [with_python("a", nccl="2.21.5"), with_python("b", nccl="2.20.3")]
        assert self.messages(machines) == [[], ["NCCL 2.20.3 here, 2.21.5 on a"]]

    def test_what_is_unknown_differs_from_nothing(self) -> None:
        assert self.messages([with_python("a", torch=""), with_python("b")]) == [[], []]

    def test_python_counts_by_its_minor_version_and_torch_without_its_build(self) -> None:
        machines = [
            with_python("a", version="3.11.4", torch="2.5.1+cu124"),
            with_python("b", version="3.11.9", torch="2.5.1+cpu"),
            with_python("c", version="3.12.1"),
        ]
        assert self.messages(machines) == [[], [], ["Python 3.12 here, 3.11 on a"]]

    def test_gpu_counts_may_be_meant(self) -> None:
        machines = [facts("a", gpus=2), facts("b", gpus=4)]
        ((), (problem,)) = cluster_problems([node("a"), node("b")], machines)
        assert problem.level == "warning"
        assert problem.fix.startswith("nothing, if that is meant")

    def test_two_nodes_on_one_machine_want_gpus_of_their_own(self) -> None:
        machines = [facts("m", gpus=2), facts("m", gpus=2), facts("n", gpus=2)]
        _, (problem,), other = cluster_problems([node("a"), node("b"), node("c")], machines)
        assert problem.code == "shared_gpus"
        assert "with a and takes the same GPUs (0, 1)" in problem.message
        assert other == ()
        split = [node("a", gpus=(0,)), node("b", gpus=(1,))]
        assert cluster_problems(split, machines[:2]) == ((), ())
