"""What runs where, found from this machine and from another one; the history; and old runs removed."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.jobs.bench import COOKIE, Bench, Done, Event, Running, eventually, run_directories

pytestmark = pytest.mark.cluster

SAYING = "echo hello from $RANK; exec sleep 600"
SMI = """#!/bin/sh
case $1 in
--query-compute-apps=*)
  for p in /proc/[0-9]*; do
    tr '\\0' '\\n' < $p/environ 2>/dev/null | grep -q '^LOCAL_RANK=0$' &&
      echo "${p#/proc/}, GPU-0, 2048, $(tr '\\0' ' ' < $p/cmdline)"
  done ;;
*) echo "ROW" ;;
esac
"""


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


class TestStatus:
    def test_tells_of_each_node_what_people_ask(self, bench: Bench) -> None:
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
        stop(bench, run_id)
        ended = bench.run("status", "--json")
        assert ([row["state"] for row in rows(ended)], ended.code) == (["ended"] * 3, 0)

    def test_of_a_host_that_is_cut_off_the_last_contact_is_told(self, bench: Bench) -> None:
        run_id = left(bench)
        bench.yaml(ssh={"connect_timeout": 3})
        bench.cluster.hosts[1].cut("management")
        done = bench.run("status", run_id, "--json")
        assert done.code == 255, done
        assert [row["state"] for row in rows(done)] == ["running", "unknown", "running"]
        assert 0 < time.time() - rows(done)[1]["since"] < 600
        name = bench.cluster.hosts[1].name
        assert f"{name} not reached" in done.end["reason"]
        from_a_file = bench.run("status", "--cluster", bench.file, "--json")
        assert from_a_file.code == 255
        assert {row["node"]: row["state"] for row in rows(from_a_file)}[name] == "unknown"
        bench.cluster.mend()
        stop(bench, run_id)

    def test_of_another_machine_finds_all_runs_on_the_nodes(self, bench: Bench) -> None:
        first = left(bench)
        move(bench)
        second = left(bench)
        move_again = bench.directory / "third"
        bench.env["XDG_STATE_HOME"] = str(move_again)
        done = bench.run("status", "--cluster", bench.file, "--json")
        assert done.code == 0, done
        assert [(row["run_id"], row["ranks"]) for row in rows(done)] == [
            (run_id, ranks) for run_id in (first, second) for ranks in ("0-1", "2-3", "4-5")
        ]
        assert not move_again.exists() or not list(move_again.rglob("run.json"))
        one = bench.run("status", second, "--cluster", bench.file, "--json")
        assert {row["run_id"] for row in rows(one)} == {second}
        for run_id in (first, second):
            done = bench.run("stop", run_id, "--kill", "--cluster", bench.file)
            assert done.code == 0, done

    def test_a_killed_supervisor_is_told_as_lost_with_what_mends_it(self, bench: Bench) -> None:
        run_id = left(bench, "setsid sleep 601 & echo $RANK; exec sleep 600", options=("--grace", "1"))
        host = bench.cluster.hosts[2]
        (part,) = run_directories(host)
        state = json.loads((part / "state.json").read_text())
        host.exec("kill", "-9", str(state["supervisor"]["pid"]))
        assert eventually(lambda: {row["state"] for row in rows(bench.run("status", "--json"))} & {"lost", "ended"})
        stop(bench, run_id)

    def test_gpus_are_those_that_the_run_holds(self, bench: Bench) -> None:
        from ncclrun.node import gpus

        said = {"index": "0", "uuid": "GPU-0", "name": "A100", "memory.total": "81920", "driver_version": "570.1"}
        row = ", ".join(said.get(name, "0") for name in gpus.QUERY.split(","))
        host = bench.cluster.hosts[0]
        path = host.path("/opt/bin/nvidia-smi")
        path.parent.mkdir(parents=True, exist_ok=True)
        run_id = left(bench)
        path.write_text(SMI.replace("ROW", row))
        path.chmod(0o755)
        try:
            done = bench.run("status", "--json")
        finally:
            path.unlink()
        assert rows(done)[0]["gpus"] == [{"index": 0, "uuid": "GPU-0", "memory": 2048}], done
        assert rows(done)[1]["gpus"] is None
        stop(bench, run_id)


class TestFromElsewhere:
    def test_attach_follows_a_run_that_another_machine_started(self, bench: Bench) -> None:
        run_id = left(bench, "i=0; while [ $i -lt 40 ]; do echo $RANK $i; i=$((i+1)); sleep 0.1; done; exit $RANK")
        move(bench)
        done = bench.run("attach", "--cluster", bench.file, "--json")
        assert done.end["run_id"] == run_id
        assert done.code == 1, done
        assert {rank: len(lines) for rank, lines in done.lines.items()} == dict.fromkeys(range(6), 40)
        assert done.end["cause"]["rank"] == 1

    def test_a_node_that_does_not_answer_is_found_by_the_others_word(self, bench: Bench) -> None:
        run_id = left(bench)
        move(bench)
        bench.yaml(ssh={"connect_timeout": 3})
        bench.cluster.hosts[1].cut("management")
        done = bench.run("stop", "--kill", "--cluster", bench.file, "--json")
        assert done.code == 255, done
        confirmed = {row["node"]: row["confirmed"] for row in done.end["nodes"]}
        assert confirmed == {host.name: at != 1 for at, host in enumerate(bench.cluster.hosts)}
        bench.cluster.mend()
        done = bench.run("stop", run_id, "--kill", "--cluster", bench.file)
        assert done.code == 0, done

    def test_a_run_that_is_not_there_is_refused_with_those_that_are(self, bench: Bench) -> None:
        none = bench.run("attach", "--cluster", bench.file)
        assert (none.code, "no run of yours is on the nodes" in none.err) == (2, True)
        run_id = left(bench)
        done = bench.run("attach", "never", "--cluster", bench.file)
        assert (done.code, run_id in done.err) == (2, True), done
        stop(bench, run_id)


class TestHistory:
    def test_tells_how_each_run_ended_and_open_ones_first(self, bench: Bench) -> None:
        bench.sh("true")
        bench.sh("[ $RANK = 2 ] && exit 7; exec sleep 600", options=("--grace", "1"))
        run_id = left(bench)
        done = bench.run("runs", "--json")
        assert done.code == 0, done
        told = [(run["state"], run["exit_code"], run["reason"]) for run in done.of("recorded_run")]
        assert told == [("open", None, ""), ("ended", 0, "finished"), ("ended", 7, "failed")]
        assert "rank 2" in done.of("recorded_run")[2]["cause"]
        assert all(run["nodes"] == [host.name for host in bench.cluster.hosts] for run in done.of("recorded_run"))
        plain = bench.run("runs")
        assert "exit code 7" in plain.out
        assert plain.out.index(run_id) < plain.out.index("finished")
        stop(bench, run_id)

    def test_a_machine_without_runs_says_so_quietly(self, bench: Bench) -> None:
        done = bench.run("runs")
        assert (done.code, done.out) == (0, "")

    def test_a_damaged_record_hides_no_other(self, bench: Bench) -> None:
        bench.sh("true")
        (run,) = bench.runs_here()
        bad = run.with_name("bad")
        bad.mkdir()
        (bad / "run.json").write_text("{")
        done = bench.run("runs", "--json")
        assert [one["run_id"] for one in done.of("recorded_run")] == [run.name]
        assert "bad" in done.of("warning")[0]["text"]


def age(bench: Bench, run: Path, days: float) -> None:
    """Makes a run have ended so long ago, here and on the nodes."""
    ends = [run / "end.json", *(part / "exit.json" for host in bench.cluster.hosts for part in run_directories(host))]
    for end in ends:
        if run.name in (end.parent.name, end.parent.parent.name):
            record = json.loads(end.read_text())
            end.write_text(json.dumps({**record, "ended_at": record["ended_at"] - days * 86400}))


def there(cluster: Cluster) -> set[str]:
    return {part.parent.name for host in cluster.hosts for part in run_directories(host)}


class TestClean:
    def test_removes_what_is_old_here_and_on_the_nodes_and_nothing_else(self, bench: Bench) -> None:
        bench.sh("echo a")
        (old,) = bench.runs_here()
        age(bench, old, 20)
        bench.sh("echo b")
        live = left(bench)
        shown = bench.run("clean", "--dry-run", "--json")
        assert [one["run_id"] for place in shown.of("cleaned") for one in place["removed"]] == [old.name] * 4, shown
        assert old.exists()
        unasked = bench.run("clean")
        assert (unasked.code, old.exists(), "no terminal to ask" in unasked.err) == (2, True, True)
        done = bench.run("clean", "--yes")
        assert done.code == 0, done
        assert old.name in done.out
        assert not old.exists()
        assert old.name not in there(bench.cluster)
        assert len(bench.runs_here()) == 2
        assert len(there(bench.cluster)) == 2
        assert all(host.processes_with(COOKIE) for host in bench.cluster.hosts)
        kept = bench.run("clean", live, "--yes", "--json")
        assert [one["why"] for place in kept.of("cleaned") for one in place["kept"]][:3] == ["it is running"] * 3
        assert live in there(bench.cluster)
        assert (bench.state / "ncclrun/runs" / live / "run.json").exists()
        stop(bench, live)

    def test_a_run_stays_known_here_until_all_its_nodes_have_answered(self, bench: Bench) -> None:
        bench.yaml(ssh={"connect_timeout": 3})
        bench.sh("true")
        (run,) = bench.runs_here()
        bench.cluster.hosts[2].cut("management")
        done = bench.run("clean", run.name, "--yes", "--json")
        assert done.code == 255, done
        assert run.exists()
        assert bench.cluster.hosts[2].name in done.of("cleaned")[-1]["kept"][0]["why"]
        bench.cluster.mend()
        assert bench.run("clean", run.name, "--yes").code == 0
        assert (run.exists(), there(bench.cluster)) == (False, set())

    def test_another_machine_cleans_the_nodes_of_a_cluster_file(self, bench: Bench) -> None:
        bench.sh("true")
        (run,) = bench.runs_here()
        age(bench, run, 3)
        move(bench)
        assert bench.run("clean", "--cluster", bench.file, "--yes").code == 0
        assert there(bench.cluster) == {run.name}
        assert bench.run("clean", "--cluster", bench.file, "--older-than", "2d", "--yes").code == 0
        assert there(bench.cluster) == set()

    def test_here_alone_asks_no_node(self, bench: Bench) -> None:
        bench.sh("true")
        (run,) = bench.runs_here()
        for host in bench.cluster.hosts:
            host.cut("management")
        done = bench.run("clean", run.name, "--here", "--yes")
        bench.cluster.mend()
        assert (done.code, run.exists()) == (0, False), done

    def test_a_slip_in_a_run_id_is_told_before_anything_is_asked(self, bench: Bench) -> None:
        done = bench.run("clean", "never", "--yes")
        assert (done.code, "no run 'never'" in done.err) == (2, True)
