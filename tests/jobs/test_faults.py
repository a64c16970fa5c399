"""What happens to a run when links, terminals and hosts do not keep to the rules."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.jobs.bench import COMMAND, Bench, eventually, nothing_lives, strangers

pytestmark = pytest.mark.cluster

FLOOD = "i=0; while [ $i -lt 40000 ]; do echo line $i of many; i=$((i+1)); done; exec sleep 1000"


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["lines", "json"])
def test_a_reader_that_stopped_reading_holds_up_neither_the_job_nor_a_ctrl_c(bench: Bench, form: list[str]) -> None:
    read, write = os.pipe()
    words = [*COMMAND, "launch", *form, "--launcher", "exec", "--grace", "1", bench.file, "/bin/sh", "-c", FLOOD]
    with (bench.directory / "stderr").open("wb") as errors:
        command = subprocess.Popen(
            words, cwd=bench.work, env=bench.env, stdin=subprocess.DEVNULL, stdout=write, stderr=errors
        )
    os.close(write)
    try:
        assert eventually(lambda: all("sleep 1000" in strangers(host) for host in bench.cluster.hosts))
        command.send_signal(signal.SIGINT)
        assert command.wait(30) == 130
        assert eventually(lambda: nothing_lives(bench.cluster))
    finally:
        command.kill()
        command.wait()
        os.close(read)


def test_a_link_cut_off_under_the_start_is_told_and_what_started_is_stopped(bench: Bench) -> None:
    job = bench.start_sh("exec sleep 60")
    job.until(lambda: len(job.events("prepared")) == 3)
    bench.cluster.hosts[1].cut("management")
    job.until(lambda: job.events("unreachable") or any(e["state"] == "unknown" for e in job.events("node")))
    bench.cluster.hosts[1].heal()
    told_at_start = job.events("unreachable")
    if not told_at_start:  # the cut came a moment late: a link that comes back in time costs nothing
        job.press()
    done = job.wait()
    assert done.code == (255 if told_at_start else 130), done
    # A cut that came before START has started nothing.
    nodes = [] if done.end["reason"] == "nothing was started" else [True] * 3
    assert [row["confirmed"] for row in done.end["nodes"]] == nodes
    # The old channel's node part hears that its controller has gone from the silence alone.
    assert eventually(lambda: nothing_lives(bench.cluster), 90)


def test_two_do_not_write_the_same_logs(bench: Bench) -> None:
    job = bench.start_sh("echo 1; while ! test -e /root/go; do sleep 0.05; done; echo 2")
    job.until(lambda: len(job.events("log")) == 3)
    second = bench.start("attach")
    second.until_said("another ncclrun follows run")
    for host in bench.cluster.hosts:
        host.write("/root/go", "")
    assert second.wait().code == 0, second.so_far()
    assert job.wait().lines == {rank: ["1", "2"] for rank in range(3)}
    assert (bench.runs_here()[0] / "logs/rank0.out").read_text() == "1\n2\n"
    for host in bench.cluster.hosts:
        host.path("/root/go").unlink()
