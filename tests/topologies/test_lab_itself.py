"""The lab makes the networks that the topologies speak of, breaks them as it says, and leaves nothing."""

from __future__ import annotations

import sys

import pytest

from tests.cluster.cluster import Cluster
from tests.topologies import lab as labs
from tests.topologies.lab import Lab

pytestmark = pytest.mark.cluster

LISTEN = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
one = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family)
print("listening", flush=True)
sys.stdin.read()
"""
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 0.5).close()
    print("reached")
except OSError as error:
    print(type(error).__name__, error)
"""
SEND = """
import socket, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind((sys.argv[1], 5000))
udp.setsockopt(socket.IPPROTO_IP, 10, 3)
udp.connect((sys.argv[2], 5000))
udp.send(bytes(int(sys.argv[3]) - 28))
"""
RECEIVE = """
import socket, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind((sys.argv[1], 5000))
print("listening", flush=True)
udp.settimeout(1)
try:
    print(len(udp.recv(65536)) + 28)
except TimeoutError:
    print("nothing")
"""


def python(lab: Lab, host: int, program: str, *words: object) -> str:
    """What a program on a host says."""
    return lab.hosts[host].exec([sys.executable, "-c", program, *map(str, words)], check=True).stdout.strip()


def connect(lab: Lab, source: int, target: int, address: str, port: int = 4000) -> str:
    """How a connection to an address of another host ends, while that host listens there."""
    with lab.background(target, [sys.executable, "-c", LISTEN, address, str(port)], "listening"):
        return python(lab, source, CONNECT, address, port)


def send(lab: Lab, source: str, target: str, size: int) -> str:
    """How many bytes of a packet from node0 arrive at node1."""
    with lab.background(1, [sys.executable, "-c", RECEIVE, target], "listening") as receiver:
        python(lab, 0, SEND, source, target, size)
        return receiver.communicate(timeout=10)[0].strip()


def test_hosts_of_a_lan_reach_each_other_and_nobody_did_before(lab: Lab) -> None:
    assert "unreachable" in python(lab, 0, CONNECT, lab.hosts[1].address, 22)
    lab.lan("10.50.0.0/24", ["eth1", "enp7s0", "ens5"])
    assert connect(lab, 0, 1, "10.50.0.2") == "reached"
    assert connect(lab, 2, 0, "10.50.0.1") == "reached"


def test_a_cut_drops_and_the_other_pairs_live(lab: Lab) -> None:
    lan = lab.lan("10.50.0.0/24", ["eth1"] * 3)
    lab.cut(lan, 0, 1)
    assert connect(lab, 0, 1, "10.50.0.2") == "TimeoutError timed out"
    assert connect(lab, 1, 0, "10.50.0.1") == "TimeoutError timed out"
    assert connect(lab, 0, 2, "10.50.0.3") == "reached"


def test_a_cut_of_one_direction_lets_the_other_ones_connections_through(lab: Lab) -> None:
    lan = lab.lan("10.50.0.0/24", ["eth1"] * 3)
    lab.cut(lan, 0, 1, both=False)
    assert connect(lab, 0, 1, "10.50.0.2") == "TimeoutError timed out"
    assert connect(lab, 1, 0, "10.50.0.1") == "reached"


@pytest.mark.parametrize(("how", "said"), [("drop", "timed out"), ("prohibited", "No route"), ("reset", "refused")])
def test_a_firewall_lets_through_what_it_allows(lab: Lab, how: str, said: str) -> None:
    lab.lan("10.50.0.0/24", ["eth1"] * 3)
    lab.firewall(1, "22, 29500", how)
    assert said in connect(lab, 0, 1, "10.50.0.2")
    assert connect(lab, 0, 1, "10.50.0.2", 29500) == "reached"
    assert connect(lab, 1, 0, "10.50.0.1") == "reached"


def test_a_router_joins_subnets(lab: Lab) -> None:
    lans = [lab.lan(f"10.60.{host}.0/24", {host: "eth1"}) for host in range(3)]
    lab.router({lan.bridge: lan.address(254) for lan in lans})
    for host in range(3):
        lab.ip(host, f"route add 10.60.0.0/16 via 10.60.{host}.254")
    assert connect(lab, 0, 1, "10.60.1.2") == "reached"
    assert connect(lab, 2, 0, "10.60.0.1") == "reached"


def test_a_bottleneck_swallows_large_packets(lab: Lab) -> None:
    lan = lab.lan("10.50.0.0/24", {0: "eth1"}, mtu=9000)
    far = lab.lan("10.50.0.0/24", {1: "eth1"}, mtu=9000)
    lab.bottleneck(lan.bridge, far.bridge, 1500)
    lab.settle()
    assert send(lab, "10.50.0.1", "10.50.0.2", 1500) == "1500"
    assert send(lab, "10.50.0.1", "10.50.0.2", 1504) == "nothing"


def test_ipv6_is_there_at_once(lab: Lab) -> None:
    lab.lan("fd50::/64", ["eth1"] * 3)
    assert connect(lab, 0, 1, "fd50::2") == "reached"


def test_a_card_without_a_carrier_is_not_running(lab: Lab) -> None:
    lab.dead_end({0: "eno9"}, ["10.9.9.9/24"], lit=False)
    assert lab.hosts[0].path("/sys/class/net/eno9/carrier").read_text() == "0\n"


def test_nothing_is_left(_bare3: Cluster) -> None:
    def everything() -> list[str]:
        looks = (["ip", "-d", "addr"], ["ip", "route"], ["ip", "-6", "route"], ["cat", "/etc/hosts"])
        said = [host.exec(look).stdout for host in _bare3.hosts for look in (*looks, ["nft", "list", "ruleset"])]
        return [*said, *(str(host.path("/etc/nccl.conf").exists()) for host in _bare3.hosts)]

    before = everything()
    with labs.lab(_bare3) as lab:
        lan = lab.lan("10.50.0.0/24", ["eth1"] * 3)
        lab.router({lan.bridge: "10.50.0.254/24"})
        lab.docker(0)
        lab.ip(1, "route add 10.99.0.0/16 via 10.50.0.254")
        lab.firewall(2, "22", "drop")
        lab.cut(lan, 0, 1)
        lab.file(0, "/etc/nccl.conf", "NCCL_DEBUG=INFO\n")
        lab.file(1, "/etc/hosts", "127.0.0.1 localhost\n")
        assert everything() != before
    assert everything() == before
