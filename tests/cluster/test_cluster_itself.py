"""The test cluster keeps its promises: separate hosts, faults that are what they claim, nothing left behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster import registry
from tests.cluster.cluster import Cluster
from tests.cluster.host import Host, answers
from tests.cluster.loopback import Loopback
from tests.cluster.network import namespaces
from tests.cluster.registry import ClusterError

ROOT = Path(__file__).parents[2]


def ssh(cluster: Cluster | Loopback, host: str, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    argv = ["ssh", "-F", str(cluster.home / "ssh_config"), "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", *options]
    return subprocess.run(
        [*argv, host, command], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )


def reaches(host: Host, address: str) -> bool:
    """Whether a connection from inside the host to that address, port 22, comes about."""
    program = f"import socket; socket.create_connection(({address!r}, 22), timeout=2)"
    return host.exec([sys.executable, "-c", program]).returncode == 0


def eventually(true: Callable[[], bool], seconds: float = 10) -> bool:
    """Waits for what comes about by itself; False if it has not by then."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.cluster
class TestHosts:
    def test_each_has_its_own_name_machine_id_and_boot_id(self, cluster3: Cluster) -> None:
        files = "cat /etc/hostname /etc/machine-id /proc/sys/kernel/random/boot_id; hostname"
        answers = [host.exec(["sh", "-c", files], check=True).stdout.split() for host in cluster3.hosts]
        assert [answer[0] for answer in answers] == ["node0", "node1", "node2"]
        assert all(answer[0] == answer[3] for answer in answers)
        assert len({answer[1] for answer in answers}) == len({answer[2] for answer in answers}) == 3

    def test_their_data_interfaces_differ_in_name_and_have_jumbo_frames(self, cluster3: Cluster) -> None:
        assert [host.data_interface for host in cluster3.hosts] == ["eth1", "enp7s0", "ens5f0np0"]
        for host in cluster3.hosts:
            shown = json.loads(host.exec(["ip", "-j", "addr", "show", "dev", host.data_interface], check=True).stdout)[
                0
            ]
            assert shown["mtu"] == 9000
            assert host.data_address in [address["local"] for address in shown["addr_info"]]

    def test_each_sees_only_its_own_interfaces_in_sys(self, cluster3: Cluster) -> None:
        for host in cluster3.hosts:
            names = set(host.exec(["ls", "/sys/class/net"], check=True).stdout.split())
            assert {"lo", "ens3", "eth0", "docker0", host.data_interface} <= names
            assert not any(other.data_interface in names for other in cluster3.hosts if other is not host)

    def test_the_decoys_have_the_same_addresses_everywhere(self, cluster3: Cluster) -> None:
        for host in cluster3.hosts:
            shown = host.exec(["ip", "-4", "-o", "addr"], check=True).stdout
            assert "172.17.0.1/16" in shown
            assert "172.20.0.5/16" in shown
            assert "dev eth0" in host.exec(["ip", "route", "show", "default"], check=True).stdout

    def test_docker0_is_up_with_a_carrier_on_some_and_without_on_others(self, cluster3: Cluster) -> None:
        paths = ["/sys/class/net/docker0/flags", "/sys/class/net/docker0/carrier"]
        shown = [host.exec(["cat", *paths], check=True).stdout.split() for host in cluster3.hosts]
        assert all(int(flags, 16) & 1 for flags, _carrier in shown)
        assert [carrier for _flags, carrier in shown] == ["0", "1", "0"]

    def test_they_reach_each_other_by_the_data_network_alone(self, cluster3: Cluster) -> None:
        first, second, _third = cluster3.hosts
        assert reaches(first, second.data_address)
        assert not reaches(first, second.address)

    def test_the_controller_has_no_way_into_the_data_network(self, cluster3: Cluster) -> None:
        routes = subprocess.run(
            ["ip", "route", "show", "table", "all"], capture_output=True, text=True, check=True
        ).stdout
        assert cluster3.hosts[0].address in routes or cluster3.hosts[0].address.rpartition(".")[0] in routes
        assert "10.77." not in routes

    def test_the_own_host_name_is_a_loopback_address_as_debian_has_it(self, cluster3: Cluster) -> None:
        assert cluster3.hosts[1].exec(["getent", "hosts", "node1"], check=True).stdout.split()[0] == "127.0.1.1"

    @pytest.mark.parametrize("user", ["root", "trainer"])
    def test_both_users_log_in_by_key_and_can_run_this_python(self, cluster3: Cluster, user: str) -> None:
        done = ssh(cluster3, "node2", f"{sys.executable} -c 'import yaml; print(1)'; whoami; pwd", "-l", user)
        assert done.stdout.split() == ["1", user, "/root" if user == "root" else "/home/trainer"], done.stderr

    def test_files_of_one_are_not_seen_by_another_nor_by_this_machine(self, cluster3: Cluster) -> None:
        first, second, _third = cluster3.hosts
        for directory in ("/etc", "/tmp", "/root", "/home", "/dev/shm", "/var/tmp"):
            first.exec(["touch", f"{directory}/only-on-node0"], check=True)
            assert first.path(f"{directory}/only-on-node0").exists()
            assert not second.path(f"{directory}/only-on-node0").exists()
            assert not Path(f"{directory}/only-on-node0").exists()

    def test_write_gives_the_file_to_the_user(self, cluster3: Cluster) -> None:
        cluster3.hosts[0].write("/home/trainer/x/y", "text", mode=0o600, user="trainer")
        assert cluster3.hosts[0].exec(["cat", "x/y"], user="trainer", check=True).stdout == "text"

    def test_orphans_are_reaped(self, cluster3: Cluster) -> None:
        host = cluster3.hosts[0]
        host.exec(["sh", "-c", "for i in 1 2 3 4 5; do (setsid sleep 0.01 &) ; done"], check=True)
        states = ["sh", "-c", "cat /proc/[0-9]*/stat"]
        assert eventually(lambda: ") Z " not in host.exec(states).stdout and "(sleep)" not in host.exec(states).stdout)

    def test_a_process_is_found_by_its_environment_on_its_host_alone(self, cluster3: Cluster) -> None:
        cookie = "NCCLRUN_COOKIE=run/1/secret"
        done = ssh(cluster3, "node1", f"{cookie} setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo ok")
        assert done.stdout == "ok\n"
        assert eventually(lambda: cluster3.processes_with(cookie) == {"node1": ["sleep 1000"]})
        (process,) = cluster3.hosts[1].processes_with(cookie)
        os.kill(process.pid, 9)
        assert eventually(lambda: cluster3.processes_with(cookie) == {})


@pytest.mark.cluster
class TestFaults:
    def test_a_power_cut_says_nothing_to_a_peer_and_a_reboot_does(self, cluster3: Cluster) -> None:
        host = cluster3.hosts[2]
        with socket.create_connection((host.address, 22), timeout=5) as connection:
            assert connection.recv(100).startswith(b"SSH-2.0-OpenSSH")
            host.kill()
            connection.settimeout(0.5)
            with pytest.raises(TimeoutError):
                connection.recv(100)
            assert host.processes() == []
            host.reboot()
            # The new boot knows nothing of the connection: it resets it.
            connection.settimeout(10)
            with pytest.raises(ConnectionError):
                while connection.send(b"hello\r\n"):
                    connection.recv(100)

    def test_a_reboot_keeps_files_and_changes_the_boot_id(self, cluster3: Cluster) -> None:
        host = cluster3.hosts[0]
        host.exec(["sh", "-c", "echo kept > /root/kept; touch /dev/shm/gone /run/gone"], check=True)
        before = host.path("/proc/sys/kernel/random/boot_id").read_text()
        host.reboot()
        assert host.path("/root/kept").read_text() == "kept\n"
        assert not host.path("/dev/shm/gone").exists()
        assert not host.path("/run/gone").exists()
        assert host.exec(["cat", "/proc/sys/kernel/random/boot_id"], check=True).stdout != before
        assert ssh(cluster3, "node0", "echo back").stdout == "back\n"

    def test_a_cut_management_link_is_silent_and_leaves_the_data_network(self, cluster3: Cluster) -> None:
        host, peer, _third = cluster3.hosts
        host.cut("management")
        assert not answers(host.address, 22)
        assert reaches(peer, host.data_address)
        host.heal("management")
        assert answers(host.address, 22)

    def test_a_cut_data_link_leaves_ssh(self, cluster3: Cluster) -> None:
        host, peer, third = cluster3.hosts
        host.cut("data")
        assert not reaches(peer, host.data_address)
        assert reaches(peer, third.data_address)
        assert answers(host.address, 22)
        host.heal()
        assert reaches(peer, host.data_address)

    def test_stopped_sessions_hang_and_go_on(self, cluster3: Cluster) -> None:
        host = cluster3.hosts[1]
        argv = ["ssh", "-F", str(cluster3.ssh_config), "node1", "cat"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
            assert session.stdin is not None
            assert session.stdout is not None
            print("before", file=session.stdin, flush=True)
            assert session.stdout.readline() == "before\n"
            assert host.stop_sshd_sessions() >= 1
            print("stopped", file=session.stdin, flush=True)
            stopped = [p.command for p in host.processes() if ") T " in Path(f"/proc/{p.pid}/stat").read_text()]
            host.continue_sshd_sessions()  # before any verdict: the session's end is waited for
            assert any(command.startswith("sshd") for command in stopped)
            assert session.stdout.readline() == "stopped\n"
            session.stdin.close()
            assert session.wait(10) == 0

    def test_a_swapped_host_key_is_refused_by_ssh(self, make_cluster: Callable[..., Cluster]) -> None:
        cluster = make_cluster(1)
        assert ssh(cluster, "node0", "true").returncode == 0
        cluster.hosts[0].swap_host_key()
        refused = ssh(cluster, "node0", "true")
        assert refused.returncode == 255
        assert "HOST IDENTIFICATION HAS CHANGED" in refused.stderr

    def test_mend_brings_everything_back(self, make_cluster: Callable[..., Cluster]) -> None:
        cluster = make_cluster(2)
        cluster.hosts[0].kill()
        cluster.hosts[1].cut("management")
        cluster.mend()
        assert all(answers(host.address, 22) for host in cluster.hosts)
        assert reaches(cluster.hosts[0], cluster.hosts[1].data_address)


@pytest.mark.cluster
class TestOptions:
    def test_with_shared_management_there_are_two_common_subnets(self, make_cluster: Callable[..., Cluster]) -> None:
        first, second = make_cluster(2, shared_management=True).hosts
        assert first.address.rpartition(".")[0] == second.address.rpartition(".")[0]
        assert reaches(first, second.address)
        assert reaches(first, second.data_address)

    def test_sshd_settings_are_for_all_or_for_one(self, make_cluster: Callable[..., Cluster]) -> None:
        cluster = make_cluster(2, sshd={"MaxSessions": "2"}, sshd_by_host={1: {"PasswordAuthentication": "yes"}})
        shown = [host.exec(["/usr/sbin/sshd", "-T"], check=True).stdout for host in cluster.hosts]
        assert all("\nmaxsessions 2\n" in text for text in shown)
        assert ["\npasswordauthentication yes\n" in text for text in shown] == [False, True]

    def test_interfaces_mtu_ipv6_and_decoys_are_ours_to_choose(self, make_cluster: Callable[..., Cluster]) -> None:
        (host,) = make_cluster(1, interfaces=("ib0",), mtu=1500, data_ipv6=True, decoys=False).hosts
        shown = json.loads(host.exec(["ip", "-j", "addr"], check=True).stdout)
        assert {interface["ifname"] for interface in shown} == {"lo", "ens3", "ib0"}
        (data,) = [interface for interface in shown if interface["ifname"] == "ib0"]
        assert data["mtu"] == 1500
        assert {address["local"] for address in data["addr_info"]} > {"10.77.0.1", "fd77::1"}


@pytest.mark.cluster
class TestNothingIsLeft:
    def test_down_takes_everything(self, make_cluster: Callable[..., Cluster]) -> None:
        cluster = make_cluster(2)
        inits = [host.pid for host in cluster.hosts]
        cluster.hosts[0].cut("management")
        home, address = cluster.home, cluster.hosts[0].address
        cluster.down()
        assert not home.exists()
        assert namespaces(cluster.tag) == []
        assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inits))
        commands = (["ip", "addr"], ["ip", "route"], ["nft", "list", "tables"], ["mount"])
        shown = "".join(subprocess.run(argv, capture_output=True, text=True, check=True).stdout for argv in commands)
        second_octet = address.split(".")[1]
        assert f" 10.{second_octet}." not in shown
        assert f"ncclrun_{int(second_octet) - 88}_" not in shown
        assert str(home) not in shown

    def test_what_a_dead_process_left_goes_when_the_next_cluster_comes(
        self, make_cluster: Callable[..., Cluster]
    ) -> None:
        tag = f"orphan-{os.getpid()}"
        program = f"import os; from tests.cluster.cluster import Cluster; Cluster(1, tag={tag!r}).up(); os._exit(9)"
        assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 9
        assert registry.is_orphan(tag)
        make_cluster(1)
        assert registry.load(tag) is None
        assert namespaces(tag) == []

    def test_a_living_cluster_is_not_taken_over(self, make_cluster: Callable[..., Cluster]) -> None:
        cluster = make_cluster(1)
        with pytest.raises(ClusterError, match="already"):
            Cluster(1, tag=cluster.tag).up()
        assert ssh(cluster, "node0", "echo alive").stdout == "alive\n"

    def test_two_at_once_share_no_address(self, make_cluster: Callable[..., Cluster]) -> None:
        one, other = make_cluster(2), make_cluster(2)
        assert {host.address for host in one.hosts}.isdisjoint(host.address for host in other.hosts)
        assert ssh(one, "node0", "hostname").stdout == ssh(other, "node0", "hostname").stdout == "node0\n"


@pytest.mark.cluster
class TestByHand:
    @pytest.fixture
    def hand(self) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
        tag = f"hand-{os.getpid()}"

        def command(*words: str) -> subprocess.CompletedProcess[str]:
            argv = [sys.executable, "-m", "tests.cluster", "--tag", tag, *words]
            return subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=False, timeout=60)

        yield command
        Cluster(1, tag=tag).down()

    def test_up_exec_kill_reboot_yaml_down(
        self, make_cluster: Callable[..., Cluster], hand: Callable[..., subprocess.CompletedProcess[str]]
    ) -> None:
        make_cluster(1)  # skips without root, and must not sweep what is made by hand
        assert "ssh -F " in hand("up", "2").stdout
        assert hand("exec", "1", "hostname").stdout == "node1\n"
        assert hand("exec", "1", "sh", "-c", "exit 5").returncode == 5
        assert hand("kill", "1").returncode == 0
        assert [line.split()[-1] for line in hand("status").stdout.splitlines()][1] == "off"
        make_cluster(1)
        assert hand("reboot", "1").returncode == 0
        assert hand("yaml").stdout.count("host: 10.") == 2
        assert hand("down").returncode == 0
        assert hand("status").returncode == 1


class TestLoopback:
    def test_each_answers_at_its_own_address(self, loopback: Loopback) -> None:
        for host in loopback.hosts:
            done = ssh(loopback, host.name, "echo $SSH_CONNECTION")
            assert done.stdout.split()[2:] == [host.address, str(host.port)], done.stderr

    def test_a_killed_one_refuses_and_comes_back(self, loopback: Loopback) -> None:
        host = loopback.hosts[1]
        host.kill()
        assert not answers(host.address, host.port)
        host.reboot()
        assert ssh(loopback, "node1", "echo back").stdout == "back\n"

    @pytest.mark.cluster
    def test_it_needs_no_root(self, cluster3: Cluster) -> None:
        program = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
            "from tests.cluster.loopback import Loopback\nimport os, subprocess\n"
            "with Loopback(2) as cluster:\n"
            "    subprocess.run(['ssh', '-F', cluster.home / 'ssh_config', 'node1', 'id -un'], check=True)\n"
        )
        done = cluster3.hosts[0].exec([sys.executable, "-c", program], user="trainer")
        assert done.stdout == "trainer\n", done.stderr


SUM = """
import datetime, socket, torch, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
ones = torch.ones(1)
dist.all_reduce(ones)
print("sum", int(ones), socket.gethostname(), flush=True)
dist.destroy_process_group()
"""


@pytest.mark.cluster
@pytest.mark.torch
class TestTorchByHand:
    """What somebody does who types torchrun on two machines; without the interfaces see tests/jobs/test_digits.py."""

    @staticmethod
    def torchrun(cluster: Cluster, host: Host) -> subprocess.Popen[str]:
        host.write("/root/sum.py", SUM)
        command = (
            f"GLOO_SOCKET_IFNAME={host.data_interface} {sys.executable} -m torch.distributed.run "
            f"--nnodes 2 --nproc-per-node 1 --node-rank {host.index} --rdzv-backend static --rdzv-id sum "
            f"--master-addr {cluster.hosts[0].data_address} --master-port 29511 sum.py"
        )
        argv = ["ssh", "-F", str(cluster.ssh_config), host.name, command]
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def test_it_works_with_the_right_interface_on_each(self, make_cluster: Callable[..., Cluster]) -> None:
        pytest.importorskip("torch")
        cluster = make_cluster(2)
        runs = [self.torchrun(cluster, host) for host in cluster.hosts]
        said = [run.communicate(timeout=120)[0] for run in runs]
        assert [run.returncode for run in runs] == [0, 0], said
        assert [f"sum 2 node{index}" in text for index, text in enumerate(said)] == [True, True]
