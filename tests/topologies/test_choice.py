"""The right network is found among others, whatever the cards are called and however the nodes are joined."""

from __future__ import annotations

import pytest

from tests.topologies.lab import Lab
from tests.topologies.resolving import Resolving

pytestmark = pytest.mark.cluster

SAME = ["eth1"] * 3
DIFFERENT = ["eth1", "enp7s0", "ens5f0np0"]
PLAN = {0: ("eth1", "10.50.0.1"), 1: ("eth1", "10.50.0.2"), 2: ("eth1", "10.50.0.3")}
DIFFERENT_PLAN = {0: ("eth1", "10.50.0.1"), 1: ("enp7s0", "10.50.0.2"), 2: ("ens5f0np0", "10.50.0.3")}


class TestOneNetworkJoinsAll:
    def test_under_the_same_name_everywhere(self, lab: Lab, resolving: Resolving) -> None:
        lab.lan("10.50.0.0/24", SAME)
        found = resolving()
        found.is_the_plan(PLAN)
        assert found.judged(0, lab.hosts[0].address).startswith("rejected: does not work with node1, node2"), found

    def test_under_different_names(self, lab: Lab, resolving: Resolving) -> None:
        lab.lan("10.50.0.0/24", DIFFERENT)
        resolving().is_the_plan(DIFFERENT_PLAN)

    def test_behind_docker_bridges_of_one_address(self, lab: Lab, resolving: Resolving) -> None:
        for host in range(3):
            lab.docker(host)
        lab.lan("10.50.0.0/24", DIFFERENT)
        found = resolving()
        found.is_the_plan(DIFFERENT_PLAN)
        assert found.judged(1, "172.17.0.1").startswith("rejected"), found

    def test_behind_an_eth0_with_one_address_and_the_default_route(self, lab: Lab, resolving: Resolving) -> None:
        lab.dead_end(["eth0"] * 3, ["172.20.0.5/16"], mtu=9000)
        for host in range(3):
            lab.ip(host, "route add default via 172.20.0.1 dev eth0")
        lab.lan("10.50.0.0/24", DIFFERENT)
        found = resolving()
        found.is_the_plan(DIFFERENT_PLAN)
        assert found.judged(2, "172.20.0.5").startswith("rejected"), found

    def test_behind_a_better_looking_card_on_each_that_leads_nowhere(self, lab: Lab, resolving: Resolving) -> None:
        lab.dead_end(["ens1"] * 3, ["10.40.0.1/24", "10.40.0.2/24", "10.40.0.3/24"], mtu=9000)
        lab.lan("10.50.0.0/24", DIFFERENT)
        found = resolving()
        found.is_the_plan(DIFFERENT_PLAN)
        assert found.judged(0, "10.40.0.1").startswith("rejected: does not work with node1, node2"), found

    def test_behind_a_card_without_a_carrier(self, lab: Lab, resolving: Resolving) -> None:
        lab.dead_end(["eno9"] * 3, ["10.40.0.1/24", "10.40.0.2/24", "10.40.0.3/24"], mtu=9000, lit=False)
        lab.lan("10.50.0.0/24", DIFFERENT)
        found = resolving()
        found.is_the_plan(DIFFERENT_PLAN)
        assert "no carrier" in found.judged(0, "10.40.0.1"), found

    def test_by_ipv6_alone(self, lab: Lab, resolving: Resolving) -> None:
        lab.lan("fd50::/64", DIFFERENT)
        resolving().is_the_plan({0: ("eth1", "fd50::1"), 1: ("enp7s0", "fd50::2"), 2: ("ens5f0np0", "fd50::3")})

    def test_by_ipv6_where_ipv4_is_there_and_does_not_pass(self, lab: Lab, resolving: Resolving) -> None:
        lan = lab.lan("10.50.0.0/24", SAME)
        for host in range(3):
            lab.address(host, "eth1", f"fd50::{host + 1}/64")
        lab.drop_ipv4(lan)
        resolving().is_the_plan({host: ("eth1", f"fd50::{host + 1}") for host in range(3)})

    def test_by_direct_cables_with_addresses_that_the_cards_gave_themselves(
        self, lab: Lab, resolving: Resolving
    ) -> None:
        lab.lan("169.254.0.0/16", DIFFERENT)
        plan = {0: ("eth1", "169.254.0.1"), 1: ("enp7s0", "169.254.0.2"), 2: ("ens5f0np0", "169.254.0.3")}
        resolving().is_the_plan(plan)

    def test_through_a_bridge_that_has_the_hosts_address_and_default_route(
        self, lab: Lab, resolving: Resolving
    ) -> None:
        lan = lab.lan("10.50.0.0/24", {0: "eth1", 2: "ens5f0np0"})
        lab.card(1, "enp7s0", bridge=lan.bridge)
        lab.bridge(1, "br0", "enp7s0", "10.50.0.2/24")
        lab.ip(1, "route add default via 10.50.0.254")
        plan = {**DIFFERENT_PLAN, 1: ("br0", "10.50.0.2")}
        resolving().is_the_plan(plan)

    def test_through_a_macvlan(self, lab: Lab, resolving: Resolving) -> None:
        lan = lab.lan("10.50.0.0/24", {0: "eth1", 1: "enp7s0"})
        lab.card(2, "ens5f0np0", bridge=lan.bridge)
        lab.ip(2, "link add mv0 link ens5f0np0 type macvlan mode bridge", "addr add 10.50.0.3/24 dev mv0")
        lab.ip(2, "link set mv0 up")
        resolving().is_the_plan({**DIFFERENT_PLAN, 2: ("mv0", "10.50.0.3")})


class TestSeveralNetworks:
    def test_a_faster_one_that_only_some_share_is_passed_over(self, lab: Lab, resolving: Resolving) -> None:
        lab.lan("10.40.0.0/24", {0: "ens1", 1: "ens1"}, mtu=9000)
        lab.lan("10.50.0.0/24", DIFFERENT)
        found = resolving()
        found.is_the_plan(DIFFERENT_PLAN)
        assert found.judged(0, "10.40.0.1").startswith("rejected: does not work with node2"), found

    def test_of_two_that_join_all_the_one_with_larger_packets_wins(self, lab: Lab, resolving: Resolving) -> None:
        lab.lan("10.40.0.0/24", ["ens1"] * 3)
        lab.lan("10.50.0.0/24", DIFFERENT, mtu=9000)
        found = resolving()
        found.is_the_plan(DIFFERENT_PLAN)
        assert found.judged(0, "10.40.0.1").startswith("usable: smaller MTU"), found

    def test_of_two_equal_ones_the_first_is_taken_and_the_other_named(self, lab: Lab, resolving: Resolving) -> None:
        lab.lan("10.50.0.0/24", SAME)
        lab.lan("10.40.0.0/24", ["ens1"] * 3)
        found = resolving()
        found.is_the_plan(PLAN)
        found.warns("10.50.0.0/24", "10.40.0.0/24", "subnet")

    def test_an_overlay_over_the_true_network_is_passed_over(self, lab: Lab, resolving: Resolving) -> None:
        lab.lan("10.50.0.0/24", SAME)
        for host in range(3):
            lab.vxlan(host, "wg0", "eth1", f"10.20.0.{host + 1}/24")
        found = resolving()
        found.is_the_plan(PLAN)
        assert found.judged(0, "10.20.0.1").startswith("usable: smaller MTU"), found

    def test_a_cut_pair_in_the_better_one_leaves_the_other(self, lab: Lab, resolving: Resolving) -> None:
        fast = lab.lan("10.40.0.0/24", ["ens1"] * 3, mtu=9000)
        lab.lan("10.50.0.0/24", DIFFERENT)
        lab.cut(fast, 0, 2)
        found = resolving()
        found.is_the_plan(DIFFERENT_PLAN)
        assert found.judged(0, "10.40.0.1").startswith("rejected: does not work with node2"), found


class TestTwoCardsInOneSubnet:
    """What is sent leaves by the first card whatever NCCL is told: said, with the settings that mend it."""

    def test_on_one_host(self, lab: Lab, resolving: Resolving) -> None:
        lan = lab.lan("10.50.0.0/24", DIFFERENT)
        lab.lan("10.50.0.0/24", {1: "enp8s0"}, numbers={1: 12}, bridge=lan.bridge)
        found = resolving()
        found.is_the_plan(DIFFERENT_PLAN)
        found.warns("node1", "enp7s0", "enp8s0", "ip rule")

    def test_on_all_hosts(self, lab: Lab, resolving: Resolving) -> None:
        lan = lab.lan("10.50.0.0/24", SAME)
        lab.lan("10.50.0.0/24", ["eth2"] * 3, numbers={0: 11, 1: 12, 2: 13}, bridge=lan.bridge)
        found = resolving()
        found.is_the_plan(PLAN)
        found.warns("node0", "eth1", "eth2", "arp_ignore")
        found.warns("node1, node2", "as node0")


class TestRoutedNetworks:
    def test_each_host_in_a_subnet_of_its_own(self, lab: Lab, resolving: Resolving) -> None:
        lab.routed(DIFFERENT)
        plan = {0: ("eth1", "10.60.0.1"), 1: ("enp7s0", "10.60.1.2"), 2: ("ens5f0np0", "10.60.2.3")}
        resolving().is_the_plan(plan)

    def test_beside_a_dead_subnet_that_all_share(self, lab: Lab, resolving: Resolving) -> None:
        lab.dead_end(["ens1"] * 3, ["10.40.0.1/24", "10.40.0.2/24", "10.40.0.3/24"])
        lab.routed(SAME)
        resolving().is_the_plan({host: ("eth1", f"10.60.{host}.{host + 1}") for host in range(3)})

    def test_a_triangle_of_cables_with_routes_through_it(self, lab: Lab, resolving: Resolving) -> None:
        lab.triangle()
        lab.ip(0, "route add 10.70.0.4 via 10.70.0.1", "route add 10.70.0.5 via 10.70.0.3")
        lab.ip(1, "route add 10.70.0.2 via 10.70.0.0", "route add 10.70.0.3 via 10.70.0.5")
        lab.ip(2, "route add 10.70.0.0 via 10.70.0.2", "route add 10.70.0.1 via 10.70.0.4")
        found = resolving()
        assert found.done.code == 0, found
        found.nccl_agrees_with(found.plan)
        assert sorted(name for name, _ in found.plan.values()) == ["eth1", "eth1", "eth1"], found

    def test_a_triangle_of_cables_alone_has_no_address_that_serves_both_others(
        self, lab: Lab, resolving: Resolving
    ) -> None:
        lab.triangle()
        resolving().fails("node2", "eth1 10.70.0.3/31", "eth2 10.70.0.5/31")


def test_launch_takes_the_same_network(lab: Lab, resolving: Resolving) -> None:
    lab.dead_end(["eth0"] * 3, ["172.20.0.5/16"], mtu=9000)
    lab.dead_end(["ens1"] * 3, ["10.40.0.1/24", "10.40.0.2/24", "10.40.0.3/24"], mtu=9000)
    lab.lan("10.50.0.0/24", DIFFERENT)
    found = resolving.launch()
    found.is_the_plan(DIFFERENT_PLAN)
    [plan] = found.done.of("plan")
    assert plan["master_addr"] == "10.50.0.1"
    names = [node["environment"]["NCCL_SOCKET_IFNAME"]["value"] for node in plan["nodes"]]
    assert names == ["=eth1", "=enp7s0", "=ens5f0np0"]
