"""What runs where, found from this machine and from another one; the history; and old runs removed."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.jobs.bench import COOKIE, Bench, Done, Event, Running, run_directories

pytestmark = pytest.mark.cluster

SAYING = "echo hello from $RANK; exec sleep 600"


def left(bench: Bench, text: str = SAYING, **options: Any) -> str:
    """A run whose ncclrun was killed, two workers a host; its id."""
    job = bench.start_sh(text, nproc=2, **options)
    job.until(lambda: len(job.events("log")) >= 6)
    killed(job)
    return str(job.events("run")[0]["run_id"])


def killed(job: Running) -> None:
    job.process.send_signal(signal.SIGKILL)
    job.process.wait()


def move(bench: Bench) -> None:
    """From now on the commands are typed on another machine: nothing is known here."""
    bench.state = bench.directory / "other"
    bench.env["XDG_STATE_HOME"] = str(bench.state)


def rows(done: Done) -> list[Event]:
    return done.of("run_on_node")


def stop(bench: Bench, run_id: str) -> None:
    done = bench.run("stop", run_id, "--kill")
    assert done.code == 0, done


def test_what_runs_in_containers_is_no_leftover_of_the_machine_that_they_are_on(bench: Bench) -> None:
    run_id = left(bench)
    done = bench.run("status", "--json", "--hosts", "localhost")
    assert done.code == 0, done
    assert all(host.processes_with(COOKIE) for host in bench.cluster.hosts)
    assert run_id not in [event["run_id"] for event in done.of("left_on_node")]
    stop(bench, run_id)


def test_status_tells_of_each_node_what_people_ask_here_and_elsewhere(bench: Bench) -> None:
    before = time.time() - 1
    run_id = left(bench)
    done = bench.run("status", "--json")
    assert done.code == 0, done
    assert [row["node"] for row in rows(done)] == [host.name for host in bench.cluster.hosts]
    assert [row["ranks"] for row in rows(done)] == ["0-1", "2-3", "4-5"]
    for row in rows(done):
        assert (row["run_id"], row["state"], row["ranks_alive"]) == (run_id, "running", 2)
        assert row["last"] == f"hello from {row['last_rank']}"
        assert before < row["started_at"] < time.time()
        assert before < row["since"] < time.time()
        assert row["program"] == "/bin/sh"
        assert "@" in row["by"]
    plain = bench.run("status")
    assert all(host.name in plain.out for host in bench.cluster.hosts), plain
    assert f"run {run_id} goes on" in plain.err
    move(bench)
    done = bench.run("status", "--cluster", bench.file, "--json")
    assert done.code == 0, done
    assert [(row["run_id"], row["ranks"]) for row in rows(done)] == [(run_id, r) for r in ("0-1", "2-3", "4-5")]
    assert not list(bench.state.rglob("run.json"))
    done = bench.run("stop", "--kill", "--cluster", bench.file)
    assert done.code == 0, done


def test_a_host_that_is_cut_off_is_unknown_since_its_last_word_and_found_by_the_others(bench: Bench) -> None:
    run_id = left(bench)
    bench.yaml(ssh={"connect_timeout": 3})
    cut = bench.cluster.hosts[1]
    cut.cut("management")
    done = bench.run("status", run_id, "--json")
    assert done.code == 255, done
    assert [row["state"] for row in rows(done)] == ["running", "unknown", "running"]
    assert 0 < time.time() - rows(done)[1]["since"] < 600
    assert f"{cut.name} not reached" in done.end["reason"]
    # Another machine knows neither the run nor that this host is one of its nodes: the others say so.
    move(bench)
    done = bench.run("stop", "--kill", "--cluster", bench.file, "--json")
    assert done.code == 255, done
    confirmed = {row["node"]: row["confirmed"] for row in done.end["nodes"]}
    assert confirmed == {host.name: host is not cut for host in bench.cluster.hosts}
    bench.cluster.mend()
    done = bench.run("stop", run_id, "--kill", "--cluster", bench.file)
    assert done.code == 0, done


def age(bench: Bench, run: Path, days: float) -> None:
    """Makes a run have ended so long ago, here and on the nodes."""
    parts = [part for host in bench.cluster.hosts for part in run_directories(host) if part.parent.name == run.name]
    for end in (run / "end.json", *(part / "exit.json" for part in parts)):
        record = json.loads(end.read_text())
        end.write_text(json.dumps({**record, "ended_at": record["ended_at"] - days * 86400}))


def there(cluster: Cluster) -> set[str]:
    return {part.parent.name for host in cluster.hosts for part in run_directories(host)}


def test_the_history_and_what_is_old_in_it(bench: Bench) -> None:
    bench.sh("[ $RANK = 2 ] && exit 7; exec sleep 600", options=("--grace", "1"))
    (old,) = bench.runs_here()
    live = left(bench)
    done = bench.run("runs", "--json")
    assert done.code == 0, done
    told = [(run["run_id"], run["state"], run["exit_code"], run["reason"]) for run in done.of("recorded_run")]
    assert told == [(live, "open", None, ""), (old.name, "ended", 7, "failed")]
    assert "rank 2" in done.of("recorded_run")[1]["cause"]
    assert all(run["nodes"] == [host.name for host in bench.cluster.hosts] for run in done.of("recorded_run"))

    age(bench, old, 20)
    unasked = bench.run("clean")
    assert (unasked.code, old.exists(), "no terminal to ask" in unasked.err) == (2, True, True)
    assert [line.split()[:2] for line in unasked.out.splitlines()[1:]] == [
        [where, old.name] for where in (*(host.name for host in bench.cluster.hosts), "here")
    ]
    done = bench.run("clean", "--yes")
    assert done.code == 0, done
    assert not old.exists()
    kept = bench.run("clean", live, "--yes", "--json")
    assert [one["why"] for place in kept.of("cleaned") for one in place["kept"]][:3] == ["it is running"] * 3
    assert there(bench.cluster) == {live}
    assert all(host.processes_with(COOKIE) for host in bench.cluster.hosts)
    assert (bench.state / "ncclrun/runs" / live / "run.json").exists()
    stop(bench, live)
    move(bench)
    # At once: a stop that is confirmed leaves no supervisor that would keep its directory from going.
    done = bench.run("clean", "--cluster", bench.file, "--older-than", "0s", "--yes")
    assert (done.code, there(bench.cluster)) == (0, set()), done
