"""What a node says of the runs on it, asked through its own protocol."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ncclrun.node import gpus, inventory, processes
from ncclrun.node.rundir import RunDir
from tests.node.client import SECONDS, TOKEN, Client, Refused
from tests.node.conftest import again, kill_with_warden

WAIT = "import time; print('first'); print('epoch 3', flush=True); time.sleep(600)"
ABOUT = {"cluster": "lab", "program": "train.py", "first_rank": 4, "nodes": [{"name": "a", "host": "a", "nproc": 2}]}


def wait_for(node: Client, run_id: str, **fields: object) -> dict[str, Any]:
    """The run's entry once its fields are these."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for entry in node.call("runs", limit=9)["runs"]:
            if entry["run_id"] == run_id and all(entry[name] == value for name, value in fields.items()):
                return dict(entry)
    raise AssertionError(f"never {fields}: {node.call('runs', limit=9)}")


def stop(node: Client, run_id: str) -> None:
    node.call("stop", run_id=run_id, node_rank=0, how="kill", grace=1)
    wait_for(node, run_id, state="ended")


def workers(number: int) -> list[dict[str, Any]]:
    return [
        {"argv": [sys.executable, "-c", WAIT], "local_rank": at, "env": {"LOCAL_RANK": str(at)}} for at in range(number)
    ]


def test_a_host_without_runs_says_so(node: Client) -> None:
    assert node.call("runs", limit=5)["runs"] == []


def test_a_running_run_is_told_with_all_that_people_ask(node: Client) -> None:
    before = time.time() - 1
    node.prepare("r", nproc=2, by="anna@desk", about=ABOUT)
    node.start("r", processes=workers(2))
    with again(node_env(node)) as other:  # its controller need not be the one that asks
        entry = wait_for(other, "r", state="running", ranks_alive=2, alive=2)
        deadline = time.monotonic() + SECONDS
        while (entry["last"] or {}).get("text") != "epoch 3" and time.monotonic() < deadline:
            entry = wait_for(other, "r")
    assert entry["last"]["text"] == "epoch 3"
    assert entry["last"]["stream"] in ("0.out", "1.out")
    assert (entry["by"], entry["about"], entry["nproc"], entry["node_rank"]) == ("anna@desk", ABOUT, 2, 0)
    assert before < entry["prepared_at"] <= entry["since"] <= time.time()
    assert before < entry["started_at"] < time.time()
    assert entry["supervisor"] > 1
    assert entry["size"] > 0
    assert (entry["exit"], entry["ended_at"]) == (None, None)
    stop(node, "r")


def node_env(node: Client) -> dict[str, str]:
    """The environment of the client's own node part."""
    text = Path(f"/proc/{node.process.pid}/environ").read_bytes()
    return dict(item.split("=", 1) for item in text.decode().split("\0") if item)


def test_an_ended_run_is_told_with_how_its_first_rank_failed(node: Client) -> None:
    node.launch("r", [sys.executable, "-c", "print('so far'); raise SystemExit(7)"])
    assert node.end()["reason"] == "failed"
    (entry,) = node.call("runs", limit=5)["runs"]
    assert (entry["state"], entry["reason"], entry["alive"]) == ("ended", "failed", 0)
    assert entry["exit"]["rank"] == {"rank": 0, "code": 7, "signal": None}
    assert entry["since"] == entry["ended_at"] > entry["started_at"]
    assert entry["last"]["text"] == "so far"


def test_when_other_nodes_were_heard_last_is_told(node: Client, runs: Path) -> None:
    node.launch("r", ["sleep", "600"])
    (part,) = map(RunDir, runs.glob("r/0-*"))
    part.write_peers({1: 40.0, 2: None})
    heard = wait_for(node, "r")["heard"]
    assert heard == {"1": pytest.approx(time.time() - 40, abs=30), "2": None}
    stop(node, "r")


def test_of_the_ended_ones_the_newest_are_told_and_those_that_live_always(node: Client) -> None:
    for name in ("a", "b", "c"):
        node.launch(name, ["true"])
        node.end()
    node.prepare("z")
    told = {entry["run_id"]: entry["state"] for entry in node.call("runs", limit=1)["runs"]}
    assert told == {"c": "ended", "z": "prepared"}


def test_a_run_whose_supervisor_was_killed_is_lost_and_what_lives_of_it_is_counted(node: Client) -> None:
    node.prepare("r")
    answer = node.start("r", processes=workers(1))
    supervisor = processes.look(answer["pid"])
    assert supervisor is not None
    wait_for(node, "r", ranks_alive=1)
    stray = ["setsid", sys.executable, "-c", WAIT]  # what outlives the launcher's death
    node.prepare("s")
    kill_with_warden(node.start("s", processes=[{"argv": stray, "local_rank": 0, "env": {}}])["pid"])
    entry = wait_for(node, "s", state="lost")
    assert (entry["since"], entry["supervisor"], entry["reason"]) == (None, None, "its supervisor is gone")
    node.call("stop", run_id="s", node_rank=0, how="kill", grace=1)
    assert wait_for(node, "s", state="ended", alive=0)["reason"] == "lost"
    stop(node, "r")


def test_processes_of_a_run_whose_directory_is_gone_are_told_apart(node: Client, runs: Path) -> None:
    gone = f"gone-{os.getpid()}"  # other tests' runs live here too
    node.prepare(gone)
    pid = node.start(gone, processes=workers(1))["pid"]
    wait_for(node, gone, ranks_alive=1)
    shutil.rmtree(runs / gone)
    answer = node.call("runs", limit=5)
    assert answer["runs"] == []
    (left,) = [one for one in answer["left"] if one["run_id"] == gone]
    assert (left["node_rank"], [WAIT in one["command"] for one in left["alive"]]) == (0, [True])
    node.call("sweep", run_id=gone, token=TOKEN, kill=True)
    owner = processes.look(pid)
    if owner is not None:
        processes.send(owner, signal.SIGKILL)


def gpu_row(index: int, uuid: str) -> str:
    """A line of nvidia-smi, whatever is asked for."""
    said = {"index": str(index), "uuid": uuid}
    return ", ".join(said.get(name, "1") for name in gpus.QUERY.split(",")) + "\\n"


def test_gpus_are_those_that_processes_of_the_run_hold(node: Client, home: Path, env: dict[str, str]) -> None:
    smi = home / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    env["PATH"] = f"{smi.parent}:{env['PATH']}"
    with again(env) as seeing:
        node.prepare("r")
        node.start("r", processes=workers(1))
        entry = wait_for(seeing, "r", ranks_alive=1)
        assert entry["gpus"] is None
        pids = [pid for pid in processes.every() if processes.cookie_of(pid) == f"r/0/{TOKEN}"]
        apps = "".join(f"{pid}, GPU-b, 1024, python\n" for pid in pids) + "1, GPU-a, 77, other\n"
        smi.write_text(
            "#!/bin/sh\ncase $1 in\n"
            f"--query-compute-apps=*) printf '{apps}' ;;\n"
            f"*) printf '{gpu_row(0, 'GPU-a')}{gpu_row(1, 'GPU-b')}' ;;\nesac\n"
        )
        smi.chmod(0o755)
        assert wait_for(seeing, "r")["gpus"] == [{"index": 1, "uuid": "GPU-b", "memory": 1024}]
        stop(node, "r")


def test_where_process_ids_are_hidden_it_is_not_known_who_holds_a_gpu() -> None:
    app = {"pid": 7, "uuid": "GPU-a", "memory": None, "command": ""}
    assert inventory._gpus([app], {"GPU-a": 0}, {12}) is None
    assert inventory._gpus([{**app, "command": "python"}], {"GPU-a": 0}, {12}) == []
    assert inventory._gpus([app], {"GPU-a": 0}, {7}) == [{"index": 0, "uuid": "GPU-a", "memory": None}]


def test_what_cannot_be_read_keeps_nothing_else_from_being_told(node: Client, runs: Path) -> None:
    node.launch("good", ["true"])
    node.end()
    for name, text in (("torn", "{"), ("empty", ""), ("other", "[]")):
        node.prepare(name)
        (next((runs / name).iterdir()) / "run.json").write_text(text)
    assert [entry["run_id"] for entry in node.call("runs", limit=5)["runs"]] == ["good"]


def test_a_record_lets_another_controller_take_a_run_over(node: Client) -> None:
    node.prepare("r", by="anna@desk", about=ABOUT)
    record = node.call("run_record", run_id="r", node_rank=0)["record"]
    assert (record["token"], record["about"], record["nproc"]) == (TOKEN, ABOUT, 1)
    with pytest.raises(Refused) as refused:
        node.call("run_record", run_id="r", node_rank=1)
    assert refused.value.code == "unknown_run"


@pytest.mark.parametrize("about", [7, "x", {"a": "x" * (300 << 10)}])
def test_what_is_left_about_a_run_has_a_form_and_a_limit(node: Client, about: object) -> None:
    with pytest.raises(Refused) as refused:
        node.prepare("r", about=about)
    assert refused.value.code == "bad_request"


def test_arguments_and_environment_are_in_no_answer(node: Client) -> None:
    node.prepare("r")
    node.start("r", [sys.executable, "-c", WAIT, "hunter2"], env={"KEY": "hunter3"})
    wait_for(node, "r", state="running", alive=1)
    assert "hunter" not in json.dumps(node.call("runs", limit=5))
    stop(node, "r")
