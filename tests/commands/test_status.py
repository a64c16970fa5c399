"""What runs where, from nodes by script: states on this machine's clock, unknown ones told as unknown."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ncclrun.commands.control import Control
from ncclrun.commands.elsewhere import find_one, find_runs
from ncclrun.commands.recorded import run_nodes
from ncclrun.commands.status import status_of_cluster, status_of_run
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import HostError, NcclrunError, UsageError
from ncclrun.model.events import Event
from ncclrun.model.runevents import GpuUse, LeftOnNode, RunOnNode
from ncclrun.transport.fake import FakeNode, FakeTransport
from tests.commands.inventories import CLUSTER, end_record, fake, make_record, part

Nodes = dict[str, FakeNode | HostError]
DEAD = HostError("timeout", "c: no answer in 10 s", fix="ssh c")


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def rows(events: list[Event]) -> dict[tuple[str, str], RunOnNode]:
    return {(event.run_id, event.node): event for event in events if isinstance(event, RunOnNode)}


def named(run_id: str, name: str, prepared_at: float) -> dict[str, Any]:
    """Node 0's word of an attempt of the run of that name."""
    entry = part(run_id, 0, prepared_at=prepared_at)
    return {**entry, "about": {**entry["about"], "name": name}}


def end(events: list[Event]) -> Ended:
    assert isinstance(events[-1], Ended)
    return events[-1]


class TestARun:
    def test_is_told_by_each_of_its_nodes_with_global_ranks(self) -> None:
        last = {"stream": "3.err", "time": time.time(), "text": "epoch 3"}
        gpus = [{"index": 0, "uuid": "GPU-1", "memory": 7}]
        nodes = {"a": fake(part("r", 0)), "b": fake(part("r", 1)), "c": fake(part("r", 2, last=last, gpus=gpus))}
        found = list(status_of_run(make_record("r"), FakeTransport(nodes), Control()))
        told = rows(found)
        assert [row.ranks for row in told.values()] == ["0-1", "2", "3-6"]
        assert (told["r", "c"].last, told["r", "c"].last_rank) == ("epoch 3", 6)
        assert told["r", "c"].gpus == (GpuUse(index=0, uuid="GPU-1", memory=7),)
        assert (end(found).exit_code, end(found).reason) == (0, "run r goes on")

    def test_that_has_ended_unseen_says_how_its_end_is_learnt(self) -> None:
        nodes: Nodes = {name: fake(part("r", rank, state="ended")) for rank, name in enumerate("abc")}
        reason = end(list(status_of_run(make_record("r"), FakeTransport(nodes), Control()))).reason
        assert reason.startswith("run r has ended; ncclrun attach r")

    def test_that_no_node_has_is_an_error_that_names_what_is_meant(self) -> None:
        nodes: Nodes = {"a": fake(part("train", 0)), "b": fake(), "c": fake()}
        with pytest.raises(UsageError, match="no run 'trains'") as refused:
            list(status_of_cluster(CLUSTER, FakeTransport(nodes), Control(), run_id="trains"))
        assert refused.value.fix == "did you mean train?"

    def test_that_a_restart_of_a_host_has_ended_does_not_go_on(self) -> None:
        nodes: Nodes = {name: fake(part("r", rank, state="ended")) for rank, name in enumerate("ab")}
        nodes["c"] = fake(part("r", 2, state="lost"))
        found = list(status_of_run(make_record("r"), FakeTransport(nodes), Control()))
        assert end(found).reason == "run r is lost on c"

    def test_of_a_node_that_is_not_reached_the_last_word_that_came_is_told(self) -> None:
        run = make_record("r")
        heard = run.logs / "rank4.out"
        heard.write_bytes(b"x\n")
        os.utime(heard, (time.time(), time.time() - 500))
        nodes: Nodes = {"a": fake(part("r", 0)), "b": fake(part("r", 1)), "c": DEAD}
        found = list(status_of_run(run, FakeTransport(nodes), Control()))
        row = rows(found)["r", "c"]
        assert (row.state, row.reason) == ("unknown", DEAD.message)
        assert row.since == pytest.approx(heard.stat().st_mtime)
        assert (end(found).exit_code, "c not reached" in end(found).reason) == (255, True)

    def test_a_clock_that_goes_wrong_does_not_move_its_start(self) -> None:
        ahead = fake(
            runs=lambda *_: {
                "runs": [part("r", 0, since=time.time() + 3600 - 60)],
                "left": [],
                "time": time.time() + 3600,
            }
        )
        found = list(status_of_run(make_record("r"), FakeTransport({"a": ahead, "b": fake(), "c": fake()}), Control()))
        since = rows(found)["r", "a"].since
        assert since is not None
        assert since == pytest.approx(time.time() - 60, abs=30)

    def test_whose_directory_is_gone_has_no_part_there(self) -> None:
        run = make_record("r")
        nothing = FakeTransport({"a": fake(), "b": fake(), "c": fake()})
        assert {row.state for row in rows(list(status_of_run(run, nothing, Control()))).values()} == {"gone"}
        end_record(run, 2, reason="failed")
        again = rows(list(status_of_run(run, nothing, Control())))["r", "a"]
        assert (again.state, again.reason) == ("gone", "failed; its directory there was removed")

    def test_a_failed_rank_is_named_by_its_global_number(self) -> None:
        failed = {"reason": "failed", "detail": "", "rank": {"rank": 1, "code": None, "signal": 9}}
        ended = part("r", 2, state="ended", reason="failed", ended_at=time.time(), exit=failed)
        found = list(
            status_of_run(make_record("r"), FakeTransport({"a": fake(), "b": fake(), "c": fake(ended)}), Control())
        )
        assert (rows(found)["r", "c"].exit, end(found).reason) == ("rank 4: signal 9", "run r has ended")


class TestACluster:
    def test_has_all_runs_of_its_nodes_the_newest_last(self) -> None:
        old, new = part("z-old", 0, prepared_at=time.time() - 900), part("a-new", 0)
        left = {"run_id": "q", "node_rank": 0, "alive": [{"pid": 7, "command": "python x", "state": "S"}]}
        found = list(
            status_of_cluster(
                CLUSTER, FakeTransport({"a": fake(new, old), "b": fake(left=(left,)), "c": fake()}), Control()
            )
        )
        assert [run_id for run_id, _ in rows(found)] == ["z-old", "a-new"]
        (other,) = [event for event in found if isinstance(event, LeftOnNode)]
        assert (other.run_id, other.node, other.processes) == ("q", "b", ("7 python x",))
        assert end(found).reason == "2 runs of yours on 3 nodes"

    def test_says_of_a_silent_host_that_nothing_is_known(self) -> None:
        found = list(status_of_cluster(CLUSTER, FakeTransport({"a": fake(), "b": fake(), "c": DEAD}), Control()))
        assert (rows(found)["", "c"].state, end(found).exit_code) == ("unknown", 255)

    @pytest.mark.parametrize("state", ["running", "ended"])
    def test_says_of_a_silent_host_since_when_the_others_do_not_hear_it(self, state: str) -> None:
        """By their clocks, of which one is an hour ahead."""
        now = time.time()
        entries = [part("r", 0, state=state, heard={"2": now - 90}), part("r", 1, state=state, heard={"2": now + 3540})]
        ahead = fake(runs=lambda *_: {"runs": entries[1:], "left": [], "time": time.time() + 3600})
        nodes: Nodes = {"a": fake(entries[0]), "b": ahead, "c": DEAD}
        found = rows(list(status_of_cluster(CLUSTER, FakeTransport(nodes), Control())))
        assert list(found) == [("r", "a"), ("r", "b"), ("r", "c")]
        row = found["r", "c"]
        assert (row.state, row.node_rank, row.ranks, row.program) == ("unknown", 2, "3-6", "train.py")
        assert row.since is not None
        assert row.since == pytest.approx(now - 60, abs=20)

    def test_of_a_run_that_goes_on_a_silent_host_is_unknown_whatever_the_others_know(self) -> None:
        nodes: Nodes = {"a": fake(part("r", 0)), "b": fake(part("r", 1)), "c": DEAD}
        row = rows(list(status_of_cluster(CLUSTER, FakeTransport(nodes), Control())))["r", "c"]
        assert (row.state, row.since) == ("unknown", None)

    def test_a_run_that_is_known_to_have_ended_on_a_silent_host_is_not_in_doubt(self) -> None:
        ended = {"state": "ended", "heard": {"2": None}}
        nodes: Nodes = {"a": fake(part("r", 0, **ended)), "b": fake(part("r", 1, state="ended")), "c": DEAD}
        found = rows(list(status_of_cluster(CLUSTER, FakeTransport(nodes), Control())))
        assert list(found) == [("r", "a"), ("r", "b"), ("", "c")]

    def test_a_node_that_talks_nonsense_is_not_known_either(self) -> None:
        mad = fake(runs={"runs": "many", "left": [], "time": 0.0})
        found = list(status_of_cluster(CLUSTER, FakeTransport({"a": mad, "b": fake(), "c": fake()}), Control()))
        assert (rows(found)["", "a"].state, end(found).exit_code) == ("unknown", 255)


class TestFromElsewhere:
    def test_a_run_is_found_with_a_record_that_a_controller_can_work_with(self) -> None:
        nodes = {"a": fake(part("r", 1)), "b": fake(part("r", 0)), "c": fake(part("r", 2))}
        run = find_one(CLUSTER, FakeTransport(nodes), Control(), None)
        assert (run.run_id, run.going, run.by, run.missing) == ("r", True, "anna@desk", ())
        assert (run.record["token"], run.record["world_size"], run.record["launcher"]) == ("secret", 7, "torchrun")
        made = make_record("copy")
        made.write("run.json", run.record)
        # In the order of the run, whatever the order of the file.
        assert [(n.node.name, n.node.host, n.first_rank, n.nproc) for n in run_nodes(made)] == [
            ("a", "b", 0, 2),
            ("b", "a", 2, 1),
            ("c", "c", 3, 4),
        ]
        assert [row["boot_id"] for row in run.record["nodes"]] == ["boot0", "boot1", "boot2"]

    def test_a_node_that_does_not_answer_is_known_by_the_others_word(self) -> None:
        nodes: Nodes = {"a": fake(part("r", 0)), "b": DEAD, "c": fake(part("r", 2))}
        run = find_one(CLUSTER, FakeTransport(nodes), Control(), "r")
        row = run.record["nodes"][1]
        assert (run.missing, row["node"]["host"], row["first_rank"], row["boot_id"]) == (("b",), "b", 2, "")

    def test_a_node_that_does_not_answer_is_sought_at_its_host_where_the_files_names_have_moved(self) -> None:
        a, b, c = CLUSTER.nodes
        moved = replace(CLUSTER, nodes=(replace(a, name="b"), replace(b, name="a"), c))
        nodes: Nodes = {"b": fake(part("r", 0)), "a": DEAD, "c": fake(part("r", 2))}
        run = find_one(moved, FakeTransport(nodes), Control(), "r")
        assert [row["node"]["host"] for row in run.record["nodes"]] == ["a", "b", "c"]

    def test_one_that_goes_on_comes_before_a_newer_one_that_has_ended(self) -> None:
        over = part("new", 0, state="ended", prepared_at=time.time())
        found = FakeTransport({"a": fake(over, part("going", 0)), "b": fake(), "c": fake()})
        assert [run.run_id for run in find_runs(CLUSTER, found, Control())] == ["new", "going"]
        assert find_one(CLUSTER, found, Control(), None).run_id == "going"
        with pytest.raises(UsageError, match="no run 'never'") as refused:
            find_one(CLUSTER, found, Control(), "never")
        assert refused.value.fix == "the last runs: going, new"

    def test_the_name_of_a_run_of_several_attempts_means_the_last_one(self) -> None:
        now = time.time()
        attempts = [named("r", "r", now - 9), named("r.2", "r", now - 5)]
        found = FakeTransport({"a": fake(*attempts, part("r2", 0, prepared_at=now)), "b": fake(), "c": fake()})
        meant = {name: find_one(CLUSTER, found, Control(), name).run_id for name in ("r", "r.1", "r.2")}
        assert meant == {"r": "r.2", "r.1": "r", "r.2": "r.2"}

    def test_a_name_that_looks_like_an_attempt_of_another_run_is_a_run_of_its_own(self) -> None:
        runs = [part("llama3", 0, prepared_at=1.0), part("llama3.1", 0, prepared_at=2.0)]
        found = FakeTransport({"a": fake(*runs), "b": fake(), "c": fake()})
        assert find_one(CLUSTER, found, Control(), "llama3").run_id == "llama3"
        with pytest.raises(UsageError, match=r"no run 'llama3\.1\.1'"):
            find_one(CLUSTER, found, Control(), "llama3.1.1")

    def test_where_no_node_answers_nothing_is_said_of_runs(self) -> None:
        with pytest.raises(NcclrunError, match=r"no node of lab\.yaml answers"):
            find_runs(CLUSTER, FakeTransport(dict.fromkeys("abc", DEAD)), Control())
