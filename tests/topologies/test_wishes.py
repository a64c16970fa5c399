"""What the cluster file wishes is done if it can be, and if not the error says what would work."""

from __future__ import annotations

import pytest

from tests.topologies.lab import Lab
from tests.topologies.resolving import Resolving

pytestmark = pytest.mark.cluster

NAMES = ["eth1", "enp7s0", "ens5f0np0"]
SLOW = {host: ("ens1", f"10.40.0.{host + 1}") for host in range(3)}


@pytest.fixture
def two_networks(lab: Lab) -> Lab:
    """A good network under three names, and a worse one that is ens1 everywhere."""
    lab.lan("10.50.0.0/24", NAMES, mtu=9000)
    lab.lan("10.40.0.0/24", ["ens1"] * 3)
    return lab


def test_the_worse_network_by_its_interface(two_networks: Lab, resolving: Resolving) -> None:
    resolving(network={"interface": "ens1"}).is_the_plan(SLOW)


def test_the_worse_network_by_its_subnet(two_networks: Lab, resolving: Resolving) -> None:
    resolving(network={"subnet": "10.40.0.0/24"}).is_the_plan(SLOW)


def test_one_nodes_address_takes_the_others_along(two_networks: Lab, resolving: Resolving) -> None:
    resolving(nodes={1: {"address": "10.40.0.2"}}).is_the_plan(SLOW)


def test_an_interface_that_is_not_there(two_networks: Lab, resolving: Resolving) -> None:
    found = resolving(network={"interface": "eth1"})
    found.fails("node1", "eth1", "enp7s0 10.50.0.2/24", "node2", "ens5f0np0 10.50.0.3/24", "network.interface")


def test_an_interface_that_reaches_nobody(two_networks: Lab, resolving: Resolving) -> None:
    found = resolving(network={"interface": "ens3"})
    found.fails("ens3", "node0", "node1", "node2", "10.50.0.0/24", "network")


def test_a_subnet_that_nobody_has(two_networks: Lab, resolving: Resolving) -> None:
    resolving(network={"subnet": "10.99.0.0/16"}).fails("10.99.0.0/16", "node0", "10.50.0.1/24", "network.subnet")


def test_the_address_of_another_host(two_networks: Lab, resolving: Resolving) -> None:
    resolving(nodes={0: {"address": "10.50.0.2"}}).fails("node0", "10.50.0.2", "eth1 10.50.0.1/24", "address")


def test_one_nodes_interface_that_is_not_the_others_network(two_networks: Lab, resolving: Resolving) -> None:
    found = resolving(nodes={0: {"interface": "ens3"}, 1: {"interface": "enp7s0"}, 2: {"interface": "ens5f0np0"}})
    found.fails("node0", "ens3")
