"""What it is all for: the digits train over three hosts whose cards have different names, and by hand they don't."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.cluster.cluster import Cluster
from tests.jobs.bench import ROOT, Bench, eventually, nothing_lives

pytestmark = [pytest.mark.cluster, pytest.mark.torch]


def test_the_digits_train_on_three_hosts_with_two_ranks_each(bench: Bench) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    bench.yaml(launch={"python": sys.executable, "env": {"OMP_NUM_THREADS": 1}})
    out = "/root/digits.pt"
    script = str(ROOT / "examples/train.py")
    words = ("--nproc-per-node", "2", bench.file, script, "--epochs", "4", "--out", out)
    done = bench.run("launch", *words, timeout=240)
    assert done.code == 0, done
    lines = done.out.splitlines()
    for rank in range(6):
        node = f"node{rank // 2}"
        assert f"{node} {rank} | rank {rank} of 6 on {node}, cpu, gloo" in lines
    losses = [float(line.split()[6]) for line in lines if line.startswith("node0 0 | epoch ")]
    assert len(losses) == 4
    assert losses[-1] < losses[0]
    assert f"node0 0 | checkpoint {out}" in lines
    assert [host.path(out).exists() for host in bench.cluster.hosts] == [True, False, False]
    bench.cluster.hosts[0].path(out).unlink()
    assert done.err.rstrip().endswith("exit code 0")
    assert eventually(lambda: nothing_lives(bench.cluster))


def test_the_same_by_hand_without_interface_settings_fails(make_cluster: Callable[..., Cluster]) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    cluster = make_cluster(2)
    program = (ROOT / "examples/train.py").read_text()
    runs = []
    for host in cluster.hosts:
        host.write("/root/train.py", program)
        command = (
            f"OMP_NUM_THREADS=1 {sys.executable} -m torch.distributed.run --nnodes 2 --nproc-per-node 1 "
            f"--node-rank {host.index} --rdzv-backend static --rdzv-id digits "
            f"--master-addr {cluster.hosts[0].data_address} --master-port 29511 train.py --epochs 1"
        )
        argv = ["ssh", "-F", str(cluster.ssh_config), host.name, command]
        runs.append(
            subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    # One rank fails at once, the other would wait for minutes: its host loses power instead.
    assert eventually(lambda: any(run.poll() is not None for run in runs), 120)
    cluster.down()
    for run in runs:
        run.kill()
    said = "".join(run.communicate()[0] for run in runs)
    assert all(run.returncode != 0 for run in runs)
    # Each host's name is a loopback address on itself, as Debian has it, and that is what Gloo gave the other.
    assert "remote=[127.0.1.1]" in said
    assert "epoch 1" not in said


def test_a_rank_that_fails_under_torchrun_is_named_with_its_exception(bench: Bench) -> None:
    pytest.importorskip("torch")
    bench.script(
        "import os, time\n"
        "from torch.distributed.elastic.multiprocessing.errors import record\n"
        "@record\n"
        "def main():\n"
        "    if os.environ['RANK'] == '3':\n"
        "        raise RuntimeError('no such batch')\n"
        "    time.sleep(1000)\n"
        "main()\n"
    )
    done = bench.run("launch", "--json", "--nproc-per-node", "2", bench.file, "worker.py", timeout=240)
    assert done.code == 1, done
    cause = done.end["cause"]
    assert (cause["rank"], cause["node"]) == (3, "node1")
    assert cause["exception"] == "RuntimeError: no such batch"
    assert [row["state"] for row in done.end["nodes"]] == ["stopped", "failed", "stopped"]


def test_a_rank_that_exits_7_under_torchrun_makes_it_7(bench: Bench) -> None:
    pytest.importorskip("torch")
    bench.script("import os, sys, time\nif os.environ['RANK'] == '5': sys.exit(7)\ntime.sleep(1000)\n")
    done = bench.run("launch", "--json", "--nproc-per-node", "2", bench.file, "worker.py", timeout=240)
    assert done.code == 7, done
    assert (done.end["cause"]["rank"], done.end["cause"]["node"]) == (5, "node2")
    assert done.end["cause"]["host"] == bench.cluster.hosts[2].address
