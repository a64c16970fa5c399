"""Runs of direct workers: what reaches them, how they end, and what is said about it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from ncclrun.node import processes, rundir, wire
from tests.node.client import SECONDS, TOKEN, Client, Refused
from tests.node.conftest import again

NASTY = ["", " ", "a b", "$(id)", "`id`", '"', "'", "\n", "a\nb", "\\", "*", "-n", "é", "\udcff\udce9", "@RUN@/x"]
SHOW = "import json,os,sys; print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]))"


def shown(node: Client, **more: object) -> tuple[list[str], dict[str, str], str]:
    node.launch("r", [sys.executable, "-c", SHOW, *NASTY], **more)
    assert node.end()["reason"] == "finished"
    argv, environment, cwd = json.loads(node.logs()["0.out"])
    return argv, environment, cwd


def test_arguments_arrive_byte_for_byte(node: Client) -> None:
    assert shown(node)[0] == NASTY


def test_values_arrive_byte_for_byte_and_what_is_unset_is_gone(node: Client) -> None:
    values = {f"V{index}": value for index, value in enumerate(NASTY)}
    environment = shown(node, env=values, unset=["USER", "NEVER_THERE"])[1]
    assert {name: environment[name] for name in values} == values
    assert "USER" not in environment
    assert environment["NCCLRUN_COOKIE"] == f"r/0/{TOKEN}"
    assert (environment["NCCLRUN_RUN_ID"], environment["NCCLRUN_NODE_RANK"]) == ("r", "0")


def test_the_name_of_a_run_of_several_attempts_is_what_its_workers_are_told(node: Client) -> None:
    environment = shown(node, env={"NCCLRUN_RUN_ID": "name"})[1]
    assert (environment["NCCLRUN_RUN_ID"], environment["NCCLRUN_COOKIE"]) == ("name", f"r/0/{TOKEN}")


def test_a_directory_for_checkpoints_is_made_and_named_to_the_workers(node: Client, home: Path) -> None:
    node.prepare("r", checkpoint_dir="~/new/dir")
    node.start("r", [sys.executable, "-c", SHOW], env={"NCCLRUN_CHECKPOINT_DIR": "~/new/dir"})
    node.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
    assert node.end()["reason"] == "finished"
    assert json.loads(node.logs()["0.out"])[1]["NCCLRUN_CHECKPOINT_DIR"] == str(home / "new/dir")
    assert (home / "new/dir").is_dir()


def test_the_environment_is_in_no_file(node: Client, runs: Path) -> None:
    shown(node, env={"SECRET": "hunter2-in-no-file"})
    files = [path for path in runs.rglob("*") if path.is_file() and path.name != "0.out.log"]
    assert len(files) > 5
    assert not [path for path in files if b"hunter2" in path.read_bytes()]


def test_without_workdir_and_code_it_runs_in_the_home(node: Client, home: Path) -> None:
    assert shown(node)[2] == str(home)


@pytest.mark.parametrize("bad", [{"env": {"A=B": ""}}, {"env": {"": ""}}, {"env": {"A": "\0"}}, {"unset": "A"}])
def test_a_variable_that_cannot_be_is_refused(node: Client, bad: dict[str, object]) -> None:
    node.prepare("r")
    with pytest.raises(Refused) as refused:
        node.start("r", ["true"], **bad)
    assert refused.value.code == "bad_request"


@pytest.mark.parametrize(
    ("command", "code", "number"),
    [("exit 0", 0, None), ("exit 7", 7, None), ("kill -9 $$", None, 9), ("kill -SEGV $$", None, 11)],
)
def test_the_end_is_told_as_it_was(node: Client, command: str, code: int | None, number: int | None) -> None:
    node.launch("r", ["sh", "-c", f"echo last words >&2; {command}"])
    record = node.end()
    assert record["reason"] == ("finished" if code == 0 else "failed")
    (rank,) = record["ranks"]
    assert (rank["code"], rank["signal"], rank["stopped"]) == (code, number, False)
    assert rank["tail"] == "last words\n"
    assert record["launcher"] is None
    assert record["survivors"] == []


def test_an_end_that_no_frame_could_carry_is_told_in_short(tmp_path: Path) -> None:
    run = rundir.RunDir(tmp_path)
    run.write_end({"error": "x" * wire.MAX_HEADER}, {"error": None})
    assert run.end() == {"error": None}


@pytest.mark.parametrize("damage", [b"", b'{"reas', b"\0\xff", b"[]"])
def test_a_damaged_end_is_an_end_of_which_nothing_is_known(node: Client, runs: Path, damage: bytes) -> None:
    node.launch("r", ["sh", "-c", "echo hello; exit 3"])
    node.end()
    (end,) = runs.glob("r/*/exit.json")
    end.write_bytes(damage)
    node.events.clear()
    node.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
    record = node.end()
    assert (record["reason"], record["detail"]) == ("lost", f"{end} is damaged")
    assert node.logs()["0.out"] == b"hello\n"


def test_a_damaged_state_costs_neither_the_run_nor_the_stop(node: Client, runs: Path) -> None:
    node.launch("r", ["sleep", "1000"])
    (state,) = runs.glob("r/*/state.json")
    state.write_bytes(b"\xff")
    node.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
    (entry,) = node.call("runs", limit=9)["runs"]
    assert (entry["state"], entry["alive"] > 0) == ("starting", True)
    assert node.call("stop", run_id="r", node_rank=0, how="term", grace=5.0)["asked"] is True
    assert node.end()["reason"] == "stopped"


def test_a_failure_stops_the_others_and_is_the_only_one_not_stopped(node: Client) -> None:
    node.launch("r", ["sleep", "1000"], ["sh", "-c", "sleep 0.2; exit 3"], ["sleep", "1000"])
    ranks = node.end()["ranks"]
    assert [(rank["code"], rank["signal"], rank["stopped"]) for rank in ranks] == [
        (None, 15, True),
        (3, None, False),
        (None, 15, True),
    ]


def test_a_rank_that_ends_well_early_stops_nobody(node: Client) -> None:
    node.launch("r", ["true"], ["sh", "-c", "sleep 0.5; echo done"])
    assert node.end()["reason"] == "finished"
    assert node.logs()["1.out"] == b"done\n"


@pytest.mark.parametrize(
    ("argv", "words"),
    [(["/no/such/program"], "No such file"), (["no-such-program"], "No such file"), (["/etc/passwd"], "Permission")],
)
def test_a_program_that_cannot_be_executed_is_refused_and_ends_the_run(
    node: Client, argv: list[str], words: str
) -> None:
    node.prepare("r", nproc=2)
    with pytest.raises(Refused) as refused:
        node.start("r", ["sleep", "1000"], argv)
    assert refused.value.code == "exec_failed"
    assert words in refused.value.message
    node.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
    record = node.end()
    assert record["reason"] == "failed"
    assert [rank["signal"] for rank in record["ranks"]] == [9]


def test_a_run_starts_once_and_only_with_its_token(node: Client) -> None:
    node.prepare("r")
    with pytest.raises(Refused) as refused:
        node.start("r", ["true"], token="some-other-token")
    assert refused.value.code == "wrong_token"
    node.start("r", ["true"])
    with pytest.raises(Refused) as refused:
        node.start("r", ["true"])
    assert refused.value.code == "started"


def test_the_training_outlives_the_channel(node: Client, env: dict[str, str]) -> None:
    node.launch("r", ["sh", "-c", "echo a; sleep 1; echo b; exit 5"])
    node.event("log", stream="0.out")
    assert node.hang_up() == 0
    with again(env) as second:
        second.call("follow", run_id="r", node_rank=0, offsets={"0.out": 2}, tail=None)
        assert second.end()["ranks"][0]["code"] == 5
        assert second.logs()["0.out"] == b"b\n"


def test_workers_find_signals_umask_and_session_as_a_shell_would_give_them(node: Client) -> None:
    program = (
        "import os,signal,sys; m=os.umask(0); s=open('/proc/self/status').read();"
        "print(m==int(sys.argv[1]), os.getsid(0)==os.getpid(), sorted(os.listdir('/proc/self/fd'))[:3],"
        " int(s.split('SigBlk:')[1].split()[0],16), int(s.split('SigIgn:')[1].split()[0],16) & (1<<0|1<<1|1<<14))"
    )
    umask = os.umask(0o022)
    os.umask(umask)
    node.launch("r", [sys.executable, "-c", program, str(umask)])
    node.end()
    assert node.logs()["0.out"].decode().strip() == "True True ['0', '1', '2'] 0 0"


def test_a_worker_that_kills_its_group_leaves_the_supervisor_alive(node: Client) -> None:
    node.launch("r", ["sh", "-c", "kill -9 0"])
    record = node.end()
    assert (record["reason"], record["ranks"][0]["signal"]) == ("failed", 9)


ORPHANS = """
import os, time
for _ in range(50):
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(0.1)
        os._exit(0)
    os.wait()
print("forked", flush=True)
time.sleep(1000)
"""


def test_zombies_of_the_run_do_not_pile_up(node: Client) -> None:
    node.prepare("r")
    supervisor = node.start("r", [sys.executable, "-c", ORPHANS])["pid"]
    node.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
    node.event("log", stream="0.out")
    deadline = time.monotonic() + SECONDS
    while len([process for process in processes.every().values() if process.ppid == supervisor]) > 1:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    node.call("stop", run_id="r", node_rank=0, how="kill", grace=0)
    node.end()


def test_an_end_that_is_written_at_the_moment_of_a_look_is_not_damaged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def look(path: Path) -> bytes:
        path.write_text('{"reason": "finished"}')
        raise FileNotFoundError(str(path))

    monkeypatch.setattr(Path, "read_bytes", look)
    run = rundir.RunDir(tmp_path)
    assert run.end() is None
    monkeypatch.undo()
    assert run.end() == {"reason": "finished"}


def test_an_order_that_is_none_is_left_alone_and_a_long_reason_is_cut(node: Client, runs: Path) -> None:
    node.launch("r", ["sleep", "1000"])
    (control,) = runs.glob("r/*/control")
    with control.open("wb", buffering=0) as fifo:
        fifo.write(b"\xff{no\n[1]\n")
    node.call("stop", run_id="r", node_rank=0, how="kill", grace=0, reason="\U0001f525" * 5000)
    end = node.end()
    assert (end["reason"], end["stop"]["reason"]) == ("stopped", "\U0001f525" * 300)
    assert (control.parent / "supervisor.log").read_text().count("not an order") == 2


def test_a_channel_that_goes_before_it_heard_of_the_start_ends_no_run(node: Client) -> None:
    node.prepare("r")
    pid = node.start("r", ["sleep", "1000"])["pid"]
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn:")]
    # The answer to `start` may meet a closed pipe: an error of that write, and no end of the supervisor.
    assert int(line.split()[1], 16) >> (signal.SIGPIPE - 1) & 1
    node.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
    node.call("stop", run_id="r", node_rank=0, how="kill", grace=0)
    assert node.end()["reason"] == "stopped"


class TestAConfFileOfTheRun:
    CONF = "# ncclrun\nNCCL_SOCKET_IFNAME=eth\udcff1\n"

    def test_it_lies_in_the_run_directory_and_the_workers_are_told_where(self, node: Client) -> None:
        prepared = node.prepare("r", conf=self.CONF)
        show = "import os; path = os.environ['NCCL_CONF_FILE']; print(path, ascii(open(path, 'rb').read()))"
        node.start("r", [sys.executable, "-c", show], run_paths={"NCCL_CONF_FILE": "nccl.conf"})
        node.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
        assert node.end()["reason"] == "finished"
        path, data = node.logs()["0.out"].decode().strip().split(" ", 1)
        assert path == prepared["dir"] + "/nccl.conf"
        assert data == ascii(b"# ncclrun\nNCCL_SOCKET_IFNAME=eth\xff1\n")
        assert Path(path).stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("name", ["none", "../0.x", "logs", "/etc/passwd"])
    def test_no_other_file_is_named(self, node: Client, name: str) -> None:
        node.prepare("r", conf=self.CONF)
        with pytest.raises(Refused) as refused:
            node.start("r", ["true"], run_paths={"NCCL_CONF_FILE": name})
        assert refused.value.code == "bad_request"
        node.call("discard", run_id="r", node_rank=0, token=TOKEN)
