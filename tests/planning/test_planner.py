"""The plan: ranks, GPUs, options over the file, and what each node is asked to start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ncclrun.model.cluster import Node
from ncclrun.model.errors import UsageError
from ncclrun.model.facts import NodeFacts, PythonFacts
from ncclrun.model.job import Attempt, JobSpec
from ncclrun.model.plan import Endpoint, LaunchPlan
from ncclrun.planning.planner import (
    make_plan,
    planned_event,
    processes,
    refuse_unsupported,
    wanted_port,
    with_options,
    workers,
)
from tests.planning.makers import cluster, facts, node

SCRIPT = JobSpec("script", "train.py")
EXEC = JobSpec("command", "./run.sh", ("x",), launcher="exec")


def plan(
    nodes: Sequence[Node],
    job: JobSpec = SCRIPT,
    machines: Sequence[NodeFacts] | None = None,
    **options: Any,
) -> LaunchPlan:
    machines = machines or [facts(n.name) for n in nodes]
    endpoints = [Endpoint("eth1", f"10.0.0.{i}", "") for i in range(1, len(nodes) + 1)]
    options = {"run_id": "r1", "forwarded": {}, "master_port": 29500, **options}
    return make_plan(cluster(*nodes), job, machines, endpoints, **options)


class TestRanks:
    """Global ranks are numbered through in the order of the nodes."""

    def test_with_different_numbers_of_workers(self) -> None:
        made = plan([node("a", nproc_per_node=2), node("b", nproc_per_node=1), node("c", nproc_per_node=3)])
        assert [list(n.ranks) for n in made.nodes] == [[0, 1], [2], [3, 4, 5]]
        assert made.world_size == 6
        assert [n.node_rank for n in made.nodes] == [0, 1, 2]

    def test_of_c10d_in_the_order_of_the_addresses_as_text(self) -> None:
        nodes = [node(f"n{i}", nproc_per_node=1 + i % 2, rendezvous="c10d") for i in range(10)]
        made = plan(nodes)
        assert made.nodes[9].endpoint.address == "10.0.0.10"
        # 10.0.0.1, 10.0.0.10, 10.0.0.2, …
        assert list(made.nodes[0].ranks) == [0]
        assert list(made.nodes[9].ranks) == [1, 2]
        assert list(made.nodes[1].ranks) == [3, 4]
        assert sorted(rank for n in made.nodes for rank in n.ranks) == list(range(15))
        assert made.world_size == 15

    def test_auto_is_the_gpus_found_else_one(self) -> None:
        made = plan([node("a"), node("b")], machines=[facts("a", gpus=8), facts("b")])
        assert [n.nproc for n in made.nodes] == [8, 1]

    def test_auto_is_the_gpus_named(self) -> None:
        assert workers(node("a", gpus=(1, 3)), facts("a", gpus=8)) == 2

    def test_auto_is_what_the_login_environment_shows_of_them(self) -> None:
        assert workers(node("a"), facts("a", gpus=8, visible=3)) == 3

    def test_a_number_counts_more_than_gpus(self) -> None:
        assert workers(node("a", nproc_per_node=4, gpus=(0,)), facts("a", gpus=8)) == 4


class TestOptions:
    """The command line counts more than the file, for every node."""

    def test_each_one_that_is_given(self) -> None:
        job = JobSpec("script", "t.py", nproc_per_node=3, master_port=1234, python="/py", workdir="/w", grace=5.0)
        launch = with_options(node("a", nproc_per_node=8, python="/other", env={"X": "y"}), job).launch
        assert (launch.nproc_per_node, launch.master_port, launch.python) == (3, 1234, "/py")
        assert (launch.workdir, launch.grace, launch.env) == ("/w", 5.0, {"X": "y"})

    def test_auto_is_an_option_too(self) -> None:
        job = JobSpec("script", "t.py", nproc_per_node="auto", master_port="auto")
        launch = with_options(node("a", nproc_per_node=8, master_port=7), job).launch
        assert (launch.nproc_per_node, launch.master_port) == ("auto", "auto")

    def test_what_is_not_given_stays(self) -> None:
        before = node("a", nproc_per_node=8, grace=1.0, address="10.0.0.1", gpus=(0,), rendezvous="static")
        assert with_options(before, SCRIPT) == before

    def test_a_grace_of_nothing_is_given(self) -> None:
        assert with_options(node("a", grace=30.0), JobSpec("script", "t.py", grace=0.0)).launch.grace == 0.0

    @pytest.mark.parametrize(
        ("said", "restarts", "taken"),
        [("auto", 0, "static"), ("auto", 2, "c10d"), ("static", 2, "static"), ("c10d", 0, "c10d")],
    )
    def test_restarts_choose_the_rendezvous_that_knows_of_them(self, said: str, restarts: int, taken: str) -> None:
        chosen = with_options(node("a", rendezvous=said, max_restarts=restarts), SCRIPT).launch
        assert chosen.rendezvous == taken

    def test_the_plan_has_them(self) -> None:
        made = plan([node("a"), node("b")], JobSpec("script", "t.py", nproc_per_node=2, env={"A": "1"}))
        assert made.world_size == 4
        assert all(v.origin == "--env" for n in made.nodes for v in n.environment if v.name == "A")


class TestAttempt:
    """What the script is told of its place in the life of the run."""

    def told(self, job: JobSpec, **launch: Any) -> dict[str, str]:
        (made,) = plan([node("a", **launch)], job).nodes
        return {v.name: v.value for v in made.environment if v.name.startswith("NCCLRUN_")}

    def test_without_retries_it_is_the_first(self) -> None:
        assert self.told(SCRIPT) == {"NCCLRUN_ATTEMPT": "1"}

    def test_a_later_one_knows_the_runs_name_and_where_its_checkpoints_are(self) -> None:
        job = replace(SCRIPT, run_id="r1.3", attempt=Attempt("r1", 3))
        assert self.told(job, checkpoint_dir="/data/ckpt") == {
            "NCCLRUN_ATTEMPT": "3",
            "NCCLRUN_RUN_ID": "r1",
            "NCCLRUN_CHECKPOINT_DIR": "/data/ckpt",
        }

    def test_the_option_goes_over_the_file(self) -> None:
        told = self.told(replace(SCRIPT, checkpoint_dir="~/here"), checkpoint_dir="/data/ckpt")
        assert told["NCCLRUN_CHECKPOINT_DIR"] == "~/here"


class TestPort:
    """master_port."""

    def test_auto_until_the_master_has_said_one(self) -> None:
        made = plan([node("a")], master_port=None)
        assert made.master_port == 0
        assert "--master-port=auto" in made.nodes[0].argv

    def test_as_the_master_said(self) -> None:
        made = plan([node("a"), node("b")], master_port=40001)
        assert all("--master-port=40001" in n.argv for n in made.nodes)

    def test_as_the_file_says(self) -> None:
        assert wanted_port([node("a", master_port=29400), node("b")]) == 29400
        assert "--master-port=29400" in plan([node("a", master_port=29400)], master_port=None).nodes[0].argv


class TestUnsupported:
    """What the file may carry and this version does not run is refused, with the line that mends it."""

    def test_two_conf_files_for_nccl_at_once(self) -> None:
        named = {"NCCL_CONF_FILE": "/data/nccl.conf"}
        with pytest.raises(UsageError, match=r"nccl\.deliver: file .* launch\.env sets that too"):
            refuse_unsupported(cluster(node("a", env=named), deliver="file"), SCRIPT)
        refuse_unsupported(cluster(node("a", env=named), deliver="env"), SCRIPT)

    def test_restarts_without_torchrun(self) -> None:
        with pytest.raises(UsageError, match="max_restarts is torchrun's"):
            refuse_unsupported(cluster(node("a", max_restarts=1)), EXEC)


class TestCommands:
    """What each node is told of itself and of the master."""

    def test_the_nodes_own_rank_address_and_python(self) -> None:
        machines = [facts("a"), facts("b", python=PythonFacts("/b/python", "3.12.1", torch="2.5.1"))]
        made = plan([node("a"), node("b")], machines=machines)
        first, second = (n.argv for n in made.nodes)
        assert {"--node-rank=0", "--local-addr=10.0.0.1", "--master-addr=10.0.0.1"} <= set(first)
        assert {"--node-rank=1", "--local-addr=10.0.0.2", "--master-addr=10.0.0.1"} <= set(second)
        assert (second[0], made.nodes[1].python) == ("/b/python", "/b/python")
        assert {"--rdzv-id=r1", "--nnodes=2"} <= set(first) & set(second)

    def test_a_python_that_was_not_found_is_named_as_the_file_does(self) -> None:
        made = plan([node("a", python="python3")], EXEC, [facts("a", python=PythonFacts("", error="no such file"))])
        assert made.nodes[0].python == "python3"

    def test_variables_that_a_launcher_must_not_inherit_are_taken_away(self) -> None:
        assert plan([node("a")], machines=[facts("a", stale=("RANK", "PET_NNODES"))]).nodes[0].unset == (
            "RANK",
            "PET_NNODES",
        )


class TestProcesses:
    """The `start` request."""

    HOSTILE = ("@RUN@", "@WORKER@", "--no-python", "@RUN@/torch", "$X")

    @pytest.mark.parametrize("kind", ["script", "module"])
    def test_stand_ins_are_replaced_in_our_words_alone(self, kind: Any) -> None:
        made = plan([node("a")], JobSpec(kind, "@WORKER@", self.HOSTILE))
        (process,) = processes(made, made.nodes[0])
        argv, own = process["argv"], process["expand"]
        assert argv[own - 2 : own] == ["/bin/sh", "@WORKER@"]
        # as whole words or before a slash: elsewhere the node does not look for them
        assert [word for word in argv[:own] if "@" in word] == ["@RUN@/torch", "@WORKER@"]
        assert argv[-len(self.HOSTILE) :] == list(self.HOSTILE)
        assert argv[own] == "/usr/bin/python3"

    def test_torchrun_is_one_process_without_a_rank(self) -> None:
        made = plan([node("a", nproc_per_node=4)])
        (process,) = processes(made, made.nodes[0])
        assert (process["local_rank"], process["env"]) == (None, {})

    def test_a_command_is_one_process_a_rank_with_its_place_in_the_world(self) -> None:
        made = plan([node("a", nproc_per_node=1), node("b", nproc_per_node=2)], EXEC)
        found = processes(made, made.nodes[1])
        assert [p["argv"] for p in found] == [["./run.sh", "x"]] * 2
        assert [p["expand"] for p in found] == [0, 0]
        assert [p["local_rank"] for p in found] == [0, 1]
        assert [p["env"]["RANK"] for p in found] == ["1", "2"]
        assert found[1]["env"] == {
            "RANK": "2",
            "LOCAL_RANK": "1",
            "WORLD_SIZE": "3",
            "LOCAL_WORLD_SIZE": "2",
            "NODE_RANK": "1",
            "GROUP_RANK": "1",
            "GROUP_WORLD_SIZE": "2",
            "MASTER_ADDR": "10.0.0.1",
            "MASTER_PORT": "29500",
        }


class TestShown:
    """The plan as `--dry-run` and `--json` show it."""

    def test_secrets_are_masked_and_origins_told(self) -> None:
        job = JobSpec("script", "t.py", env={"A": "seen", "B": "hidden"}, from_shell=frozenset({"B"}))
        made = plan([node("a", forward_env=("WANDB",))], job, forwarded={"WANDB": "hidden"})
        event = planned_event(made)
        environment = event.nodes[0]["environment"]
        assert environment["A"] == {"value": "seen", "from": "--env"}
        assert environment["B"] == {"value": "***", "from": "--env"}
        assert environment["WANDB"] == {"value": "***", "from": "forward_env"}
        assert "hidden" not in repr(event)

    def test_the_ranks_are_the_first_and_the_last(self) -> None:
        event = planned_event(plan([node("a", nproc_per_node=2), node("b", nproc_per_node=1)]))
        assert [n["ranks"] for n in event.nodes] == [[0, 1], [2, 2]]
