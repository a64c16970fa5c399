"""Ctrl-C, whenever it comes: once stops, twice kills, three times leaves; nothing is left that was not told."""

from __future__ import annotations

import random
import re
import sys
import time

import pytest

from tests.jobs.bench import COOKIE, Bench, eventually, nothing_lives, strangers, unfinished

pytestmark = pytest.mark.cluster

STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
print("ready", flush=True)
while True:
    time.sleep(0.1)
"""


def test_at_twenty_random_moments_it_leaves_nothing(bench: Bench) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it when the test fails
    moments = random.Random(seed)
    bench.script("setsid sleep 1004 & exec sleep 1005", "w.sh")
    first = bench.start_exec("sh", "w.sh", nproc=2)
    first.until(lambda: first.events("run"))
    began = time.monotonic()
    first.until(lambda: len(first.events("node")) == 3)
    start = time.monotonic() - began
    first.press()
    assert first.wait().code == 130
    stages = set()
    for _ in range(20):
        job = bench.start_exec("sh", "w.sh", nproc=2)
        # From the first event on the command hears Ctrl-C; before, it is Python's start that is interrupted.
        job.until(lambda job=job: job.events("run"))  # type: ignore[misc]  # mypy infers no type for a lambda's default
        pause = moments.uniform(0, 2 * start)  # as often while it starts as when it runs, on a slow machine too
        time.sleep(pause)
        job.press()
        done = job.wait(60)
        assert done.code == 130, (pause, done)
        assert done.end["exit_code"] == 130
        started = bool(done.of("node"))
        stages.add("running" if started else "before")
        if started:
            assert [row["confirmed"] for row in done.end["nodes"]] == [True] * 3, (pause, done.end)
        assert eventually(lambda: nothing_lives(bench.cluster), 10), [strangers(h) for h in bench.cluster.hosts]
        assert [unfinished(host) for host in bench.cluster.hosts] == [[], [], []], (pause, done)
        assert len(bench.runs_here()) == sum(bool(r.events("node")) for r in bench.commands), (pause, done)
    assert stages == {"running", "before"}


def test_before_anything_is_heard_it_ends_with_130_too(bench: Bench) -> None:
    bench.yaml(ssh={"connect_timeout": 60})
    bench.cluster.hosts[1].cut("management")
    job = bench.start_sh("sleep 1000")
    job.until(lambda: len(job.events("connected")) == 2)
    job.press()
    done = job.wait(20)
    assert done.code == 130
    assert bench.runs_here() == []


def test_once_is_sigterm_and_the_end_waits_for_the_grace(bench: Bench) -> None:
    bench.script(STUBBORN)
    job = bench.start_exec(sys.executable, "worker.py", options=("--grace", "1"))
    job.until_said('"ready"', 3)
    job.press()
    done = job.wait(60)
    assert done.code == 130
    assert done.lines == {rank: ["ready", "asked"] for rank in range(3)}
    assert [row["exit"] for row in done.end["nodes"]] == ["SIGKILL"] * 3
    assert [event["how"] for event in done.of("stopping")] == ["term"]


def test_three_times_leaves_and_says_what_is_unconfirmed(bench: Bench) -> None:
    bench.script(STUBBORN)
    job = bench.start("launch", "--launcher", "exec", "--grace", "600", bench.file, sys.executable, "worker.py")
    job.until_said("| ready", 3)
    # From us and from the other nodes, which would pass the word on.
    bench.cluster.hosts[1].cut("management")
    bench.cluster.hosts[1].cut("data")
    job.press()
    job.until_said("| asked", 2)
    job.press()
    job.until_said("killing ")
    assert eventually(lambda: set(bench.cluster.processes_with(COOKIE)) == {"node1"})
    job.press()
    done = job.wait(20)
    assert done.code == 130
    # The other two may have ended a moment before their word of it came.
    assert re.search(
        r"not confirmed that nothing of the run lives on (node0, )?node1(, node2)?$", done.err, re.MULTILINE
    )
    # And it was true: cut off as it was, node1 heard nothing of it.
    assert bench.cluster.processes_with(COOKIE) == {"node1": [f"{sys.executable} worker.py"]}
    bench.cluster.mend()
    assert bench.run("stop", "--kill").code == 0
    assert eventually(lambda: nothing_lives(bench.cluster))
