"""A run left to its nodes from the start, taken up here and from elsewhere, and the question that Ctrl-C asks."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.jobs.bench import COMMAND, COOKIE, Bench, eventually, nothing_lives

pytestmark = pytest.mark.cluster

COUNTING = """
import pathlib, time
for n in range(400):
    print("n", n, flush=True)
    while n == 200 and not pathlib.Path("/root/go").exists():
        time.sleep(0.05)
"""
WRITTEN = "".join(f"n {n}\n" for n in range(400))
"""What COUNTING writes: half of it at once, half when it may go on."""
ENDLESS = "i=0; while :; do echo line $i; i=$((i+1)); sleep 0.1; done"


@contextmanager
def going_on(bench: Bench) -> Iterator[None]:
    """Lets COUNTING go on to its end."""
    for host in bench.cluster.hosts:
        host.write("/root/go", "")
    yield
    for host in bench.cluster.hosts:
        host.path("/root/go").unlink()


def launch(bench: Bench, *words: str, options: tuple[str, ...] = ()) -> str:
    """Starts a run and leaves it; its id."""
    done = bench.run("launch", "-d", "--launcher", "exec", *options, bench.file, *words)
    assert done.code == 0, done
    return done.out.removesuffix("\n")


def alive(bench: Bench) -> bool:
    """Whether every host has a process of the run."""
    return all(host.processes_with(COOKIE) for host in bench.cluster.hosts)


class TestLaunch:
    """`launch --detach`."""

    def test_it_says_the_run_id_alone_and_the_run_goes_on_and_attach_gets_every_byte_once(self, bench: Bench) -> None:
        bench.script(COUNTING)
        run_id = launch(bench, sys.executable, "worker.py")
        (run,) = bench.runs_here()
        assert run.name == run_id
        assert alive(bench)
        shown = bench.run("logs", "--rank", "1").out
        assert shown.startswith("node1 1 | n 0\n")
        first = bench.start("attach", run_id, "--json")
        first.until(lambda: len(first.events("connected")) == 3)
        # A second one at the same time shows what comes from then on, and leaves the files to the first.
        second = bench.start("attach", "--json")
        second.until(lambda: len(second.events("connected")) == 3)
        with going_on(bench):
            ends = first.wait(), second.wait()
        for done in ends:
            assert (done.code, done.end["reason"]) == (0, "finished"), done
            assert done.lines[0][-1] == "n 399"
        assert not first.events("warning")
        assert any("writes its logs" in event["text"] for event in second.events("warning"))
        assert [(run / f"logs/rank{rank}.out").read_text() for rank in range(3)] == [WRITTEN] * 3

    def test_what_can_not_even_begin_is_told_and_is_the_exit_code(self, bench: Bench) -> None:
        done = bench.run(
            "launch", "-d", "--launcher", "exec", bench.file, "/bin/sh", "-c", "echo no such file >&2; exit 7"
        )
        assert done.code == 7, done
        assert re.search(r"failed first: exit code 7", done.err)
        assert "| no such file" in done.err
        assert [f"{path.name}\n" for path in bench.runs_here()] == [done.out]

    def test_a_time_limit_that_nobody_would_keep_is_refused(self, bench: Bench) -> None:
        done = bench.run("launch", "-d", "--timeout", "5", "--launcher", "exec", bench.file, "true")
        assert done.code == 2
        assert "--timeout" in done.err
        assert bench.runs_here() == []


@contextmanager
def at_a_terminal(bench: Bench, *words: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """``ncclrun WORDS`` in the foreground of a terminal of its own: the terminal's other end, and the process."""
    ours, theirs = os.openpty()
    command = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *COMMAND, *words],
        cwd=bench.work,
        env={**bench.env, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        yield ours, command
    finally:
        command.kill()
        command.wait()
        os.close(ours)


def until_shown(terminal: int, text: bytes, seconds: float = 60) -> None:
    """Reads what the terminal shows until that text comes."""
    shown = b""
    deadline = time.monotonic() + seconds
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"it does not show {text!r}: {shown[-2000:]!r}"
        shown += os.read(terminal, 1 << 16)


def ended(terminal: int, command: subprocess.Popen[bytes], seconds: float = 60) -> int:
    """The exit code, with all that is shown meanwhile taken from the terminal, so that nothing waits for it."""

    def over() -> bool:
        while select.select([terminal], [], [], 0)[0]:
            try:
                os.read(terminal, 1 << 16)
            except OSError:  # EIO: nobody has the other end any more
                break
        return command.poll() is not None

    assert eventually(over, seconds)
    return command.wait()


CTRL_C = b"\x03"
QUESTION = b"d = detach (the run goes on), s = stop the run"


class TestCtrlCInAttach:
    """It asks; what is done is what was answered."""

    def test_enter_goes_on_and_d_leaves_the_run_and_a_second_ctrl_c_stops_it(self, bench: Bench) -> None:
        launch(bench, "/bin/sh", "-c", ENDLESS)
        with at_a_terminal(bench, "attach") as (terminal, command):
            until_shown(terminal, b" line ")
            os.write(terminal, CTRL_C)
            until_shown(terminal, QUESTION)
            os.write(terminal, b"\n")
            until_shown(terminal, b" line ")
            os.write(terminal, CTRL_C)
            until_shown(terminal, QUESTION)
            os.write(terminal, b"d")
            assert ended(terminal, command) == 0
        assert alive(bench)
        with at_a_terminal(bench, "attach") as (terminal, command):
            until_shown(terminal, b" line ")
            os.write(terminal, CTRL_C)
            until_shown(terminal, QUESTION)
            os.write(terminal, CTRL_C)
            assert ended(terminal, command) == 130
        assert eventually(lambda: nothing_lives(bench.cluster))


def elsewhere(bench: Bench, tmp_path: Path) -> dict[str, str]:
    """The environment of another machine, which has only the cluster file."""
    return {"XDG_STATE_HOME": str(tmp_path / "elsewhere")}


class TestFromElsewhere:
    """`--cluster FILE`: the nodes know the run."""

    def test_attach_and_logs_have_every_byte_there(self, bench: Bench, tmp_path: Path) -> None:
        bench.script(COUNTING)
        run_id = launch(bench, sys.executable, "worker.py")
        there = elsewhere(bench, tmp_path)
        job = bench.start("attach", "--cluster", bench.file, "--json", env=there)
        job.until(lambda: len(job.events("log")) > 100)
        with going_on(bench):
            done = job.wait()
        assert (done.code, done.end["run_id"]) == (0, run_id), done
        logs = tmp_path / "elsewhere/ncclrun/runs" / run_id / "logs"
        assert [(logs / f"rank{rank}.out").read_text() for rank in range(3)] == [WRITTEN] * 3
        shown = bench.run("logs", run_id, "--cluster", bench.file, "--rank", "2", env=there)
        assert shown.out == "".join(f"node2 2 | {line}\n" for line in WRITTEN.splitlines())

    def test_who_takes_it_over_has_the_say_and_the_other_reads_on(self, bench: Bench, tmp_path: Path) -> None:
        """Both follow it to its end; the first is told who gives the orders when it wants to give one."""
        job = bench.start_sh("while ! test -e /root/fail; do echo waiting; sleep 0.1; done; exit 9")
        job.until(lambda: len(job.events("log")) > 3)
        second = bench.start("attach", "--cluster", bench.file, "--json", env=elsewhere(bench, tmp_path))
        second.until(lambda: second.events("log"))
        bench.cluster.hosts[2].write("/root/fail", "")
        first_end, second_end = job.wait(), second.wait()
        bench.cluster.hosts[2].path("/root/fail").unlink()
        assert (first_end.code, second_end.code) == (9, 9), (first_end.end, second_end.end)
        assert any("has taken the run over" in event["text"] for event in first_end.of("warning"))

    def test_stop_ends_it_whoever_left_it(self, bench: Bench, tmp_path: Path) -> None:
        left = bench.start_sh(ENDLESS, options=("--detach",)).wait()
        assert (left.code, left.end["reason"], left.end["nodes"]) == (0, "detached", []), left
        assert [event["state"] for event in left.of("node")] == ["running"] * 3
        assert alive(bench)
        done = bench.run("stop", "--cluster", bench.file, "--json", env=elsewhere(bench, tmp_path))
        assert (done.code, done.end["run_id"]) == (0, left.end["run_id"]), done
        assert [row["confirmed"] for row in done.end["nodes"]] == [True] * 3
        assert eventually(lambda: nothing_lives(bench.cluster))
