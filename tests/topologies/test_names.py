"""What the nodes' name services say: slow or wrong answers are found, and the right network is taken all the same."""

from __future__ import annotations

import pytest

from tests.topologies.lab import Lab
from tests.topologies.resolving import Resolving

pytestmark = pytest.mark.cluster

NAMES = ["eth1", "enp7s0", "ens5f0np0"]
PLAN = {0: ("eth1", "10.50.0.1"), 1: ("enp7s0", "10.50.0.2"), 2: ("ens5f0np0", "10.50.0.3")}
LOCALHOST = "127.0.0.1 localhost\n::1 localhost\n"
ALL_NAMES = LOCALHOST + "".join(f"10.50.0.{host + 1} node{host}\n" for host in range(3))


@pytest.fixture
def joined(lab: Lab) -> Lab:
    """One good network, and a hosts file with everybody's true name on each host."""
    lab.lan("10.50.0.0/24", NAMES)
    for host in range(3):
        lab.file(host, "/etc/hosts", ALL_NAMES)
    return lab


def test_true_names_are_no_trouble(joined: Lab, resolving: Resolving) -> None:
    found = resolving()
    found.is_the_plan(PLAN)
    assert "/etc/hosts" not in found.warnings, found


def test_a_name_that_is_127_0_1_1_is_found(joined: Lab, resolving: Resolving) -> None:
    joined.file(1, "/etc/hosts", ALL_NAMES.replace("10.50.0.2 node1", "127.0.1.1 node1"))
    found = resolving()
    found.is_the_plan(PLAN)
    found.warns("node1", "127.0.1.1", "/etc/hosts")


def test_a_name_that_nobody_knows_is_found(joined: Lab, resolving: Resolving) -> None:
    joined.file(1, "/etc/hosts", LOCALHOST)
    found = resolving()
    found.is_the_plan(PLAN)
    found.warns("node1", "/etc/hosts", "10.50.0.2 node1")


def test_a_name_that_is_another_machine_is_found(joined: Lab, resolving: Resolving) -> None:
    joined.file(1, "/etc/hosts", ALL_NAMES.replace("10.50.0.2 node1", "203.0.113.9 node1"))
    found = resolving()
    found.is_the_plan(PLAN)
    found.warns("node1", "203.0.113.9", "/etc/hosts")


def test_a_dead_name_server_is_found(joined: Lab, resolving: Resolving) -> None:
    joined.file(1, "/etc/hosts", LOCALHOST)
    joined.file(1, "/etc/resolv.conf", "nameserver 10.50.0.250\n")
    joined.silence(1, "enp7s0", "10.50.0.250")
    found = resolving()
    found.is_the_plan(PLAN)
    found.warns("node1", "/etc/resolv.conf")
    found.warns("node1", "10.50.0.1", "10.50.0.3", "/etc/hosts")
    assert "node0" not in {event["node"] for event in found.done.of("warning")}, found


def test_proxies_and_stale_addresses_do_not_mislead(joined: Lab, resolving: Resolving) -> None:
    joined.login(1, http_proxy="http://203.0.113.9:3128", MASTER_ADDR="203.0.113.9", MASTER_PORT="1")
    found = resolving.launch()
    found.is_the_plan(PLAN)
    found.warns("node1", "MASTER_ADDR")
    [plan] = found.done.of("plan")
    assert plan["master_addr"] == "10.50.0.1"
