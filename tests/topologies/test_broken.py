"""A network that does not join all: the error names the hosts, the card and the step that mends it."""

from __future__ import annotations

import pytest

from tests.topologies.lab import Lab
from tests.topologies.resolving import Resolving

pytestmark = pytest.mark.cluster

NAMES = ["eth1", "enp7s0", "ens5f0np0"]


class TestPairs:
    def test_a_pair_that_is_cut_is_named(self, lab: Lab, resolving: Resolving) -> None:
        lab.cut(lab.lan("10.50.0.0/24", NAMES), 0, 2)
        found = resolving()
        found.fails("node0", "node2", "eth1", "ens5f0np0", "10.50.0.3", "no answer")
        assert "node1" not in found.blame, found

    def test_a_direction_that_is_cut_is_named_and_the_other_said_to_work(self, lab: Lab, resolving: Resolving) -> None:
        lab.cut(lab.lan("10.50.0.0/24", NAMES), 0, 2, both=False)
        resolving().fails("node0 -> node2", "ens5f0np0", "the other way works", "firewall")

    def test_ping_shows_which_pairs_they_are(self, lab: Lab, resolving: Resolving) -> None:
        lab.lan("10.50.0.0/24", NAMES)
        lab.firewall(2, "22", "prohibited")
        found = resolving.command("ping")
        assert found.done.code != 0, found
        ways = [(0, "10.50.0.3"), (0, "10.50.0.2"), (2, "10.50.0.1")]
        assert [found.outcome(*way) for way in ways] == ["no_route", "reached", "reached"], found


class TestOneNode:
    def test_a_node_whose_card_leads_nowhere_is_named(self, lab: Lab, resolving: Resolving) -> None:
        lan = lab.lan("10.50.0.0/24", NAMES)
        lab.unplug(lan, 1)
        found = resolving()
        found.fails("node1", "enp7s0")
        assert "node1 (enp7s0 10.50.0.2)" in found.blame, found

    def test_a_node_without_the_network_is_named(self, lab: Lab, resolving: Resolving) -> None:
        lab.lan("10.50.0.0/24", {0: "eth1", 2: "ens5f0np0"})
        found = resolving()
        found.fails("node1", "10.50.0.0/24", "ens3")
        assert "node1" in found.blame, found

    def test_a_node_whose_gateway_is_dead_is_named(self, lab: Lab, resolving: Resolving) -> None:
        lans = lab.routed(NAMES)
        lab.unplug(lans[2], 2)
        found = resolving()
        found.fails("node2", "ens5f0np0", "10.60.2.3")
        assert "node2 (ens5f0np0 10.60.2.3)" in found.blame, found

    def test_a_node_without_a_route_back_is_named(self, lab: Lab, resolving: Resolving) -> None:
        lab.routed(NAMES)
        lab.ip(2, "route del 10.60.0.0/16")
        found = resolving()
        found.fails("node2", "ens5f0np0", "route")

    def test_a_node_whose_network_is_gone_while_all_have_a_second_one(self, lab: Lab, resolving: Resolving) -> None:
        lan = lab.lan("10.50.0.0/24", NAMES, mtu=9000)
        lab.lan("10.40.0.0/24", ["ens1"] * 3)
        lab.unplug(lan, 1)
        resolving().is_the_plan({host: ("ens1", f"10.40.0.{host + 1}") for host in range(3)})


class TestWrongMachines:
    def test_two_hosts_with_one_address_are_named(self, lab: Lab, resolving: Resolving) -> None:
        lab.lan("10.50.0.0/24", NAMES, numbers={2: 2})
        resolving().fails("node1", "node2", "10.50.0.2", "enp7s0", "ens5f0np0")

    def test_of_two_networks_the_one_without_a_doubled_address_is_taken(self, lab: Lab, resolving: Resolving) -> None:
        lab.lan("10.50.0.0/24", NAMES, numbers={2: 2}, mtu=9000)
        lab.lan("10.40.0.0/24", ["ens1"] * 3)
        resolving().is_the_plan({host: ("ens1", f"10.40.0.{host + 1}") for host in range(3)})

    def test_a_stranger_at_the_address_is_told_from_the_node(self, lab: Lab, resolving: Resolving) -> None:
        lan = lab.lan("10.50.0.0/24", NAMES)
        lab.unplug(lan, 1)
        with lab.stranger(lan, "10.50.0.2/24", talks=True):
            found = resolving()
        found.fails("node1", "enp7s0", "10.50.0.2", "another machine")
        assert found.outcome(0, "10.50.0.2") == "stranger", found

    def test_a_stranger_that_refuses_is_suspected(self, lab: Lab, resolving: Resolving) -> None:
        lan = lab.lan("10.50.0.0/24", NAMES)
        lab.unplug(lan, 1)
        with lab.stranger(lan, "10.50.0.2/24", talks=False):
            resolving().fails("node1", "enp7s0", "10.50.0.2", "refused", "another machine")
