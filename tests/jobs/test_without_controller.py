"""Without a controller the supervisors end the run for all when one node does not go on, and only then."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.host import Host
from tests.jobs.bench import (
    COOKIE,
    Bench,
    Running,
    eventually,
    make_empty,
    nothing_lives,
    run_directories,
    strangers,
    unfinished,
)

pytestmark = pytest.mark.cluster

LEASE = 4
GRACE = 1
ENOUGH = 60.0
"""Seconds, for what takes the lease, the grace and a little on a busy machine."""
WORKER = """
import os, sys, time
print("pid", os.getpid(), flush=True)
while not os.path.exists("/tmp/fail"):
    time.sleep(0.1)
sys.exit(7)
"""

FAMILY = """
import os, subprocess
subprocess.Popen(["sleep", "1000"], start_new_session=True)
for env in (os.environ, {}):
    if os.fork() == 0:
        if os.fork() == 0:
            os.setsid()
            os.execlpe("sleep", "sleep", "1000", env)
        os._exit(0)
    os.wait()
"""
"""A child in a session of its own, and two orphans, one without the run's cookie."""


@pytest.fixture
def bench(cluster3: Cluster, make_bench: Callable[[Cluster], Bench]) -> Iterator[Bench]:
    """Three hosts; a host that was cut off or killed may keep what only a later visit can clear."""
    for host in cluster3.hosts:
        make_empty(host)
        host.path("/tmp/fail").unlink(missing_ok=True)
    bench = make_bench(cluster3)
    bench.yaml(launch={"lease": LEASE, "grace": GRACE})
    yield bench
    bench.close()
    cluster3.mend()
    for host in cluster3.hosts:
        for process in host.processes():
            os.kill(process.pid, signal.SIGCONT)
        make_empty(host)
        host.path("/tmp/fail").unlink(missing_ok=True)


def left_alone(bench: Bench, worker: str = WORKER) -> Running:
    """A run of one worker a node, all linked, whose ncclrun is killed."""
    bench.script(worker)
    job = bench.start_exec(sys.executable, "worker.py")
    job.until(lambda: len(job.printed()) == 3 and heard(bench) == {"1", "2"})
    kill_controller(bench, job)
    return job


def kill_controller(bench: Bench, job: Running) -> None:
    """Until the nodes' serving processes, which its channels held, have gone too."""
    job.process.send_signal(signal.SIGKILL)
    job.process.wait()


def heard(bench: Bench) -> set[str]:
    """The nodes that node 0's supervisor has heard."""
    found: set[str] = set()
    for part in run_directories(bench.cluster.hosts[0]):
        if (part / "peers.json").exists():
            found |= set(json.loads((part / "peers.json").read_text()))
    return found


def claimed(host: Host) -> bool:
    """Whether a controller has taken over the one run there."""
    (part,) = run_directories(host)
    return (part / "claims/1").exists()


def supervisor(host: Host) -> int:
    """Its process id as seen from here: the one that has the run's control FIFO open for both directions."""
    (part,) = run_directories(host)
    control = (part / "control").stat().st_ino
    for process in host.processes():
        for fd in Path(f"/proc/{process.pid}/fd").iterdir():
            if fd.exists() and fd.stat().st_ino == control:
                return process.pid
    raise AssertionError(f"{host.name} has no supervisor")


def gone(*hosts: Host) -> bool:
    """Whether nothing of any run lives there."""
    return not any(host.processes_with(COOKIE) for host in hosts)


def end(host: Host) -> dict[str, Any]:
    """The end record of the one run there."""
    (part,) = run_directories(host)
    record: dict[str, Any] = json.loads((part / "exit.json").read_text())
    return record


def assert_stopped(hosts: list[Host], origin: int, reason: str) -> None:
    """That nothing of the run is left on them, and each one's record tells why."""
    assert eventually(lambda: gone(*hosts) and not any(unfinished(host) for host in hosts), ENOUGH)
    for host in hosts:
        record = end(host)
        assert record["reason"] == "stopped"
        assert record["stop"]["origin"] == origin
        assert reason in record["detail"], record["detail"]
        assert f"node {origin} (node{origin})" in record["detail"]


def test_a_rank_that_fails_ends_it_everywhere(bench: Bench) -> None:
    left_alone(bench)
    first, second, third = bench.cluster.hosts
    third.write("/tmp/fail", "")
    assert_stopped([first, second], 2, "rank 2 failed (exit code 7)")
    assert end(third)["reason"] == "failed"
    done = bench.run("attach", "--json")
    assert done.code == 7, done
    assert done.end["cause"]["node"] == "node2"


def test_torchruns_own_death_ends_it_everywhere(bench: Bench) -> None:
    bench.script(WORKER)
    job = bench.start("launch", "--json", bench.file, "worker.py")
    job.until(lambda: len(job.printed()) == 3 and heard(bench) == {"1", "2"})
    kill_controller(bench, job)
    first, second, third = bench.cluster.hosts
    (torchrun,) = [process for process in third.processes() if "torch.distributed.run" in process.command]
    os.kill(torchrun.pid, signal.SIGKILL)
    assert_stopped([first, second], 2, "torchrun failed (signal 9)")
    assert eventually(lambda: gone(third) and not unfinished(third), ENOUGH)
    done = bench.run("attach", "--json")
    assert (done.code, done.end["cause"]["node"], done.end["cause"]["rank"]) == (137, "node2", None), done
    assert done.end["cause"]["how"] == "torchrun: signal 9 (SIGKILL)"


@pytest.mark.parametrize("node_rank", [0, 2])
def test_a_supervisor_that_is_killed_ends_it_everywhere_and_leaves_nothing(bench: Bench, node_rank: int) -> None:
    left_alone(bench, FAMILY + WORKER)
    others = list(bench.cluster.hosts)
    killed = others.pop(node_rank)
    # The supervisor, its warden, the worker and its three, once what served ncclrun there has gone too.
    assert eventually(lambda: len(strangers(killed)) == 6, ENOUGH), strangers(killed)
    os.kill(supervisor(killed), signal.SIGKILL)
    assert_stopped(others, node_rank, "its supervisor is gone")
    assert eventually(lambda: nothing_lives(bench.cluster) and not unfinished(killed), ENOUGH)
    record = end(killed)
    assert (record["reason"], record["survivors"]) == ("lost", [])
    assert record["detail"] == "the supervisor was killed by signal 9 (Killed)"
    done = bench.run("attach", "--json")
    assert (done.code, done.end["cause"]["how"]) == (255, "supervisor lost"), done
    assert done.end["cause"]["exception"] == record["detail"]


def test_node_0_without_power_ends_it_on_the_others_whoever_only_looks_on(bench: Bench) -> None:
    bench.script(WORKER)
    overruled = bench.start_exec(sys.executable, "worker.py")
    overruled.until(lambda: len(overruled.printed()) == 3 and heard(bench) == {"1", "2"})
    attached = bench.start("attach", "--json")
    attached.until(lambda: all(claimed(host) for host in bench.cluster.hosts))
    kill_controller(bench, attached)
    bench.start("logs", "-f").until_said("pid", 3)
    bench.cluster.hosts[0].kill()
    assert_stopped(bench.cluster.hosts[1:], 0, "no word from it and from no controller")


def test_losing_only_the_controller_ends_nothing(bench: Bench) -> None:
    left_alone(bench)
    # For longer than the lease nobody but the supervisors speaks.
    for _ in range(2):
        assert eventually(partial(is_told_anew, bench, told_at(bench)), ENOUGH)
    assert all(host.processes_with(COOKIE) for host in bench.cluster.hosts)
    assert bench.run("stop", "--json").code == 0
    assert all(end(host)["stop"]["origin"] is None for host in bench.cluster.hosts)


def is_told_anew(bench: Bench, before: float) -> bool:
    """Whether node 0 has said so again."""
    return told_at(bench) != before


def told_at(bench: Bench) -> float:
    """When node 0 last said so, which it does every 3 s."""
    (part,) = run_directories(bench.cluster.hosts[0])
    return (part / "peers.json").stat().st_mtime
