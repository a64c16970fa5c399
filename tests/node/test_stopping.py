"""Stopping: whatever a worker does to escape, nothing of the run lives after it, and nothing else dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ncclrun.node import processes
from tests.node.client import MARK, OTHER, SECONDS, TOKEN, Client, Refused

IGNORE = "trap '' TERM; echo ready; while :; do sleep 1000; done"


def supervisor_of(runs: Path) -> processes.Process:
    (state,) = runs.glob("r/*/state.json")
    process = processes.look(int(json.loads(state.read_text())["supervisor"]["pid"]))
    assert process is not None
    return process


def pids_of(mark: str) -> list[int]:
    """Living processes with this word on their command line (environment and session may be gone)."""
    found = [p for p in processes.every().values() if not p.ended and mark in processes.command_of(p.pid)]
    return [process.pid for process in found if process.pid != os.getpid()]


def until_alive(mark: str, count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while len(pids_of(mark)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def stop(node: Client, how: str = "term", grace: float = 5.0, run_id: str = "r") -> bool:
    return bool(node.call("stop", run_id=run_id, node_rank=0, how=how, grace=grace)["asked"])


def test_a_stop_is_no_failure(node: Client) -> None:
    node.launch("r", ["sleep", "1000"], ["sh", "-c", "trap 'exit 4' TERM; echo ready; while :; do sleep 0.05; done"])
    node.event("log", stream="1.out")
    assert stop(node)
    record = node.end()
    assert record["reason"] == "stopped"
    assert [(rank["code"], rank["signal"], rank["stopped"]) for rank in record["ranks"]] == [
        (None, 15, True),
        (4, None, True),
    ]
    assert record["stop"]["how"] == "term"
    assert not stop(node), "there is nobody to ask any more"


def test_a_stop_for_a_node_that_the_others_do_not_hear_is_told_as_that(node: Client) -> None:
    node.launch("r", ["sleep", "1000"])
    with pytest.raises(Refused) as refused:
        node.call("stop", run_id="r", node_rank=0, how="term", grace=5, lost="2")
    assert refused.value.code == "bad_request"
    node.call("stop", run_id="r", node_rank=0, how="term", grace=5, reason="the data link is cut", lost=2)
    stopped = node.end()["stop"]
    assert (stopped["reason"], stopped["origin"], stopped["lost"]) == ("the data link is cut", 2, True)


def test_a_supervisor_that_a_signal_halts_is_told_to_be(node: Client, runs: Path) -> None:
    node.launch("r", ["sleep", "1000"])
    supervisor = supervisor_of(runs).pid
    os.kill(supervisor, signal.SIGSTOP)
    node.event("state", halted=True)
    os.kill(supervisor, signal.SIGCONT)
    node.event("state", halted=False)
    assert stop(node)
    node.end()


def test_a_worker_that_ignores_sigterm_is_killed_after_the_grace(node: Client) -> None:
    node.launch("r", ["sh", "-c", IGNORE])
    node.event("log", stream="0.out")
    assert stop(node, grace=0.3)
    assert node.end()["ranks"][0]["signal"] == 9


def test_a_kill_does_not_wait_for_the_grace_of_an_earlier_stop(node: Client) -> None:
    node.launch("r", ["sh", "-c", IGNORE])
    node.event("log", stream="0.out")
    stop(node, grace=3000)
    node.event("state", state="stopping")
    stop(node, "kill")
    record = node.end()
    assert (record["ranks"][0]["signal"], record["stop"]["how"]) == (9, "kill")


def test_a_second_stop_may_shorten_the_grace_and_repeats_no_sigterm(node: Client) -> None:
    counting = (
        "import signal,time\nsignal.signal(15, lambda *_: print('TERM', flush=True))\nprint('ready', flush=True)\n"
    )
    node.launch("r", [sys.executable, "-c", counting + "while True: time.sleep(1000)"])
    node.event("log", stream="0.out")
    stop(node, grace=3000)
    node.event("log", stream="0.out")
    stop(node, grace=0.3)
    node.end()
    assert b"TERM" not in node.logs().get("0.out", b"")


ESCAPES = {
    "stopped": ["sh", "-c", f"kill -STOP $$; exec sleep {MARK}"],
    "own session": ["sh", "-c", f"setsid sleep {MARK} & exec sleep {MARK}"],
    "double fork": ["sh", "-c", f"(setsid sleep {MARK} &) ; sleep {MARK}"],
    "clean environment": ["sh", "-c", f"(setsid env -i sleep {MARK} &) ; exec env -i sleep {MARK}"],
    "deaf orphan": ["sh", "-c", f"(trap '' TERM; setsid sh -c 'sleep {MARK}; sleep {OTHER}' &); exec sleep {MARK}"],
    "closed pipes": ["sh", "-c", f"setsid sleep {MARK} >/dev/null 2>&1 </dev/null & exec sleep {MARK}"],
}


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("how", ["term", "kill"])
def test_nothing_escapes(node: Client, escape: str, how: str) -> None:
    node.launch("r", ESCAPES[escape])
    until_alive(MARK, 1 if escape == "stopped" else 2)
    stop(node, how, grace=1.0)
    record = node.end()
    assert record["survivors"] == []
    assert pids_of(MARK) == []


def test_what_a_finished_worker_leaves_is_ended(node: Client) -> None:
    node.launch("r", ["sh", "-c", f"(setsid env -i sleep {MARK} &); exit 0"])
    assert node.end()["reason"] == "finished"
    assert pids_of(MARK) == []


def test_others_live_on(node: Client, env: dict[str, str]) -> None:
    cookies = [f"r2/0/{TOKEN}", "r/0/another-token", f"r/1/{TOKEN}"]
    others = [subprocess.Popen(["sleep", MARK], env={"NCCLRUN_COOKIE": cookie}) for cookie in cookies]
    try:
        node.launch("r", ["sleep", MARK])
        stop(node, "kill")
        node.end()
        assert [other.poll() for other in others] == [None, None, None]
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_a_sweep_finds_by_cookie_alone_and_kills_when_asked(node: Client) -> None:
    lost = subprocess.Popen(["sleep", MARK], env={"NCCLRUN_COOKIE": f"gone/3/{TOKEN}"}, start_new_session=True)
    try:
        (found,) = node.call("sweep", run_id="gone", token=TOKEN, kill=False)["alive"]
        assert (found["pid"], found["command"]) == (lost.pid, f"sleep {MARK}")
        assert node.call("sweep", run_id="gone", token="another-token", kill=True)["alive"] == []
        assert lost.poll() is None
        assert node.call("sweep", run_id="gone", token=None, kill=True)["alive"] == []
        assert lost.wait(SECONDS) == -9
    finally:
        lost.kill()
        lost.wait()


@pytest.mark.parametrize("escape", ["own session", "double fork", "closed pipes"])
def test_a_killed_supervisor_is_noticed_and_its_run_swept(node: Client, runs: Path, escape: str) -> None:
    node.launch("r", ["sh", "-c", f"echo words >&2; sleep {OTHER}"], ESCAPES[escape])
    until_alive(MARK, 2)
    os.kill(supervisor_of(runs).pid, signal.SIGKILL)
    record = node.end()
    assert (record["reason"], record["survivors"]) == ("lost", [])
    assert record["ranks"][0]["tail"] == "words\n"
    assert pids_of(MARK) + pids_of(OTHER) == []


def test_a_restarted_machine_is_told_apart(node: Client, runs: Path) -> None:
    node.launch("r", ["true"])
    node.end()
    (part,) = runs.glob("r/*")
    text = (part / "run.json").read_text()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (part / "run.json").write_text(text.replace(boot, "another-boot"))
    (part / "exit.json").unlink()
    part.rename(part.with_name("0-beforeitwent"))
    node.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
    record = node.end()
    assert (record["reason"], record["detail"]) == ("lost", "the machine was restarted")


def test_a_process_is_known_by_its_start_not_by_its_number() -> None:
    child = subprocess.Popen(["sleep", "1000"])
    try:
        process = processes.look(child.pid)
        assert process is not None
        assert not processes.send(process._replace(start=process.start + 1), signal.SIGKILL)
        assert child.poll() is None
        assert processes.send(process, signal.SIGKILL)
        assert child.wait(SECONDS) == -9
        assert not processes.send(process, signal.SIGKILL)
    finally:
        child.kill()
        child.wait()


def test_a_supervisor_that_somebody_stopped_hears_of_the_stop(node: Client, runs: Path) -> None:
    node.launch("r", ["sleep", "1000"])
    os.kill(supervisor_of(runs).pid, signal.SIGSTOP)
    assert node.call("stop", run_id="r", node_rank=0, how="term", grace=5)["asked"]
    assert node.end()["reason"] == "stopped"
