"""Real torchrun with workers that need no group: each worker's own end, seen before torchrun hides it."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ncclrun.node import kernel, processes, ranks
from tests.node.client import Client

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(find_spec("torch") is None, reason="needs torch, to be installed in this environment"),
]

WAIT = "time.sleep(1000)"
ENDS = [
    pytest.param("sys.exit(7)", 7, None, id="exit 7"),
    pytest.param("os.kill(os.getpid(), 9)", None, 9, id="SIGKILL"),
    pytest.param("os.kill(os.getpid(), 11)", None, 11, id="SIGSEGV"),
    pytest.param("raise ValueError('no such luck')", 1, None, id="exception"),
]


def launch(node: Client, program: str, nproc: int = 2, restarts: int = 0, **more: Any) -> dict[str, Any]:
    """A run of torchrun whose workers are `program`; ``rank`` is a variable there."""
    prepared = node.prepare("r", launcher="torchrun", nproc=nproc, python=sys.executable)
    head = "import os, sys, time\nrank = int(os.environ['RANK'])\n"
    (Path(prepared["cwd"]) / "train.py").write_text(head + program)
    own = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={nproc}", "--rdzv-id=r"]
    # It looks at its workers this often: the time that the supervisor has to read a status before it is gone.
    own += [
        f"--max-restarts={restarts}",
        "--monitor-interval=1",
        "--log-dir",
        "@RUN@/torch",
        "--no-python",
        "/bin/sh",
        "@WORKER@",
    ]
    argv = [*own, sys.executable, "-u", "train.py", "@RUN@/stays", "two words"]
    process: dict[str, Any] = {"argv": argv, "local_rank": None, "env": {}, "expand": len(own)}
    node.start("r", processes=[process], env={"OMP_NUM_THREADS": "1"}, grace=30.0, restarts=restarts, **more)
    node.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
    return prepared


def test_all_is_well(node: Client) -> None:
    launch(node, "print('rank', rank, sys.argv[1:]); print('err', rank, file=sys.stderr)")
    record = node.end()
    assert record["reason"] == "finished", record["launcher_tail"]
    assert record["launcher"]["code"] == 0
    assert [(rank["local_rank"], rank["code"], rank["signal"]) for rank in record["ranks"]] == [
        (0, 0, None),
        (1, 0, None),
    ]
    logs = node.logs()
    for rank in (0, 1):
        assert logs[f"{rank}.out"].decode() == f"rank {rank} ['@RUN@/stays', 'two words']\n"
        assert logs[f"{rank}.err"].decode() == f"err {rank}\n"


@pytest.mark.parametrize(("how", "code", "number"), ENDS)
def test_the_worker_that_failed_is_known_with_its_own_end(node: Client, how: str, code: int, number: int) -> None:
    launch(node, f"if rank == 1: {how}\n{WAIT}")
    record = node.end()
    assert record["reason"] == "failed"
    assert len(record["ranks"]) == 2, record["launcher_tail"]
    first, second = record["ranks"]
    assert (second["code"], second["signal"], second["stopped"]) == (code, number, False)
    assert first["stopped"]
    assert not record["launcher"]["terminated"]
    # torchrun waits for this one in the kernel, so that it may be faster than we are.
    assert (first["code"], first["signal"]) in ((None, signal.SIGTERM), (None, None))
    assert second["ended_at"] < first["ended_at"]
    if code == 1:
        assert second["tail"].rstrip().endswith("ValueError: no such luck")


def test_an_exception_under_record_leaves_torchs_error_file(node: Client) -> None:
    program = (
        "from torch.distributed.elastic.multiprocessing.errors import record\n"
        "@record\ndef main(): raise KeyError('recorded')\nmain()\n"
    )
    launch(node, program, nproc=1)
    (rank,) = node.end()["ranks"]
    assert "recorded" in json.loads(rank["error"])["message"]["message"]


def test_a_stop_reaches_the_workers_through_torchrun(node: Client) -> None:
    launch(node, f"print('ready')\n{WAIT}")
    node.event("log", stream="1.out")
    node.event("log", stream="0.out")
    node.call("stop", run_id="r", node_rank=0, how="term", grace=30)
    record = node.end()
    assert (record["reason"], record["survivors"]) == ("stopped", [])
    assert [rank["stopped"] for rank in record["ranks"]] == [True, True]
    assert {rank["signal"] for rank in record["ranks"]} <= {15, None}
    assert record["launcher"]["terminated"]


def test_no_worker_survives_its_torchrun(node: Client) -> None:
    launch(node, f"import signal; signal.signal(15, signal.SIG_IGN); print('ready', os.getppid())\n{WAIT}")
    node.event("log", stream="1.out")
    _, body = node.event("log", stream="0.out")
    os.kill(int(body.split()[1]), signal.SIGKILL)
    record = node.end()
    assert record["reason"] == "failed"
    assert record["launcher"]["signal"] == 9
    assert [rank["signal"] for rank in record["ranks"]] == [9, 9]


def test_a_launcher_that_never_starts_a_worker_tells_why(node: Client) -> None:
    node.prepare("r", launcher="torchrun", python=sys.executable)
    argv = [sys.executable, "-m", "torch.distributed.run", "--no-such-option"]
    process: dict[str, Any] = {"argv": argv, "local_rank": None, "env": {}, "expand": len(argv)}
    node.start("r", processes=[process])
    node.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)
    record = node.end()
    assert (record["reason"], record["ranks"]) == ("failed", [])
    assert "--no-such-option" in record["launcher_tail"] or "required" in record["launcher_tail"]


def test_a_restarted_worker_replaces_its_forerunner(node: Client) -> None:
    program = "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0': sys.exit('one')\nprint('two')"
    launch(node, program, nproc=1, restarts=1)
    record = node.end()
    assert (record["reason"], [rank["code"] for rank in record["ranks"]]) == ("finished", [0])
    logs = node.logs()
    assert (logs["0.err"], logs["0.out"]) == (b"one\n", b"two\n")


def test_without_pidfds_an_end_is_read_by_polling(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernel, "pidfd_open", lambda pid: None)
    os.mkfifo(tmp_path / "ranks")
    with selectors.DefaultSelector() as selector:
        watch = ranks.Watch(selector, tmp_path / "ranks", lambda: False)
        child = os.fork()
        if child == 0:
            os._exit(7)
        fd = os.open(tmp_path / "ranks", os.O_WRONLY)
        os.write(fd, b"3 %d 11 \n" % child)
        os.close(fd)
        watch.hear()
        assert watch.first_rank == 8
        while watch.polling:
            watch.poll()
        assert ranks.outcome(watch.latest[3].status) == {"code": 7, "signal": None}
        os.waitpid(child, 0)
        assert ranks.zombie_status(watch.latest[3].process) is None
        assert processes.look(child) is None


def test_a_sibling_that_ends_right_behind_the_failure_was_stopped(tmp_path: Path) -> None:
    """No turn of the loop need lie between the two: what is being stopped is asked at the moment of each end."""
    os.mkfifo(tmp_path / "ranks")
    stopping: list[bool] = []
    with selectors.DefaultSelector() as selector:
        watch = ranks.Watch(selector, tmp_path / "ranks", lambda: bool(stopping))
        workers = [subprocess.Popen(["sleep", "1000"]) for _ in range(2)]
        with (tmp_path / "ranks").open("w") as fifo:
            fifo.write("".join(f"{rank} {worker.pid} {rank} \n" for rank, worker in enumerate(workers)))
        watch.hear()
        for worker in workers:
            worker.kill()
            while watch.latest[workers.index(worker)].ended_at is None:
                for key, _ in selector.select(0.1):
                    key.data()
                watch.poll()
            stopping.append(True)
            worker.wait()
        assert [watch.latest[rank].stopped for rank in (0, 1)] == [False, True]


def test_a_worker_that_had_ended_when_the_stop_was_heard_did_not_end_of_it(tmp_path: Path) -> None:
    """Both may be there in one turn of the loop, and the order is taken first."""
    os.mkfifo(tmp_path / "ranks")
    with selectors.DefaultSelector() as selector:
        watch = ranks.Watch(selector, tmp_path / "ranks", lambda: False)
        worker = subprocess.Popen(["sleep", "1000"])
        with (tmp_path / "ranks").open("w") as fifo:
            fifo.write(f"0 {worker.pid} 0 \n")
        watch.hear()
        watch.look()
        assert not watch.were_terminated()
        worker.terminate()
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        watch.look()
        assert watch.were_terminated()
        assert not watch.latest[0].stopped
        worker.wait()
