"""Who is in the way of a run is told once for all its GPUs, with whom to ask and what to type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ncclrun.diagnosis.guards import crowded, gpus_to_lock, left_over, locked, survived, used_gpus
from ncclrun.model.facts import Gpu, GpuProcess, Leftover, LeftoverProcess, NodeFacts
from ncclrun.model.health import Sizes, System
from ncclrun.model.plan import Endpoint, NodePlan, Variable
from tests.planning.makers import facts, node

HOLDER = {"gpus": [0, 1], "run_id": "other", "uid": 5, "user": "anna", "own": False, "seconds": 7300.0}


def plan(visible: str | None = None, *, rank: int = 0, nproc: int = 1) -> NodePlan:
    """One node's plan, with CUDA_VISIBLE_DEVICES if it is to have one."""
    variables = () if visible is None else (Variable("CUDA_VISIBLE_DEVICES", visible, "gpus"),)
    return NodePlan(
        node=node("a"),
        node_rank=rank,
        endpoint=Endpoint("eth0", "10.0.0.1", ""),
        nproc=nproc,
        first_rank=0,
        python="/py",
        argv=(),
        environment=variables,
        file=(),
        conf=None,
        defaults=(),
        unset=(),
        workdir=None,
        grace=1.0,
    )


def app(index: int, **fields: Any) -> GpuProcess:
    return GpuProcess(**{"pid": 7, "uuid": f"GPU-{index}", "memory": 72704, "name": "python", **fields})


ANNAS = {"user": "anna", "command": "python train.py", "seconds": 10800.0}


class TestWhichGpus:
    @pytest.mark.parametrize(
        ("planned", "login", "seen"),
        [
            (None, None, [0, 1, 2, 3]),
            ("1,3", None, [1, 3]),
            ("2", "0", [2]),
            (None, " 0 , 2", [0, 2]),
            ("", None, []),
            ("-1", None, []),
            ("1,9,2", None, [1]),
            ("GPU-2", None, [2]),
            ("GPU-", None, []),
            ("MIG-7", None, []),
        ],
    )
    def test_are_those_that_the_workers_see(self, planned: str | None, login: str | None, seen: list[int]) -> None:
        there = facts("m", gpus=4, cuda_visible=login)
        assert [gpu.index for gpu in used_gpus(plan(planned), there)] == seen

    def test_of_two_nodes_on_one_machine_each_is_locked_once(self) -> None:
        there, elsewhere = facts("m", gpus=2), facts("n", gpus=2)
        plans = [plan("0", rank=0), plan("0,1", rank=1), plan(rank=2), plan("0", rank=3)]
        found = gpus_to_lock(plans, [there, there, elsewhere, there])
        assert {rank: [gpu.index for gpu in gpus] for rank, gpus in found.items()} == {0: [0], 1: [1], 2: [0, 1]}


class TestGpusInUse:
    def told(self, there: NodeFacts, **options: Any) -> list[tuple[str, str]]:
        problems = crowded(plan(**options), there)
        assert {problem.level for problem in problems} <= {"warning"}
        return [(problem.message, problem.fix) for problem in problems]

    def test_an_idle_node_has_no_problem(self) -> None:
        idle = tuple(Gpu(index, "H100", f"GPU-{index}", 80000, 600) for index in range(2))
        assert self.told(facts("m", gpus=2), nproc=2) == []
        assert self.told(facts("m", system=System(shared_memory=Sizes(8 << 30, 256 << 20))), nproc=2) == []
        assert crowded(plan(), NodeFacts(**{**vars(facts("m")), "gpus": idle})) == ()

    def test_somebodys_command_is_told_once_for_all_its_gpus(self) -> None:
        apps = (app(0, **ANNAS), app(1, **ANNAS))
        assert self.told(facts("m", gpus=2, gpu_processes=apps)) == [
            ("GPUs 0, 1 are in use by anna: python train.py for 3 h, 142 GiB", "ask anna, or take other GPUs")
        ]

    def test_ones_own_run_is_named(self) -> None:
        apps = (app(1, **ANNAS, run_id="mine"),)
        ((message, fix),) = self.told(facts("m", gpus=2, gpu_processes=apps))
        assert message.startswith("GPU 1 is in use by your run mine: python train.py for 3 h")
        assert fix == "ncclrun stop mine"

    def test_what_is_hidden_is_said_to_be_so(self) -> None:
        ((message, _),) = self.told(facts("m", gpus=1, gpu_processes=(app(0, memory=None),)))
        assert message == "GPU 0 is in use by a process that can't be seen from there (python)"

    def test_memory_without_a_process_is_told(self) -> None:
        there = NodeFacts(**{**vars(facts("m")), "gpus": (Gpu(0, "H100", "GPU-0", 80000, 70000),)})
        ((message, _),) = self.told(there)
        assert message == "68 GiB of GPU 0 is in use; by whom can't be seen from there"
        both = (*there.gpus, Gpu(1, "H100", "GPU-1", 80000, 70000))
        ((message, _),) = self.told(NodeFacts(**{**vars(there), "gpus": both}))
        assert message == "137 GiB of GPUs 0, 1 are in use; by whom can't be seen from there"

    def test_gpus_that_the_run_leaves_alone_do_not_count(self) -> None:
        assert self.told(facts("m", gpus=2, gpu_processes=(app(0, **ANNAS),)), visible="1") == []

    def test_a_dev_shm_that_is_full_at_once(self) -> None:
        small = System(shared_memory=Sizes(64 << 20, 64 << 20))
        ((message, fix),) = self.told(facts("m", system=small), nproc=1)
        assert message == "only 64 MiB free in /dev/shm, for a worker and its data loaders"
        assert fix == "on a:  sudo mount -o remount,size=8G /dev/shm"
        ((_, fix),) = self.told(facts("m", system=replace(small, container="docker")), nproc=1)
        assert fix == "start its container with  --shm-size=8g"


class TestLocked:
    def test_by_another_user(self) -> None:
        problem = locked(HOLDER)
        assert (problem.code, problem.level) == ("gpu_locked", "error")
        assert problem.message == "GPUs 0, 1 are held by anna's run other for 2 h"
        assert problem.fix.startswith("ask anna\n")
        assert "--share-gpus" in problem.fix

    def test_by_oneself(self) -> None:
        problem = locked({**HOLDER, "gpus": [3], "own": True})
        assert problem.message == "GPU 3 is held by your run other for 2 h"
        assert problem.fix.startswith("ncclrun stop other\n")

    def test_by_nobody_knows_whom(self) -> None:
        problem = locked({**HOLDER, "run_id": "", "user": "", "seconds": None})
        assert problem.message == "GPUs 0, 1 are held by somebody who does not say who they are"


class TestLeftovers:
    LEFT = Leftover("old", 2, 90000.0, 6, tuple(LeftoverProcess(pid, f"sleep {pid}") for pid in range(1, 7)))

    def test_are_told_with_what_ends_them(self) -> None:
        problem = left_over(self.LEFT)
        assert (problem.code, problem.level) == ("leftover", "error")
        assert "your run old is dead there" in problem.message
        assert "6 processes of it live on, the oldest for 25 h now" in problem.message
        assert problem.message.endswith("sleep 1 (pid 1), sleep 2 (pid 2), sleep 3 (pid 3), sleep 4 (pid 4), 2 more")
        assert "--clean-leftovers" in problem.fix

    def test_what_survives_keeps_nobody_from_starting(self) -> None:
        problem = survived(self.LEFT, [{"pid": 9, "command": "cat", "state": "D"}])
        assert problem.level == "warning"
        assert "cat (pid 9, state D)" in problem.message
