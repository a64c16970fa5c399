"""A job that breaks: the first failure is named, its code is ours, and nothing outlives it on any host."""

from __future__ import annotations

import sys

import pytest

from tests.jobs.bench import Bench, assert_nothing_is_left, eventually, forget_runs, nothing_lives, strangers

pytestmark = pytest.mark.cluster

HIDERS = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signals = "import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; time.sleep(1000)"
quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
subprocess.Popen(["sleep", "1001"], start_new_session=True, **quiet)
subprocess.Popen([sys.executable, "-c", signals], start_new_session=True, **quiet)
subprocess.Popen(["env", "-i", "/usr/bin/setsid", "/bin/sleep", "1002"], **quiet)
# Forked twice, without any environment, with every descriptor closed: nobody's child and nobody's name.
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 100)
        os.execve("/bin/sleep", ["sleep", "1003"], {})
    os._exit(0)
time.sleep(0.5)
print("ready", os.environ["RANK"], flush=True)
"""


@pytest.mark.parametrize(
    ("last_words", "code", "how"),
    [
        ("sys.exit(7)", 7, "exit code 7"),
        ("raise ValueError('no such batch')", 1, "exit code 1"),
        ("os.kill(os.getpid(), 9)", 137, "signal 9 (SIGKILL)"),
        ("os.kill(os.getpid(), 11)", 139, "signal 11 (SIGSEGV)"),
    ],
    ids=["exit 7", "exception", "SIGKILL", "SIGSEGV"],
)
def test_one_rank_breaks_and_everything_goes(bench: Bench, last_words: str, code: int, how: str) -> None:
    bench.script(f"{HIDERS}\nif os.environ['RANK'] == '4':\n    {last_words}\ntime.sleep(1000)\n")
    done = bench.exec(sys.executable, "worker.py", nproc=2, options=("--grace", "1"))
    assert done.code == code, done
    cause = done.end["cause"]
    assert (cause["rank"], cause["node"], cause["host"]) == (4, "node2", bench.cluster.hosts[2].address)
    assert cause["how"] == how
    if code == 1:
        assert cause["exception"] == "ValueError: no such batch"
    assert [row["confirmed"] for row in done.end["nodes"]] == [True] * 3
    assert [row["state"] for row in done.end["nodes"]] == ["stopped", "stopped", "failed"]
    assert_nothing_is_left(bench.cluster)


def test_a_good_end_takes_the_leftovers_too(bench: Bench) -> None:
    bench.script(HIDERS)
    done = bench.exec(sys.executable, "worker.py", nproc=2)
    assert done.code == 0, done
    assert {rank: lines[-1] for rank, lines in done.lines.items()} == {rank: f"ready {rank}" for rank in range(6)}
    assert_nothing_is_left(bench.cluster)


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


def test_a_rank_that_ends_well_before_the_others_is_no_failure(bench: Bench) -> None:
    done = bench.sh("test $RANK = 0 || sleep 1; echo end")
    assert done.code == 0
    assert done.lines == {0: ["end"], 1: ["end"], 2: ["end"]}


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


def test_a_host_that_loses_power_ends_the_job_with_255(bench: Bench) -> None:
    job = bench.start_sh("exec sleep 1000")
    job.until(lambda: len(job.events("node")) == 3)
    bench.cluster.hosts[1].kill()
    done = job.wait()
    assert done.code == 255, done
    assert (done.end["cause"]["node"], done.end["cause"]["rank"]) == ("node1", None)
    assert [row["confirmed"] for row in done.end["nodes"]] == [True, False, True]
    bench.cluster.hosts[1].reboot()
    forget_runs(bench.cluster.hosts[1])  # a host without power could not write how its part ended


def test_a_host_that_was_rebooted_is_lost_at_once(bench: Bench) -> None:
    job = bench.start_sh("exec sleep 1000")
    job.until(lambda: len(job.events("node")) == 3)
    bench.cluster.hosts[1].reboot()
    done = job.wait()
    assert done.code == 255, done
    assert "rebooted" in done.end["nodes"][1]["detail"]
    forget_runs(bench.cluster.hosts[1])
