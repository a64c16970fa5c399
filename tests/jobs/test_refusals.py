"""All or nothing: what can't be reached or prepared is told for every node at once, and nothing was started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.jobs.bench import Bench, assert_nothing_is_left, assert_nothing_was_started, run_directories

pytestmark = pytest.mark.cluster


class TestTheFileIsWrong:
    def test_every_fault_is_told_with_its_place_and_nobody_is_called(self, bench: Bench) -> None:
        text = Path(bench.file).read_text()
        Path(bench.file).write_text(text.replace("user: root", "usr: root") + "colour: red\n")
        before = [host.log() for host in bench.cluster.hosts]
        done = bench.exec("true")
        assert done.code == 2
        assert [event["event"] for event in done.events] == ["error", "end"]
        assert f"{bench.file}:3:" in done.err
        assert "usr" in done.err
        assert "user" in done.err
        assert "colour" in done.err
        assert [host.log() for host in bench.cluster.hosts] == before
        assert bench.runs_here() == []

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("launch",), "launch needs a cluster and a script"),
            (("launch", "FILE", "nowhere.py"), "there is no script nowhere.py"),
            (("launch", "--nodes", "9", "FILE", "worker.py"), "9"),
            (("launch", "--run-id", "../x", "FILE", "worker.py"), "can't be a run id"),
            (("launch", "--env", "1x=2", "FILE", "worker.py"), "can't be a variable's name"),
            (("launch", "--env", "NOT_SET_ANYWHERE", "FILE", "worker.py"), "does not export NOT_SET_ANYWHERE"),
            (("launch", "--launcher", "mpi", "FILE", "worker.py"), "mpi"),
            (("launch", "--no-such-option", "FILE", "worker.py"), "--no-such-option"),
            (("launch", "/nowhere/cluster.yaml", "worker.py"), "/nowhere/cluster.yaml"),
            (("logs", "no-such-run"), "no-such-run"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
    )
    def test_so_is_a_wrong_command_line(self, bench: Bench, words: tuple[str, ...], said: str) -> None:
        bench.script("")
        done = bench.run(*(bench.file if word == "FILE" else word for word in words))
        assert done.code == 2, done
        assert said in done.err
        assert "Traceback" not in done.err
        assert bench.runs_here() == []


class TestHostsThatCantBeReached:
    def test_a_refused_port_and_a_name_that_is_none_are_both_told(self, bench: Bench) -> None:
        bench.yaml(nodes={1: {"port": 1}, 2: {"host": "no-such-host.invalid"}})
        done = bench.sh("sleep 1000")
        assert_nothing_was_started(bench, done, 255)
        assert {event["node"]: event["reason"] for event in done.of("unreachable")} == {
            "node1": "refused",
            "node2": "name",
        }
        assert_no_run_on_any_host(bench)

    def test_an_unknown_host_key_is_shown_with_the_command_that_accepts_it(self, bench: Bench) -> None:
        known = bench.directory / "known_hosts"
        lines = bench.cluster.home.joinpath("known_hosts").read_text().splitlines(keepends=True)
        known.write_text("".join(line for line in lines if not line.startswith(bench.cluster.hosts[2].address)))
        bench.yaml(ssh={"known_hosts": str(known)})
        done = bench.sh("sleep 1000")
        assert_nothing_was_started(bench, done, 255)
        (event,) = done.of("unreachable")
        assert (event["node"], event["reason"]) == ("node2", "unknown_key")
        assert fingerprint(bench, 2) in event["message"]
        assert f"ncclrun trust {bench.file}" in event["fix"]
        assert known.read_text().count("\n") == 2
        assert_no_run_on_any_host(bench)

    @pytest.mark.parametrize("host_keys", ["strict", "accept-new"])
    def test_a_changed_host_key_is_refused_whatever_the_file_says(
        self, make_cluster: Callable[..., Cluster], make_bench: Callable[[Cluster], Bench], host_keys: str
    ) -> None:
        bench = make_bench(make_cluster(2))
        bench.yaml(ssh={"host_keys": host_keys})
        assert bench.sh("true").code == 0
        bench.cluster.hosts[1].swap_host_key()
        known = bench.cluster.home.joinpath("known_hosts").read_text()
        done = bench.sh("sleep 1000")
        assert done.code == 255
        (event,) = done.of("unreachable")
        assert (event["node"], event["reason"]) == ("node1", "changed_key")
        assert fingerprint(bench, 1) in event["message"]
        assert bench.cluster.home.joinpath("known_hosts").read_text() == known
        assert_nothing_is_left(bench.cluster)

    def test_accept_new_takes_an_unknown_key_once_and_notes_it(self, bench: Bench) -> None:
        known = bench.directory / "known_hosts"
        bench.yaml(ssh={"known_hosts": str(known), "host_keys": "accept-new"})
        assert bench.sh("true").code == 0
        assert all(host.public_host_key() in known.read_text() for host in bench.cluster.hosts)
        bench.yaml(ssh={"known_hosts": str(known)})
        assert bench.sh("true").code == 0


class TestNodesThatCantPrepare:
    def test_no_python_on_one_and_no_torch_on_another_are_both_told(self, bench: Bench) -> None:
        # -S: the same Python without its packages
        wrapper = f'#!/bin/sh\nexec {sys.executable} -S "$@"\n'
        bench.cluster.hosts[1].write("/root/bare/python", wrapper, mode=0o755)
        bench.yaml(nodes={1: {"python": "/root/bare/python"}, 2: {"python": "/opt/nothing/python"}})
        bench.script("")
        done = bench.run("launch", "--json", bench.file, "worker.py")
        assert_nothing_was_started(bench, done, 3)
        refused = {event["node"]: event for event in done.of("refused")}
        for name in ("code", "id"):
            assert {node: event[name] for node, event in refused.items()} == {"node1": "no_torch", "node2": "no_python"}
        assert "pip install torch" in refused["node1"]["fix"]
        assert "/opt/nothing/python" in refused["node2"]["message"]
        assert_no_run_on_any_host(bench)

    def test_a_script_that_differs_on_one_host(self, bench: Bench) -> None:
        for host in bench.cluster.hosts:
            host.write("/root/job/train.py", "print(1)\n" if host.index != 2 else "print(2)\n")
        bench.yaml(launch={"workdir": "/root/job", "python": sys.executable})
        done = bench.run("launch", "--json", bench.file, "train.py")
        assert_nothing_was_started(bench, done, 3)
        (error,) = done.of("error")
        assert "train.py is not the same file on all nodes" in error["message"]
        assert all(f"node{index}: " in error["message"] for index in range(3))
        assert_no_run_on_any_host(bench)

    def test_a_workdir_that_one_host_has_not(self, bench: Bench) -> None:
        for host in bench.cluster.hosts[:2]:
            host.write("/root/job/train.py", "print(1)\n")
        bench.cluster.hosts[2].exec(["rm", "-rf", "/root/job"], check=True)
        bench.yaml(launch={"workdir": "/root/job", "python": sys.executable})
        done = bench.sh("sleep 1000")
        assert_nothing_was_started(bench, done, 3)
        assert [event["node"] for event in done.of("refused")] == ["node2"]
        assert "/root/job" in done.of("refused")[0]["message"]

    def test_a_master_port_that_somebody_has(self, bench: Bench) -> None:
        program = "import socket, sys; s = socket.create_server(('', 29555)); print(1, flush=True); sys.stdin.read()"
        command = bench.cluster.hosts[0].command([sys.executable, "-c", program])
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"1\n"
            done = bench.sh("sleep 1000", options=("--master-port", "29555"), timeout=30)
        assert_nothing_was_started(bench, done, 3)
        (event,) = done.of("refused")
        assert event["node"] == "node0"
        assert "29555" in event["message"]
        assert event["fix"]
        assert_no_run_on_any_host(bench)

    def test_a_data_network_that_is_cut_shows_before_the_start(self, bench: Bench) -> None:
        bench.cluster.hosts[2].cut("data")
        done = bench.sh("sleep 1000")
        assert_nothing_was_started(bench, done, 3)
        (error,) = done.of("error")
        assert "node2 (ens5f0np0 10.77.0.3)" in error["message"]
        assert "node2" in error["fix"]
        assert_no_run_on_any_host(bench)


def test_no_listener_of_the_preparation_stays_on_the_master(bench: Bench) -> None:
    done = bench.sh("exec sleep 1000", options=("--master-port", "29556", "--timeout", "0.5"))
    assert done.code == 124
    shown = bench.cluster.hosts[0].exec(["cat", "/proc/net/tcp"], check=True).stdout
    assert f":{29556:04X} 00000000:0000 0A" not in shown  # 0A: it listens


def fingerprint(bench: Bench, index: int) -> str:
    """SHA256:… of a host's key, as ssh-keygen says it."""
    key = bench.cluster.hosts[index].public_host_key()
    done = subprocess.run(["ssh-keygen", "-lf", "-"], input=key, capture_output=True, text=True, check=True)
    return done.stdout.split()[1]


def assert_no_run_on_any_host(bench: Bench) -> None:
    assert {host.name: run_directories(host) for host in bench.cluster.hosts if host.pid} == {
        host.name: [] for host in bench.cluster.hosts if host.pid
    }
