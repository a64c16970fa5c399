"""Two launches never get the same GPUs, whosever they are; what a dead run left is ended when asked, and no more."""

from __future__ import annotations

import json
import os
import pty
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.host import Host, end
from tests.jobs.bench import SMI, Bench, Done, Running, eventually

pytestmark = pytest.mark.cluster

ROUNDS = int(os.environ.get("NCCLRUN_TEST_ROUNDS", "2"))


@pytest.fixture(autouse=True)
def gpus(bench: Bench) -> Iterator[None]:
    """Two GPUs on each host, as far as nvidia-smi tells."""
    paths = [host.write("/usr/local/bin/nvidia-smi", SMI, mode=0o755) for host in bench.cluster.hosts]
    yield
    for path in paths:
        path.unlink()


@pytest.fixture
def others(bench: Bench, tmp_path: Path) -> str:
    """The cluster file of another user of the same hosts."""
    directory = tmp_path / "others"
    directory.mkdir()
    return str(bench.cluster.write_yaml(directory, user="trainer"))


def sleeping(file: str, run_id: str) -> tuple[str, ...]:
    """A launch of something that lives until it is stopped."""
    return (
        "launch",
        "--json",
        "--launcher",
        "exec",
        "--nproc-per-node",
        "1",
        "--run-id",
        run_id,
        file,
        "sleep",
        "1000",
    )


def stop(running: Running) -> Done:
    running.press(signal.SIGINT)
    return running.wait()


def runs(running: Running) -> bool:
    return len(running.events("node")) >= 3


def over(running: Running) -> bool:
    return running.process.poll() is not None


def decided(two: list[Running]) -> bool:
    """Whether each of them runs everywhere or has ended."""
    return all(runs(one) or over(one) for one in two)


def holding(bench: Bench, run_id: str, **options: str) -> Running:
    """A run that lives until it is stopped, on all hosts."""
    running = bench.start_sh("sleep 1000", options=("--run-id", run_id, *options.get("more", "").split()))
    running.until(lambda: runs(running))
    return running


class TestTwoLaunches:
    def test_at_once_one_wins_on_all_nodes(self, bench: Bench, others: str) -> None:
        users = {"root": bench.file, "trainer": others}
        for number in range(ROUNDS):
            two = [bench.start(*sleeping(file, f"{user}-{number}")) for user, file in users.items()]
            assert eventually(partial(decided, two), 60)
            losers = [one.so_far() for one in two if over(one)]
            assert [one.code for one in losers] == [3], [one.so_far() for one in two]
            winner = "trainer" if losers[0].end["run_id"].startswith("root") else "root"
            refusals = losers[0].of("refused")
            assert {one["code"] for one in refusals} == {"gpu_locked"}
            assert f"GPUs 0, 1 are held by {winner}'s run {winner}-{number}" in refusals[0]["message"]
            assert f"ask {winner}" in refusals[0]["fix"]
            assert losers[0].of("node") == []
            assert stop(next(one for one in two if not over(one))).code == 130

    def test_the_locks_outlive_the_one_who_launched(self, bench: Bench) -> None:
        first = holding(bench, "first")
        first.process.kill()
        first.wait()
        done = bench.sh("true")
        assert done.code == 3
        (refusal,) = done.of("refused")
        assert "GPUs 0, 1 are held by your run first" in refusal["message"]
        assert "ncclrun stop first" in refusal["fix"]
        assert bench.run("stop", "first").code == 0

    def test_each_on_its_own_gpu_go_together_and_on_the_same_when_told(self, bench: Bench) -> None:
        first = holding(bench, "first", more="--env CUDA_VISIBLE_DEVICES=0")
        assert bench.sh("true", options=("--env", "CUDA_VISIBLE_DEVICES=1")).code == 0
        assert bench.sh("true").code == 3
        assert bench.sh("true", options=("--share-gpus",)).code == 0
        assert stop(first).code == 130


class TestGpusInUse:
    def test_who_is_on_them_is_told(self, bench: Bench) -> None:
        host = bench.cluster.hosts[1]
        pid = host.exec(["/bin/sh", "-c", "sleep 31415 >/dev/null 2>&1 & echo $!"], user="trainer").stdout.strip()
        apps = host.write("/run/gpu-apps", f"{pid}, GPU-{host.name}-1, 72704, sleep\n")
        try:
            done = bench.sh("true")
        finally:
            apps.unlink()
            end(next(process.pid for process in host.processes() if process.command == "sleep 31415"))
        assert done.code == 0
        (warning,) = [event for event in done.of("warning") if "in use" in event["text"]]
        assert warning["node"] == host.name
        assert warning["text"].startswith("GPU 1 is in use by trainer: sleep 31415 for ")
        assert warning["text"].endswith(", 71 GiB")


ALONE = ("--nodes", "1")


def dead_run(bench: Bench) -> Host:
    """A run on the second host whose supervisor, its warden and controller are dead, while something of it lives."""
    running = bench.start_sh("setsid sleep 27182 & sleep 1000", options=("--run-id", "dead", *ALONE))
    running.until(lambda: running.events("node"))
    running.process.kill()
    running.wait()
    host = bench.cluster.hosts[1]
    (state,) = host.path("/root/.local/state/ncclrun/runs").glob("dead/0-*/state.json")
    pid = supervisor_of(state)
    host.exec(["/bin/sh", "-c", f"read -r _ _ _ warden _ < /proc/{pid}/stat; kill -9 $warden {pid}"], check=True)
    return host


def supervisor_of(state: Path) -> int:
    return int(json.loads(state.read_text())["supervisor"]["pid"])


class TestLeftovers:
    def lives(self, host: Host) -> bool:
        return any("sleep 27182" in process.command for process in host.processes_with("NCCLRUN_COOKIE=dead/"))

    def test_are_told_and_exactly_they_are_ended_when_asked(self, bench: Bench) -> None:
        host = dead_run(bench)
        done = bench.sh("true", options=ALONE)
        assert done.code == 3
        (refusal,) = done.of("refused")
        assert (refusal["code"], refusal["node"]) == ("leftover", host.name)
        assert "your run dead is dead there" in refusal["message"]
        assert "sleep 27182" in refusal["message"]
        assert self.lives(host)
        done = bench.sh("exit 7", options=(*ALONE, "--clean-leftovers"))
        assert done.code == 7
        assert not self.lives(host)

    def test_at_a_terminal_they_are_offered(self, bench: Bench) -> None:
        host = dead_run(bench)
        assert answering(bench, "\n").code == 3
        assert self.lives(host)
        assert answering(bench, "y\n").code == 0
        assert not self.lives(host)


def answering(bench: Bench, typed: str) -> Done:
    """A launch on the second host by somebody at a terminal who types that when asked."""
    ours, theirs = pty.openpty()
    try:
        running = bench.start("launch", "--launcher", "exec", *ALONE, bench.file, "true", stdin=theirs)
        running.until_said("End exactly these processes, and start? [y/N]")
        os.write(ours, typed.encode())
        return running.wait()
    finally:
        os.close(ours)
        os.close(theirs)
