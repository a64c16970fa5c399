"""A job that says nothing: its ranks' stacks tell who waits for whom; one that still prints is left alone."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.bench import Bench, Running

pytestmark = pytest.mark.cluster

GLOO = """
import os, time
import torch
import torch.distributed as dist
def asleep():
    time.sleep(1000)
def main():
    dist.init_process_group("gloo")
    print("ready", flush=True)
    if dist.get_rank() == 1:
        asleep()
    dist.all_reduce(torch.ones(1))
main()
"""
SILENT = """
import os, time
def waits():
    time.sleep(1000)
print("ready", flush=True)
waits()
"""
NEARLY_SILENT = """
import os, time
for step in range(6):
    if os.environ["RANK"] == "2":
        print("step", step, flush=True)
    time.sleep(1)
"""
EXEC = ("launch", "--json", "--launcher", "exec", "--grace", "1")


def stall_of(job: Running, words: str) -> dict[str, Any]:
    """The first stall that is told with these words in its verdict: one may come while torch is still loaded."""
    job.until(lambda: any(words in event["verdict"] for event in job.events("stalled")))
    return next(event for event in job.events("stalled") if words in event["verdict"])


def all_ready(job: Running, number: int = 3) -> None:
    job.until(lambda: len([event for event in job.events("log") if event["text"] == "ready"]) == number)


@pytest.mark.torch
def test_the_rank_that_does_not_come_to_the_all_reduce_is_named(bench: Bench) -> None:
    pytest.importorskip("torch")
    bench.yaml(launch={"python": sys.executable, "env": {"OMP_NUM_THREADS": 1}})
    job = bench.start("launch", "--json", "--grace", "1", "--stall", "3s", bench.file, bench.script(GLOO))
    stalled = stall_of(job, "all_reduce")
    job.press()
    assert job.wait().code == 130
    assert stalled["verdict"] == (
        "2 ranks wait in all_reduce (worker.py:12); rank 1 on node1 differs: is in asleep (worker.py:6)"
    )
    assert stalled["groups"][1]["frames"] == ["asleep (worker.py:6)", "main (worker.py:11)", "<module> (worker.py:13)"]
    assert stalled["silent"] == []
    text = Path(stalled["file"]).read_text()
    assert text.startswith(stalled["verdict"])
    assert [f"=== rank {rank} on node{rank}: pid" in text for rank in range(3)] == [True] * 3


def test_a_rank_that_somebody_has_stopped_is_named_and_the_run_is_stopped_if_that_is_wished(bench: Bench) -> None:
    words = ("--stall", "4s", "--stall-action", "stop", bench.file, sys.executable, bench.script(SILENT))
    job = bench.start(*EXEC, *words)
    all_ready(job)
    (worker,) = (process for process in bench.cluster.hosts[2].processes() if "worker.py" in process.command)
    os.kill(worker.pid, signal.SIGSTOP)
    done = job.wait()
    assert done.code == 123, done
    assert (done.end["reason"], done.end["cause"]) == ("stalled", None)
    (stalled,) = done.of("stalled")
    assert stalled["verdict"] == (
        "2 ranks are in waits (worker.py:4); rank 2 on node2 differs: is stopped by a signal (state T)"
    )
    assert "kill -CONT" in stalled["groups"][1]["fix"]
    assert [row["confirmed"] for row in done.end["nodes"]] == [True] * 3


def test_one_rank_that_prints_keeps_it_quiet(bench: Bench) -> None:
    done = bench.run(*EXEC, "--stall", "3s", bench.file, sys.executable, bench.script(NEARLY_SILENT))
    assert done.code == 0, done
    assert done.lines[2] == [f"step {step}" for step in range(6)]
    assert done.of("stalled") == []


def test_a_run_that_goes_on_is_told_of_once_and_an_attach_can_watch_too(bench: Bench) -> None:
    job = bench.start(*EXEC, "--stall", "1s", bench.file, sys.executable, bench.script(SILENT))
    stalled = stall_of(job, "all 3 ranks")
    assert stalled["verdict"] == "all 3 ranks are in the same place, waits (worker.py:4)"
    job.process.kill()
    job.process.wait()
    told = job.events("stalled")
    second = bench.start("attach", "--stall", "1s")
    second.until_said("all 3 ranks are in the same place, waits (worker.py:4)")
    assert bench.run("stop").code == 0
    said = second.wait().err
    assert said.count("no output from any rank") == 1
    assert f"all stacks: {bench.runs_here()[0]}/stacks-" in said
    assert len(told) == len({event["file"] for event in told})
