"""Hosts that have next to nothing, hosts behind others, this machine as a host: the same command serves them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.jobs.bench import COMMAND, ROOT, Bench, assert_nothing_is_left, eventually, strangers

TOOLS = (
    "ip",
    "ifconfig",
    "ss",
    "netstat",
    "ps",
    "pgrep",
    "lsof",
    "sudo",
    "systemctl",
    "nvidia-smi",
    "hostname",
    "setsid",
)


@pytest.mark.cluster
class TestBareHosts:
    def test_without_tools_and_with_an_empty_path(
        self, make_cluster: Callable[..., Cluster], make_bench: Callable[[Cluster], Bench]
    ) -> None:
        bench = make_bench(make_cluster(2, sshd={"SetEnv": "PATH=/nowhere"}))
        for host in bench.cluster.hosts:
            for directory in ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin"):
                host.exec(["rm", "-f", *(f"{directory}/{tool}" for tool in TOOLS)], check=True)
        done = bench.sh("test $RANK = 1 && exit 7; while :; do read x </dev/tty1; done; echo $PATH")
        assert done.code == 7, done
        done = bench.sh("echo $NCCL_SOCKET_IFNAME $PATH")
        assert done.code == 0, done
        assert done.lines == {0: ["=eth1 /nowhere"], 1: ["=enp7s0 /nowhere"]}
        assert_nothing_is_left(bench.cluster)

    @pytest.mark.parametrize("home", ["another's", "missing"])
    def test_a_user_whose_home_can_hold_nothing(
        self, make_cluster: Callable[..., Cluster], make_bench: Callable[[Cluster], Bench], home: str
    ) -> None:
        sshd = {"AuthorizedKeysFile": "/etc/ssh/keys", "StrictModes": "no"}
        bench = make_bench(make_cluster(2, sshd=sshd))
        for host in bench.cluster.hosts:
            host.write("/etc/ssh/keys", bench.cluster.key.with_suffix(".pub").read_text())
            shutil.rmtree(host.path("/home/trainer"))
            if home == "another's":
                host.exec(["mkdir", "-m", "755", "/home/trainer"], check=True)
        bench.cluster.write_yaml(bench.directory, user="trainer")
        done = bench.sh("echo $(id -un) $RANK")
        assert done.code == 0, done
        assert done.lines == {0: ["trainer 0"], 1: ["trainer 1"]}
        for host in bench.cluster.hosts:
            assert list(host.path("/var/tmp/ncclrun-2000/ncclrun/runs").glob("*/*/exit.json"))
            assert host.path("/var/tmp/ncclrun-2000").stat().st_mode & 0o7777 == 0o700
        assert "/var/tmp/ncclrun-2000" in done.out + done.err
        assert eventually(lambda: not any(strangers(host) for host in bench.cluster.hosts))

    def test_the_trainer_runs_like_root(self, bench: Bench) -> None:
        bench.cluster.write_yaml(bench.directory, user="trainer")
        done = bench.sh("id -un; setsid sleep 1008 & test $RANK != 2 || exit 3; exec sleep 1000")
        assert done.code == 3, done
        assert done.lines == {rank: ["trainer"] for rank in range(3)}


@pytest.mark.cluster
class TestWaysToAHost:
    def test_one_that_is_reached_only_through_another(self, bench: Bench) -> None:
        gateway, hidden, third = bench.cluster.hosts
        known = bench.directory / "known_hosts"
        own = bench.cluster.known_hosts.read_text()
        known.write_text(f"{own}{hidden.data_address} {hidden.public_host_key()}\n")
        through = f"root@{gateway.address}:22"
        nodes = {1: {"host": hidden.data_address, "gateway": through}}
        bench.yaml(ssh={"known_hosts": str(known)}, nodes=nodes)
        hidden.cut("management")
        done = bench.sh("echo $RANK; exit $RANK")
        assert done.code in (1, 2)
        assert done.lines == {rank: [str(rank)] for rank in range(3)}
        # The hop's own key is checked like any other.
        known.write_text(own.replace(gateway.public_host_key(), third.public_host_key()))
        done = bench.sh("sleep 1000", options=("--nodes", "1"))
        assert done.code == 255
        assert done.of("unreachable")[0]["reason"] in ("changed_key", "gateway")
        assert gateway.address in done.of("unreachable")[0]["message"]
        # And the hidden host's as well.
        known.write_text(own)
        done = bench.sh("sleep 1000", options=("--nodes", "1"))
        assert done.code == 255
        assert done.of("unreachable")[0]["reason"] == "unknown_key"

    @pytest.fixture
    def person(self, bench: Bench) -> Bench:
        """Somebody whose ~/.ssh knows the hosts by name."""
        ssh = bench.directory / "home/.ssh"
        ssh.mkdir(parents=True, mode=0o700)
        shutil.copy(bench.cluster.ssh_config, ssh / "config")
        shutil.copy(bench.cluster.known_hosts, ssh / "known_hosts")
        bench.env["HOME"] = str(bench.directory / "home")
        return bench

    def test_hosts_are_named_on_the_command_line(self, person: Bench) -> None:
        words = ("--launcher", "exec", "--json", "--hosts", "node0,root@node2", "/bin/sh", "-c", "hostname")
        done = person.run("launch", *words)
        assert done.code == 0, done
        assert done.lines == {0: ["node0"], 1: ["node2"]}

    def test_a_hostfile_says_hosts_and_slots(self, person: Bench) -> None:
        (person.work / "hosts").write_text("# two boxes\nnode[0-1] slots=2\n")
        done = person.run("launch", "--launcher", "exec", "--json", "hosts", "/bin/sh", "-c", "hostname")
        assert done.code == 0, done
        assert done.lines == {0: ["node0"], 1: ["node0"], 2: ["node1"], 3: ["node1"]}


class TestThisMachine:
    """Needs neither root nor sshd: a node that is this machine is a subprocess."""

    @staticmethod
    def launch(tmp_path: Path, file: Path, *words: str) -> tuple[int, list[str]]:
        env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        argv = [*COMMAND, "launch", "--launcher", "exec", str(file), *words]
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, sorted(done.stdout.splitlines())

    def test_twice_as_the_example_has_it(self, tmp_path: Path) -> None:
        code, lines = self.launch(tmp_path, ROOT / "cluster.example.yaml", "/bin/sh", "-c", "echo $RANK/$WORLD_SIZE")
        assert code == 0
        assert lines == ["first  0 | 0/4", "first  1 | 1/4", "second 2 | 2/4", "second 3 | 3/4"]

    def test_a_failure_on_one_stops_the_other(self, tmp_path: Path) -> None:
        words = "test $RANK = 2 && exit 7; exec sleep 1000"
        code, _ = self.launch(tmp_path, ROOT / "cluster.example.yaml", "/bin/sh", "-c", words)
        assert code == 7
