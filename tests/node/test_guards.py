"""GPU locks exclude each other and die with their holder; what a dead run left is found and ended, and nothing else."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ncclrun.node import gpuapps, gpulocks, leftovers, machine, prepare, processes
from ncclrun.node.gpulocks import Gpu, Locks
from ncclrun.node.refusal import Refusal
from tests.node.client import TOKEN, Client, Refused
from tests.node.conftest import again, kill_with_warden

TWO = [Gpu(0, f"GPU-a-{os.getpid()}"), Gpu(1, f"GPU-b-{os.getpid()}")]
SETSID = ["/bin/sh", "-c", "setsid sleep 1000 & sleep 1000"]
LONGEST_ID = "r" * 64


def asked(gpus: list[Gpu]) -> list[dict[str, Any]]:
    return [{"index": gpu.number, "uuid": gpu.uuid} for gpu in gpus]


def wait_until(true: Any) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def locks() -> Iterator[Locks]:
    held = Locks()
    yield held
    held.close()


class TestALock:
    def test_is_had_by_one_alone_who_is_named(self, locks: Locks) -> None:
        assert locks.take(TWO, LONGEST_ID) == []
        (holder,) = Locks().take(TWO[1:], "other")
        assert holder["seconds"] < 30
        assert {**holder, "seconds": 0} == {
            "gpus": [1],
            "run_id": LONGEST_ID,
            "uid": os.getuid(),
            "user": machine.user(),
            "own": True,
            "seconds": 0,
        }

    def test_a_name_has_room_for_the_longest_note(self, locks: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "uid", lambda: 4294967294)
        assert locks.take(TWO, LONGEST_ID) == []
        assert [holder["user"] for holder in gpulocks.holders(TWO)] == ["4294967294"]

    def test_all_are_taken_or_none(self, locks: Locks) -> None:
        assert locks.take(TWO[1:], "first") == []
        second = Locks()
        assert [holder["gpus"] for holder in second.take(TWO, "second")] == [[1]]
        assert second.descriptors == frozenset()
        third = Locks()
        assert third.take(TWO[:1], "third") == []
        third.close()

    def test_who_does_not_say_who_they_are_is_unknown(self, locks: Locks) -> None:
        locks._bind("\0ncclrun/" + gpulocks._key(TWO[0]))
        (holder,) = Locks().take(TWO, "second")
        assert (holder["gpus"], holder["run_id"], holder["user"], holder["own"]) == ([0], "", "", False)

    def test_it_goes_with_its_holder(self, locks: Locks) -> None:
        heard, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            Locks().take(TWO, "child")
            held = Locks()
            held.take([Gpu(9, "GPU-of-nobody")], "child")
            os.write(told, b"x")
            signal.pause()
        os.close(told)
        os.read(heard, 1)
        os.close(heard)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert locks.take([*TWO, Gpu(9, "GPU-of-nobody")], "next") == []


class TestTheRequest:
    def test_two_connections_exclude_each_other(self, node: Client, env: dict[str, str]) -> None:
        assert node.call("lock", run_id="one", node_rank=0, gpus=asked(TWO))["holders"] == []
        with again(env) as other:
            (holder,) = other.call("lock", run_id="two", node_rank=0, gpus=asked(TWO))["holders"]
            assert (holder["run_id"], holder["gpus"]) == ("one", [0, 1])
            node.hang_up()
            assert other.call("lock", run_id="two", node_rank=0, gpus=asked(TWO))["holders"] == []

    def test_what_is_discarded_is_free_again(self, node: Client, env: dict[str, str]) -> None:
        node.call("lock", run_id="one", node_rank=0, gpus=asked(TWO))
        node.prepare("one")
        node.call("discard", run_id="one", node_rank=0, token=TOKEN)
        with again(env) as other:
            assert other.call("lock", run_id="two", node_rank=0, gpus=asked(TWO))["holders"] == []

    def test_the_supervisor_has_them_for_its_life(self, node: Client, env: dict[str, str]) -> None:
        node.call("lock", run_id="one", node_rank=0, gpus=asked(TWO))
        node.launch("one", ["sleep", "1000"])
        node.hang_up()
        with again(env) as other:
            assert other.call("lock", run_id="two", node_rank=0, gpus=asked(TWO))["holders"][0]["run_id"] == "one"
            other.call("follow", run_id="one", node_rank=0, offsets={}, tail=None)
            other.call("stop", run_id="one", node_rank=0, how="kill", grace=1)
            other.end()
            wait_until(lambda: other.call("lock", run_id="two", node_rank=0, gpus=asked(TWO))["holders"] == [])

    @pytest.mark.parametrize("gpus", [None, [1], [{"index": 0}], [{"index": "0", "uuid": "GPU-1"}]])
    def test_its_form_is_checked(self, node: Client, gpus: Any) -> None:
        with pytest.raises(Refused, match="gpus must be") as refused:
            node.call("lock", run_id="one", node_rank=0, gpus=gpus)
        assert refused.value.code == "bad_request"


class TestLeftovers:
    def found(self, client: Client) -> list[dict[str, Any]]:
        return list(client.call("facts", python="")["leftovers"])

    def test_of_a_living_run_there_are_none(self, node: Client) -> None:
        node.launch("one", SETSID)
        assert self.found(node) == []
        node.call("stop", run_id="one", node_rank=0, how="kill", grace=1)
        node.end()

    def test_they_are_found_and_exactly_they_are_ended(self, node: Client, runs: Path) -> None:
        node.prepare("dead")
        supervisor = node.start("dead", SETSID)["pid"]
        node.launch("alive", ["sleep", "1000"])
        kill_with_warden(supervisor)
        (left,) = self.found(node)
        assert (left["run_id"], left["node_rank"]) == ("dead", 0)
        assert left["count"] == len(left["processes"]) >= 1
        assert "sleep 1000" in [one["command"] for one in left["processes"]]
        with pytest.raises(Refused) as refused:
            node.call("clear", run_id="alive", node_rank=0)
        assert refused.value.code == "supervised"
        assert node.call("clear", run_id="dead", node_rank=0)["alive"] == []
        assert self.found(node) == []
        (record,) = runs.glob("dead/*/exit.json")
        assert '"lost"' in record.read_text()
        node.call("stop", run_id="alive", node_rank=0, how="kill", grace=1)
        assert node.end()["reason"] == "stopped"

    def test_a_directory_that_is_nowhere_says_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "runs").mkdir()
        assert leftovers._part(tmp_path, "gone/0/some-token") is None
        assert leftovers._part(tmp_path, "../0/some-token") is None


class TestWhoUsesAGpu:
    def test_a_process_that_is_seen_is_described(self) -> None:
        name = processes.command_of(os.getpid()).split(" ", maxsplit=1)[0]
        told = gpuapps.describe({"pid": os.getpid(), "uuid": "GPU-1", "memory": 5, "name": name})
        assert told["user"] == machine.user()
        assert told["command"] == processes.command_of(os.getpid())
        assert 0 <= told["seconds"] < 86400 * 365

    @pytest.mark.parametrize("name", ["another-program", "[Not Found]", ""])
    def test_an_id_that_is_another_process_here_is_hidden(self, name: str) -> None:
        told = gpuapps.describe({"pid": os.getpid(), "uuid": "GPU-1", "memory": 5, "name": name})
        assert (told["user"], told["command"], told["seconds"]) == ("", "", None)

    def test_lines_of_another_shape_are_left_out(self) -> None:
        text = "12, GPU-1, 300, a, b\n13, GPU-1, [N/A], c\nNo running processes found\n\n"
        assert gpuapps.parse(text) == [
            {"pid": 12, "uuid": "GPU-1", "memory": 300, "name": "a, b"},
            {"pid": 13, "uuid": "GPU-1", "memory": None, "name": "c"},
        ]


class TestRoom:
    def test_a_disk_without_inodes_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = os.statvfs(tmp_path)
        few = os.statvfs_result((*real[:5], 1 << 20, 12, 12, *real[8:10]))
        monkeypatch.setattr(os, "statvfs", lambda path: few)
        with pytest.raises(Refusal, match="takes only 12 more files"):
            prepare._check_free(tmp_path)
