"""The node owns the run: the controller may die or be cut off, training goes on, and everything is found again."""

from __future__ import annotations

import signal
import sys
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
