"""The node owns the run: the controller may die or be cut off, training goes on, and everything is found again."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.jobs.bench import COOKIE, Bench, Running, eventually, nothing_lives

pytestmark = pytest.mark.cluster

COUNTING = """
import os, sys, time
for n in range(int(sys.argv[1])):
    print("n", n, "x" * (n % 200), flush=True)
    time.sleep(0.005)
"""


def written(count: int) -> bytes:
    """What COUNTING writes."""
    return "".join(f"n {n} {'x' * (n % 200)}\n" for n in range(count)).encode()


def killed_after(bench: Bench, lines: int, *words: str) -> Running:
    """A run whose ncclrun was killed when so many lines had come from each rank."""
    bench.script(COUNTING)
    job = bench.start_exec(sys.executable, "worker.py", *words, nproc=2)
    job.until(lambda: all(said(job, rank) >= lines for rank in range(6)))
    job.process.send_signal(signal.SIGKILL)
    job.process.wait()
    return job


def said(job: Running, rank: int) -> int:
    """How many lines of that rank have come."""
    return sum(event["rank"] == rank for event in job.events("log"))


def here(bench: Bench, rank: int) -> bytes:
    """A rank's stdout as it lies on this machine."""
    (run,) = bench.runs_here()
    path: Path = run / "logs" / f"rank{rank}.out"
    return path.read_bytes()


def test_training_goes_on_and_attach_gets_every_byte_once(bench: Bench) -> None:
    killed_after(bench, 20, "1200")
    before = [here(bench, rank) for rank in range(6)]
    assert all(0 < len(data) < len(written(1200)) for data in before)
    assert all(host.processes_with(COOKIE) for host in bench.cluster.hosts)
    done = bench.run("attach", "--json")
    assert done.code == 0, done
    assert [here(bench, rank) for rank in range(6)] == [written(1200)] * 6
    assert [row["state"] for row in done.end["nodes"]] == ["finished"] * 3
    # What came before is not shown again: together the two showed each line once.
    shown = [event["text"] for event in done.of("log") if event["rank"] == 0]
    assert shown[-1] == written(1200).decode().splitlines()[-1]
    assert len(shown) < 1200
    # Afterwards all is here, and the nodes are not asked.
    bench.cluster.hosts[0].cut("management")
    logs = bench.run("logs", "--rank", "0")
    assert [line.partition(" | ")[2] for line in logs.out.splitlines()] == written(1200).decode().splitlines()


def test_attach_to_one_that_has_ended_tells_its_end(bench: Bench) -> None:
    killed_after(bench, 5, "60")
    assert eventually(lambda: nothing_lives(bench.cluster))
    done = bench.run("attach", "--json")
    assert done.code == 0, done
    assert [here(bench, rank) for rank in range(6)] == [written(60)] * 6


def test_logs_reads_from_the_nodes_what_is_not_here(bench: Bench) -> None:
    killed_after(bench, 5, "100")
    assert eventually(lambda: nothing_lives(bench.cluster))
    assert here(bench, 4) != written(100)
    for words in (("--rank", "4"), ("--rank", "4", "-f")):
        done = bench.run("logs", *words)
        assert done.code == 0, done
        assert [line.partition(" | ")[2] for line in done.out.splitlines()] == written(100).decode().splitlines()
    tail = bench.run("logs", "--tail", "2", "--node", "2", "--stream", "out")
    last = written(100).decode().splitlines()[-2:]
    assert sorted(tail.out.splitlines()) == sorted(f"node2 {rank} | {text}" for rank in (4, 5) for text in last)


def test_stop_from_a_fresh_process_ends_it_and_confirms(bench: Bench) -> None:
    killed_after(bench, 5, "100000")
    done = bench.run("stop", "--json")
    assert done.code == 0, done
    assert [(row["confirmed"], row["state"]) for row in done.end["nodes"]] == [(True, "stopped")] * 3
    assert eventually(lambda: nothing_lives(bench.cluster))
    again = bench.run("stop", "--json")
    assert again.code == 0, again


class TestLinks:
    def test_a_cut_link_and_a_stopped_sshd_are_told_training_goes_on_and_the_logs_are_whole(self, bench: Bench) -> None:
        bench.script(COUNTING)
        job = bench.start_exec(sys.executable, "worker.py", "5000")
        job.until(lambda: len(job.events("log")) > 30)
        bench.cluster.hosts[1].cut("management")
        assert bench.cluster.hosts[2].stop_sshd_sessions() >= 1

        def unknown() -> set[str]:
            return {event["node"] for event in job.events("node") if event["state"] == "unknown"}

        job.until(lambda: unknown() == {"node1", "node2"})
        assert all(host.processes_with(COOKIE) for host in bench.cluster.hosts)
        bench.cluster.mend()
        done = job.wait()
        assert done.code == 0, done.end
        assert [here(bench, rank) for rank in range(3)] == [written(5000)] * 3
        assert [event["state"] for event in done.of("node") if event["node"] == "node1"] == [
            "running",
            "unknown",
            "running",
            "ended",
        ]

    def test_a_reset_connection_is_taken_up_again_at_once(self, bench: Bench) -> None:
        bench.script(COUNTING)
        job = bench.start_exec(sys.executable, "worker.py", "800")
        job.until(lambda: len(job.events("log")) > 30)
        host = bench.cluster.hosts[0]
        init = host.pid
        for process in host.processes():
            if process.command.startswith("sshd") and process.pid != init:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        done = job.wait()
        assert done.code == 0, done.end
        assert [here(bench, rank) for rank in range(3)] == [written(800)] * 3
        assert "unknown" in {event["state"] for event in done.of("node") if event["node"] == "node0"}

    def test_a_controller_that_slept_catches_up_and_calls_nobody_lost(self, bench: Bench) -> None:
        bench.script(COUNTING)
        job = bench.start_exec(sys.executable, "worker.py", "1200")
        job.until(lambda: len(job.events("log")) > 30)
        job.press(signal.SIGSTOP)
        time.sleep(3)
        job.press(signal.SIGCONT)
        done = job.wait()
        assert done.code == 0, done.end
        assert [here(bench, rank) for rank in range(3)] == [written(1200)] * 3
