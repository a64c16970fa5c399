"""A job that breaks: the first failure is named, its code is ours, and nothing outlives it on any host."""

from __future__ import annotations

import pytest

from tests.jobs.bench import Bench, eventually, nothing_lives, strangers

pytestmark = pytest.mark.cluster


def test_people_read_who_broke_first_how_and_who_was_stopped(bench: Bench) -> None:
    words = "test $RANK = 3 || exec sleep 1000; echo 'CUDA error: an illegal memory access' >&2; exit 7"
    done = bench.run("launch", "--launcher", "exec", "--nproc-per-node", "2", bench.file, "/bin/sh", "-c", words)
    assert done.code == 7
    assert f"rank 3 on node1 ({bench.cluster.hosts[1].address}) failed first: exit code 7" in done.err
    assert "| CUDA error: an illegal memory access" in done.err
    assert "ranks 0-1 on node0 stopped; rank 2 on node1 stopped; ranks 4-5 on node2 stopped" in done.err
    assert done.err.rstrip().endswith("exit code 7")


def test_the_first_failure_counts_not_what_follows_from_it(bench: Bench) -> None:
    # The others fail of the stop itself, with codes of their own.
    words = "trap 'exit 40' TERM; test $RANK = 2 && { sleep 0.5; exit 9; }; while :; do sleep 0.1; done"
    done = bench.sh(words)
    assert done.code == 9
    assert done.end["cause"]["rank"] == 2


def test_a_command_that_is_not_there_is_named_with_its_host(bench: Bench) -> None:
    bench.cluster.hosts[0].write("/root/here", "#!/bin/sh\nsleep 1000\n", mode=0o755)
    bench.cluster.hosts[2].write("/root/here", "#!/bin/sh\nsleep 1000\n", mode=0o755)
    done = bench.exec("/root/here")
    assert done.code == 3, done
    assert [event["node"] for event in done.of("refused")] == ["node1"]
    assert "/root/here" in done.of("refused")[0]["message"]
    assert (done.end["reason"], done.of("node")) == ("nothing was started", [])


def test_the_time_limit_ends_it_with_124(bench: Bench) -> None:
    done = bench.sh("exec sleep 1000", options=("--timeout", "1"))
    assert done.code == 124
    assert done.end["reason"] == "timeout"


def test_the_grace_is_given_and_then_no_more(bench: Bench) -> None:
    words = "trap 'echo asked' TERM; test $RANK = 0 && { sleep 0.5; exit 5; }; while :; do sleep 0.1; done"
    done = bench.sh(words, options=("--grace", "1"))
    assert done.code == 5
    assert done.lines[1] == done.lines[2] == ["asked"]
    assert [row["exit"] for row in done.end["nodes"]] == ["5", "SIGKILL", "SIGKILL"]


def test_another_run_and_other_processes_are_not_touched(bench: Bench) -> None:
    other = bench.start_sh("exec sleep 1009")
    other.until(lambda: len(other.events("node")) == 3)
    assert bench.sh("exit 7").code == 7
    assert bench.sh("exit 0").code == 0
    assert all("sleep 1009" in strangers(host) for host in bench.cluster.hosts)
    other.press()
    assert other.wait().code == 130
    assert eventually(lambda: nothing_lives(bench.cluster))
