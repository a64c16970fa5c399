"""A run that loses a host goes on as a new attempt, and torchrun's elastic rendezvous needs no host names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import yaml

from tests.cluster.cluster import Cluster
from tests.jobs.bench import Bench, Done, Running, eventually, make_empty, nothing_lives

pytestmark = pytest.mark.cluster

WORKER = """
import os, pathlib, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
me = torch.ones(1)
dist.all_reduce(me)
ckpt = pathlib.Path(os.environ["NCCLRUN_CHECKPOINT_DIR"])
told = [os.environ[f"NCCLRUN_{name}"] for name in ("ATTEMPT", "RUN_ID", "NODE_RANK")]
print(*told, int(me), ckpt.is_dir(), flush=True)
while os.environ["NCCLRUN_ATTEMPT"] == "1":
    dist.all_reduce(me)
    time.sleep(0.1)
dist.destroy_process_group()
"""


@pytest.fixture
def bench(cluster3: Cluster, make_bench: Callable[[Cluster], Bench]) -> Iterator[Bench]:
    """Three hosts; one that lost its power keeps what only a later visit can tell the end of."""
    for host in cluster3.hosts:
        make_empty(host)
    bench = make_bench(cluster3)
    yield bench
    bench.close()
    cluster3.mend()
    assert eventually(lambda: nothing_lives(cluster3))
    for host in cluster3.hosts:
        make_empty(host)


@pytest.fixture
def cluster4(make_cluster: Callable[..., Cluster]) -> Cluster:
    return make_cluster(4)


def history(bench: Bench) -> dict[str, dict[str, object]]:
    """The runs of this machine, by run id."""
    return {row["run_id"]: row for row in bench.run("runs", "--json").of("recorded_run")}


def start(bench: Bench, *options: str) -> Running:
    """The job above; its ncclrun follows it."""
    bench.script(WORKER)
    words = ("--run-id", "long", "--grace", "2", "--checkpoint-dir", "/root/ckpt/new", *options)
    return bench.start("launch", "--json", *words, bench.file, "worker.py")


def said(done: Done) -> list[list[str]]:
    """What the workers printed in each attempt, sorted."""
    attempts: list[list[str]] = []
    for event in done.events:
        if event["event"] == "run":
            attempts.append([])
        elif event["event"] == "log" and event["stream"] == "out" and event["rank"] is not None:
            attempts[-1].append(event["text"])
    return [sorted(lines) for lines in attempts]


@pytest.mark.torch
def test_a_lost_host_is_replaced_by_a_spare(cluster4: Cluster, make_bench: Callable[[Cluster], Bench]) -> None:
    pytest.importorskip("torch")
    bench = make_bench(cluster4)
    job = start(bench, "--retries", "3", "--spares", "node3")
    # Each worker's line: what a host has written and nobody has fetched is lost with it.
    job.until(lambda: len(job.printed()) == 3)
    cluster4.hosts[1].reboot()  # a power cut; that the host answers again is known sooner than that it does not
    done = job.wait(180)
    assert done.code == 0, done
    assert said(done) == [
        ["1 long 0 3 True", "1 long 1 3 True", "1 long 2 3 True"],
        ["2 long 0 3 True", "2 long 1 3 True", "2 long 2 3 True"],
    ]
    (retry,) = done.of("retry")
    assert (retry["run_id"], retry["attempt"], retry["most"]) == ("long.2", 2, 4)
    assert retry["reason"] == "node1 replaced by node3 (host rebooted)"
    assert (retry["ended"]["reason"], retry["ended"]["exit_code"]) == ("lost", 255)
    assert [row["node"] for row in done.end["nodes"]] == ["node0", "node3", "node2"]
    assert [row["confirmed"] for row in done.end["nodes"]] == [True] * 3
    runs = history(bench)
    assert [(run["attempt"], run["exit_code"]) for run in (runs["long"], runs["long.2"])] == [(1, 255), (2, 0)]
    assert "2 long 1 3 True" in bench.run("logs", "long").out
    assert "1 long 1 3 True" in bench.run("logs", "long.1").out
    assert eventually(lambda: nothing_lives(cluster4))


def test_without_a_spare_it_goes_on_with_fewer_and_another_master(bench: Bench) -> None:
    line = "echo $NCCLRUN_ATTEMPT $RANK of $WORLD_SIZE; [ $NCCLRUN_ATTEMPT = 2 ] || exec sleep 1000"
    job = bench.start_sh(line, options=("--retries", "1", "--min-nodes", "2", "--grace", "1"))
    job.until(lambda: len(job.events("log")) == 3)
    bench.cluster.hosts[0].reboot()
    done = job.wait()
    assert done.code == 0, done
    assert said(done) == [["1 0 of 3", "1 1 of 3", "1 2 of 3"], ["2 0 of 2", "2 1 of 2"]]
    assert done.of("retry")[0]["reason"] == "without node0 (host rebooted)"
    assert [row["node"] for row in done.end["nodes"]] == ["node1", "node2"]


def test_a_rank_that_fails_is_tried_again_if_asked(bench: Bench) -> None:
    line = "[ $NCCLRUN_ATTEMPT = 2 ] || exit 7"
    done = bench.sh(line, options=("--retries", "1", "--retry-on", "failure", "--run-id", "again"))
    assert done.code == 0, done
    (retry,) = done.of("retry")
    assert (retry["ended"]["exit_code"], retry["changes"]) == (7, [])
    assert "failed (exit code 7)" in retry["reason"]


ELASTIC = """
import os, pathlib, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
me = torch.tensor([float(os.environ["RANK"])])
dist.all_reduce(me)
print("rank", os.environ["RANK"], int(me), flush=True)
failed = pathlib.Path("/tmp/failed-once")
if os.environ["NCCLRUN_NODE_RANK"] == "1" and not failed.exists():
    failed.touch()
    sys.exit(5)
dist.barrier()
dist.destroy_process_group()
"""


def c10d(bench: Bench, **launch: object) -> None:
    """A cluster file whose last host comes first, where one host does not know its own name."""
    bench.cluster.hosts[1].write("/etc/hosts", "127.0.0.1 localhost\n")
    bench.cluster.hosts[1].path("/tmp/failed-once").unlink(missing_ok=True)
    path = bench.yaml(launch={"rendezvous": "c10d", "env": {"OMP_NUM_THREADS": 1}, **launch})
    data = yaml.safe_load(path.read_text())
    data["nodes"].reverse()
    path.write_text(yaml.safe_dump(data, sort_keys=False))


@pytest.mark.torch
def test_with_c10d_a_worker_that_fails_makes_all_start_again_and_the_ranks_that_are_shown_are_torchruns(
    bench: Bench,
) -> None:
    pytest.importorskip("torch")
    c10d(bench, max_restarts=1)
    bench.script(ELASTIC)
    done = bench.run("launch", "--json", bench.file, "worker.py", timeout=240)
    assert done.code == 0, done
    assert done.lines == {rank: [f"rank {rank} 3"] * 2 for rank in range(3)}
    # torchrun goes by the addresses: node0 has the first rank, though it is the last in the file.
    shown = {(event["node"], event["rank"]) for event in done.of("log") if event["text"].startswith("rank ")}
    assert shown == {(f"node{rank}", rank) for rank in range(3)}
