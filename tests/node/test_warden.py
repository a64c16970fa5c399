"""The warden: when its supervisor was killed it ends and records the run, though nobody comes by."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ncclrun.node import processes
from tests.node.client import MARK, SECONDS, Client, Refused, connected
from tests.node.conftest import again, kill_with_warden
from tests.node.test_stopping import ESCAPES, pids_of, supervisor_of, until_alive

DEAF = ["sh", "-c", f"trap '' TERM; echo ready; while :; do sleep {MARK}; done"]


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lives(pid: int) -> bool:
    process = processes.look(pid)
    return process is not None and not process.ended


def end(runs: Path) -> dict[str, Any]:
    """The record that appears by itself."""
    (part,) = runs.glob("r/*")
    until((part / "exit.json").exists)
    record: dict[str, Any] = json.loads((part / "exit.json").read_text())
    return record


@pytest.fixture
def abandoned(node: Client, runs: Path) -> Iterator[processes.Process]:
    """The supervisor of a run whose worker is deaf to SIGTERM, and whose controller has gone."""
    node.launch("r", DEAF)
    node.event("log", stream="0.out")
    node.hang_up()
    yield supervisor_of(runs)
    for pid in pids_of(MARK):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("escape", ESCAPES)
def test_a_killed_supervisor_leaves_nothing_though_nobody_comes(node: Client, runs: Path, escape: str) -> None:
    node.launch("r", ["sh", "-c", f"echo words >&2; sleep {MARK}"], ESCAPES[escape])
    until_alive(MARK, 2 if escape == "stopped" else 3)
    node.event("log", stream="0.err")
    node.hang_up()
    supervisor = supervisor_of(runs)
    os.kill(supervisor.pid, signal.SIGKILL)
    record = end(runs)
    assert (record["reason"], record["survivors"]) == ("lost", [])
    assert record["detail"] == "the supervisor was killed by signal 9 (Killed)"
    assert record["ranks"][0]["tail"] == "words\n"
    assert pids_of(MARK) == []
    until(lambda: not lives(supervisor.ppid))


def test_it_does_so_on_every_python(every_python: str, env: dict[str, str], runs: Path) -> None:
    with connected(every_python, env) as node:
        node.launch("r", ESCAPES["deaf orphan"])
        until_alive(MARK, 2)
    os.kill(supervisor_of(runs).pid, signal.SIGSEGV)
    assert end(runs)["detail"] == "the supervisor was killed by signal 11 (Segmentation fault)"
    assert pids_of(MARK) == []


def test_only_sigkill_ends_it_and_it_holds_nothing_open(abandoned: processes.Process, runs: Path) -> None:
    warden = abandoned.ppid
    assert {str(fd.readlink()) for fd in Path(f"/proc/{warden}/fd").iterdir()} == {"/dev/null"}
    assert Path(f"/proc/{warden}/cwd").readlink() == Path("/")
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGTSTP):
        os.kill(warden, number)
    os.kill(abandoned.pid, signal.SIGKILL)
    assert end(runs)["reason"] == "lost"
    assert pids_of(MARK) == []


def test_it_ends_with_a_run_that_ends_well(node: Client, runs: Path) -> None:
    node.launch("r", ["sleep", MARK])
    warden = supervisor_of(runs).ppid
    node.call("stop", run_id="r", node_rank=0, how="term", grace=5)
    assert node.end()["reason"] == "stopped"
    until(lambda: not lives(warden))
    (part,) = runs.glob("r/*")
    assert (part / "supervisor.log").read_text() == ""


def test_without_it_a_run_goes_on_and_is_stopped_as_ever(
    abandoned: processes.Process, env: dict[str, str], runs: Path
) -> None:
    os.kill(abandoned.ppid, signal.SIGKILL)
    until(lambda: supervisor_of(runs).ppid != abandoned.ppid)
    with again(env) as second:
        assert second.call("stop", run_id="r", node_rank=0, how="kill", grace=0)["asked"]
    assert end(runs)["reason"] == "stopped"


def test_what_both_leave_when_killed_is_cleared_by_the_next_controller(
    abandoned: processes.Process, env: dict[str, str]
) -> None:
    kill_with_warden(abandoned.pid)
    with again(env) as second:
        second.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
        assert second.end()["detail"] == "the supervisor was killed"
    assert pids_of(MARK) == []


def test_a_run_whose_directory_is_gone_is_ended_all_the_same(abandoned: processes.Process, runs: Path) -> None:
    shutil.rmtree(runs)
    os.kill(abandoned.pid, signal.SIGKILL)
    until(lambda: not pids_of(MARK))
    until(lambda: not lives(abandoned.ppid))


def test_an_end_that_can_not_be_written_is_complained_of(abandoned: processes.Process, runs: Path) -> None:
    (part,) = runs.glob("r/*")
    (part / "exit.json").mkdir()
    os.kill(abandoned.pid, signal.SIGKILL)
    until(lambda: "IsADirectoryError" in (part / "supervisor.log").read_text())
    assert pids_of(MARK) == []


def test_a_supervisor_that_breaks_is_told_with_the_place_that_says_why(node: Client, runs: Path) -> None:
    node.prepare("r")
    (part,) = runs.glob("r/*")
    shutil.rmtree(part / "logs")
    with pytest.raises(Refused) as refused:
        node.start("r", ["sleep", MARK])
    assert "FileNotFoundError" in refused.value.message
    assert end(runs)["detail"] == f"the supervisor gave up (exit code 70); why may stand in {part}/supervisor.log"
    assert pids_of(MARK) == []
