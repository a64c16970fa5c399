"""NCCL's own settings that would lead it elsewhere: NCCL is asked on the host, and what won is named."""

from __future__ import annotations

import pytest

from tests.topologies.lab import Lab
from tests.topologies.resolving import Resolving

pytestmark = pytest.mark.cluster

NAMES = ["eth1", "enp7s0", "ens5f0np0"]
PLAN = {0: ("eth1", "10.50.0.1"), 1: ("enp7s0", "10.50.0.2"), 2: ("ens5f0np0", "10.50.0.3")}


@pytest.fixture
def joined(lab: Lab) -> Lab:
    """Two networks that join all, of which the first is the better one."""
    lab.lan("10.50.0.0/24", NAMES, mtu=9000)
    lab.lan("10.40.0.0/24", ["ens1"] * 3)
    return lab


def test_a_wrong_interface_in_nccl_env_is_named(joined: Lab, resolving: Resolving) -> None:
    found = resolving(nccl={"env": {"NCCL_SOCKET_IFNAME": "ens1"}})
    found.fails("node0", "node1", "node2", "nccl.env", "NCCL_SOCKET_IFNAME", "ens1")


def test_an_interface_in_nccl_env_that_is_not_there_is_named(joined: Lab, resolving: Resolving) -> None:
    found = resolving(nccl={"env": {"NCCL_SOCKET_IFNAME": "eth1"}})
    found.fails("node1", "nccl.env", "NCCL_SOCKET_IFNAME", "eth1")


def test_an_interface_in_a_nodes_launch_env_is_named(joined: Lab, resolving: Resolving) -> None:
    found = resolving(nodes={2: {"env": {"NCCL_SOCKET_IFNAME": "ens1"}}})
    found.fails("node2", "launch.env", "NCCL_SOCKET_IFNAME", "ens1")


def test_the_right_interface_in_nccl_env_is_no_trouble(lab: Lab, resolving: Resolving) -> None:
    lab.lan("10.50.0.0/24", ["eth1"] * 3)
    found = resolving(nccl={"env": {"NCCL_SOCKET_IFNAME": "eth1"}})
    found.is_the_plan({host: ("eth1", f"10.50.0.{host + 1}") for host in range(3)})


@pytest.mark.parametrize("path", ["/etc/nccl.conf", "/root/.nccl.conf"])
def test_a_comm_id_in_a_conf_file_is_named(joined: Lab, resolving: Resolving, path: str) -> None:
    joined.file(1, path, "NCCL_COMM_ID=10.9.9.9:4000  # of an old job\n")
    resolving().fails("node1", path, "NCCL_COMM_ID")


def test_an_interface_in_conf_files_gives_way_to_the_plan(joined: Lab, resolving: Resolving) -> None:
    joined.file(1, "/etc/nccl.conf", "NCCL_SOCKET_IFNAME=ens1\nNCCL_SOCKET_FAMILY=AF_INET6\n")
    joined.file(2, "/root/.nccl.conf", "NCCL_SOCKET_IFNAME=ens5f0np0  # my card\n")
    resolving().is_the_plan(PLAN)


def test_an_interface_in_the_login_environment_gives_way_to_the_plan(joined: Lab, resolving: Resolving) -> None:
    joined.login(1, NCCL_SOCKET_IFNAME="ens1", NCCL_SOCKET_FAMILY="AF_INET6")
    resolving().is_the_plan(PLAN)


def test_an_address_that_is_not_the_first_of_its_interface_is_not_what_nccl_takes(
    lab: Lab, resolving: Resolving
) -> None:
    """NCCL takes an interface's first address, so the others would be told one that they can't reach."""
    bridge = lab.switch()
    for host, name in enumerate(NAMES):
        lab.card(host, name, bridge=bridge)
        lab.address(host, name, f"10.4{host}.0.1/24")
        lab.address(host, name, f"10.50.0.{host + 1}/24")
    resolving().fails("node0", "eth1", "10.40.0.1", "10.50.0.1")
