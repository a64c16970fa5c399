"""Firewalls that let SSH through and not NCCL: found before the start, with the host and the line that opens it."""

from __future__ import annotations

import pytest

from tests.topologies.lab import Lab
from tests.topologies.resolving import Resolving

pytestmark = pytest.mark.cluster

NAMES = ["eth1", "enp7s0", "ens5f0np0"]
PLAN = {0: ("eth1", "10.50.0.1"), 1: ("enp7s0", "10.50.0.2"), 2: ("ens5f0np0", "10.50.0.3")}


@pytest.mark.parametrize("how", ["drop", "prohibited", "reset"])
def test_one_that_passes_22_and_29500_alone_is_found(lab: Lab, resolving: Resolving, how: str) -> None:
    lab.lan("10.50.0.0/24", NAMES)
    lab.firewall(1, "22, 29500", how)
    found = resolving(launch={"master_port": 29500})
    found.fails("node1", "firewall", "10.50.0.2", "22", "10.50.0.0/24")


def test_one_that_passes_only_some_high_ports_is_found(lab: Lab, resolving: Resolving) -> None:
    lab.lan("10.50.0.0/24", NAMES)
    lab.firewall(1, "22, 1024-33000", "reset")
    resolving().fails("node1", "firewall", "10.50.0.0/24")


def test_one_on_every_host_is_found(lab: Lab, resolving: Resolving) -> None:
    lab.lan("10.50.0.0/24", NAMES)
    for host in range(3):
        lab.firewall(host, "22, 29500", "prohibited")
    resolving().fails("node0, node1, node2", "in 10.50.0.0/24", "port 22", "firewall", "on each node", "ufw")


def test_one_on_the_host_that_asks_is_told_from_one_on_the_others(lab: Lab, resolving: Resolving) -> None:
    lab.lan("10.50.0.0/24", NAMES)
    lab.forbid_output(2, "ens5f0np0")
    found = resolving()
    found.fails("node2 (ens5f0np0 10.50.0.3)", "firewall")
    assert (found.outcome(2, "10.50.0.1"), found.outcome(0, "10.50.0.3")) == ("timeout", "reached"), found


def test_one_that_passes_everything_between_the_nodes_is_no_trouble(lab: Lab, resolving: Resolving) -> None:
    lab.lan("10.50.0.0/24", NAMES)
    lab.firewall(1, "22, 1024-65535", "drop")
    resolving().is_the_plan(PLAN)
