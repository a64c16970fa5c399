"""What the facts alone speak for: tables of machines as people have them, and what must hold for all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclrun.model.cluster import Network, Node
from ncclrun.model.errors import PlanError
from ncclrun.model.facts import Interface, NodeFacts, RdmaDevice, RdmaPort
from ncclrun.planning.choice.candidates import all_candidates, one_machine
from ncclrun.planning.clusterfile import parse_cluster
from ncclrun.planning.network import choose, judged_without_choice
from tests.planning.evidence import everything, evidence
from tests.planning.makers import card, facts, node

DECOYS = (
    card("docker0", "172.17.0.1/16"),
    card("eth0", "192.168.1.5/24"),  # the same on every host, as behind each one's own NAT
    card("virbr0", "192.168.122.1/24"),
    card("br-0123456789ab", "172.18.0.1/16"),
    card("ens9", "10.99.0.1/24", up=False),
    card("ens10", "10.98.0.1/24", running=False),
    card("usb0", "169.254.3.1/16", scope="link"),
)


def own_decoys(number: int) -> tuple[Interface, ...]:
    """Decoys whose addresses differ from host to host, so that only their kind gives them away."""
    return (
        card("veth12ab", f"172.20.0.{number}/16"),
        card("docker0", f"172.17.0.{number}/16"),
        card("br-0123456789ab", f"172.18.0.{number}/16"),
        card("ens9", f"10.99.0.{number}/24", up=False),
        card("ens10", f"10.98.0.{number}/24", running=False),
        card("usb0", f"169.254.3.{number}/16", scope="link"),
        card("ib0", f"fe80::{number}/64", scope="link"),
    )


def chosen(nodes: Sequence[Node], machines: Sequence[NodeFacts]) -> list[tuple[str, str]]:
    return [(endpoint.interface, endpoint.address) for endpoint in choose(nodes, machines, None).endpoints]


def refusal(nodes: Sequence[Node], machines: Sequence[NodeFacts]) -> PlanError:
    with pytest.raises(PlanError) as caught:
        choose(nodes, machines, None)
    assert caught.value.exit_code == 3
    return caught.value


def abc(**wish: Any) -> list[Node]:
    return [node(name, **wish) for name in "abc"]


class TestSharedSubnet:
    """Without a wish the subnet decides that all nodes share."""

    def test_names_may_differ_per_node(self) -> None:
        machines = [
            facts("a", card("eth1", "10.0.0.1/24")),
            facts("b", card("enp7s0", "10.0.0.2/24")),
            facts("c", card("bond0.7", "10.0.0.3/24")),
        ]
        assert chosen(abc(), machines) == [("eth1", "10.0.0.1"), ("enp7s0", "10.0.0.2"), ("bond0.7", "10.0.0.3")]
        assert choose(abc(), machines, None).endpoints[0].why == "the subnet 10.0.0.0/24 that they share"

    def test_decoys_that_are_the_same_everywhere_are_seen(self) -> None:
        machines = [facts(name, *DECOYS, card(f"ens{i}", f"10.0.0.{i}/24")) for i, name in enumerate("abc", 1)]
        assert chosen(abc(), machines) == [("ens1", "10.0.0.1"), ("ens2", "10.0.0.2"), ("ens3", "10.0.0.3")]

    def test_decoys_with_addresses_of_their_own_are_seen(self) -> None:
        machines = [facts(name, *own_decoys(i), card("ens1", f"10.0.0.{i}/24")) for i, name in enumerate("abc", 1)]
        assert chosen(abc(), machines) == [("ens1", f"10.0.0.{i}") for i in (1, 2, 3)]

    def test_an_address_that_is_a_bridge_elsewhere_is_out(self) -> None:
        machines = [
            facts("a", card("eth1", "172.17.0.1/16"), card("eth2", "10.0.0.1/24")),
            facts("b", card("docker0", "172.17.0.1/16"), card("eth1", "172.17.0.2/16"), card("eth2", "10.0.0.2/24")),
        ]
        assert chosen(abc()[:2], machines) == [("eth2", "10.0.0.1"), ("eth2", "10.0.0.2")]

    def test_different_prefix_lengths_are_one_network(self) -> None:
        machines = [
            facts("a", card("e", "10.0.0.1/24")),
            facts("b", card("e", "10.0.0.2/16")),
            facts("c", card("e", "10.0.5.3/8")),
        ]
        assert [address for _, address in chosen(abc()[:2], machines[:2])] == ["10.0.0.1", "10.0.0.2"]
        assert [address for _, address in chosen(abc(), machines)] == ["10.0.0.1", "10.0.0.2", "10.0.5.3"]

    def test_a_wide_network_on_one_node_does_not_hide_the_narrow_one_within(self) -> None:
        machines = [
            facts("a", card("tun0", "10.0.0.1/8"), card("eth1", "10.5.0.1/24")),
            facts("b", card("eth1", "10.5.0.2/24")),
            facts("c", card("eth1", "10.5.0.3/24")),
        ]
        assert [interface for interface, _ in chosen(abc(), machines)] == ["eth1"] * 3

    def test_a_wide_and_a_narrow_network_on_every_node_are_two_answers(self) -> None:
        machines = [
            facts(name, card("eth0", f"10.0.0.{i}/16"), card("eth1", f"10.0.77.{i}/24")) for i, name in enumerate("abc")
        ]
        (note,) = choose(abc(), machines, None).notes
        assert "10.0.0.0/16 and 10.0.77.0/24 are equal on all counts: took 10.0.0.0/16" in note.text

    def test_two_addresses_in_it_on_one_interface_are_no_question(self) -> None:
        machines = [facts("a", card("e", "10.0.0.1/24", "10.0.0.100/24")), facts("b", card("e", "10.0.0.2/24"))]
        assert chosen(abc()[:2], machines) == [("e", "10.0.0.1"), ("e", "10.0.0.2")]

    def test_ipv4_comes_before_ipv6(self) -> None:
        machines = [facts(n, card("e", f"fd00::{i}/64", f"10.0.0.{i}/24")) for i, n in enumerate("abc", 1)]
        assert chosen(abc(), machines)[0] == ("e", "10.0.0.1")

    def test_ipv6_alone_is_enough(self) -> None:
        machines = [facts(n, card("e", f"fe80::{i}/64", f"fd00::{i}/64")) for i, n in enumerate("abc", 1)]
        assert chosen(abc(), machines) == [("e", f"fd00::{i}") for i in (1, 2, 3)]

    def test_ipv6_is_taken_when_not_all_have_ipv4(self) -> None:
        machines = [
            facts("a", card("e", "10.0.0.1/24", "fd00::1/64")),
            facts("b", card("e", "10.0.0.2/24", "fd00::2/64")),
            facts("c", card("e", "fd00::3/64")),
        ]
        assert chosen(abc(), machines) == [("e", "fd00::1"), ("e", "fd00::2"), ("e", "fd00::3")]


class TestOneMachine:
    """Nodes on one machine."""

    def test_all_on_it_use_loopback(self) -> None:
        machines = [facts("m", card("e", "10.0.0.1/24"), card("f", "10.0.1.1/24"))] * 3
        assert chosen(abc(), machines) == [("lo", "127.0.0.1")] * 3

    def test_one_node_alone_uses_loopback(self) -> None:
        assert chosen([node("a")], [facts("a", card("e", "10.0.0.1/24"))]) == [("lo", "127.0.0.1")]

    def test_with_the_family_that_is_wished(self) -> None:
        assert chosen([node("a", family="ipv6")], [facts("a")]) == [("lo", "::1")]

    def test_a_named_interface_counts_more_than_loopback(self) -> None:
        machines = [facts("m", card("e", "10.0.0.1/24"))] * 3
        assert chosen(abc(interface="e"), machines) == [("e", "10.0.0.1")] * 3

    def test_a_loopback_that_is_down_is_an_error(self) -> None:
        down = card("lo", "127.0.0.1/8", up=False, loopback=True, scope="host")
        error = refusal([node("a")], [replace(facts("a"), interfaces=(down,))])
        assert "no loopback address 127.0.0.1" in error.message
        assert "ip link set lo up" in error.fix

    def test_two_on_it_and_one_elsewhere_share_a_subnet(self) -> None:
        here = facts("m", card("e", "10.0.0.1/24"), *DECOYS)
        elsewhere = facts("n", card("f", "10.0.0.2/24"), *DECOYS)
        assert chosen(abc(), [here, here, elsewhere]) == [("e", "10.0.0.1"), ("e", "10.0.0.1"), ("f", "10.0.0.2")]


class TestWishes:
    """What the cluster file says is done, or refused with its reason."""

    TWO = tuple(
        facts(name, card("eth0", f"10.0.0.{i}/24"), card("eth1", f"10.0.1.{i}/24")) for i, name in enumerate("abc", 1)
    )

    def test_an_interface_for_all(self) -> None:
        endpoints = choose(abc(interface="eth1"), self.TWO, None).endpoints
        assert [e.address for e in endpoints] == ["10.0.1.1", "10.0.1.2", "10.0.1.3"]
        assert {e.why for e in endpoints} == {"the cluster file names the interface"}

    def test_a_subnet_for_all(self) -> None:
        endpoints = choose(abc(subnet="10.0.1.0/24"), self.TWO, None).endpoints
        assert [e.interface for e in endpoints] == ["eth1"] * 3
        assert endpoints[0].why == "the cluster file names the subnet 10.0.1.0/24"

    def test_an_address_on_one_node_decides_for_all(self) -> None:
        nodes = [node("a"), node("b", address="10.0.1.2"), node("c")]
        endpoints = choose(nodes, self.TWO, None).endpoints
        assert [e.address for e in endpoints] == ["10.0.1.1", "10.0.1.2", "10.0.1.3"]
        assert endpoints[1].why == "the cluster file names the address"
        assert endpoints[0].why == "the subnet 10.0.1.0/24 that they share"

    def test_an_interface_on_one_node_decides_for_all(self) -> None:
        nodes = [node("a"), node("b"), node("c", interface="eth0")]
        assert [e.interface for e in choose(nodes, self.TWO, None).endpoints] == ["eth0"] * 3

    def test_an_address_in_another_spelling_is_the_same(self) -> None:
        machines = [facts("a", card("e", "fd00::1/64")), facts("b", card("e", "fd00::2/64"))]
        nodes = [node("a", address="fd00:0:0::1"), node("b")]
        assert chosen(nodes, machines) == [("e", "fd00::1"), ("e", "fd00::2")]

    def test_a_family(self) -> None:
        machines = [facts(n, card("e", f"10.0.0.{i}/24", f"fd00::{i}/64")) for i, n in enumerate("abc", 1)]
        assert [address for _, address in chosen(abc(family="ipv6"), machines)] == ["fd00::1", "fd00::2", "fd00::3"]

    def test_named_interfaces_need_no_common_subnet(self) -> None:
        machines = [facts(name, card("e", f"10.0.{i}.1/24")) for i, name in enumerate("abc")]
        assert [address for _, address in chosen(abc(interface="e"), machines)] == ["10.0.0.1", "10.0.1.1", "10.0.2.1"]

    def test_a_subnet_for_each_node_needs_no_common_one(self) -> None:
        machines = [facts(name, card("e", f"10.0.{i}.1/24")) for i, name in enumerate("ab")]
        nodes = [node("a", subnet="10.0.0.0/24"), node("b", subnet="10.0.1.0/24")]
        assert [address for _, address in chosen(nodes, machines)] == ["10.0.0.1", "10.0.1.1"]

    def test_routed_nodes_are_of_one_family(self) -> None:
        machines = [
            facts("a", card("e", "10.0.0.1/24", "fd00:a::1/64")),
            facts("b", card("e", "fd00:b::1/64")),
        ]
        assert chosen(abc(interface="e")[:2], machines) == [("e", "fd00:a::1"), ("e", "fd00:b::1")]

    def test_cloud_addresses_without_a_network_are_joined_by_a_subnet(self) -> None:
        machines = [facts(name, card("ens4", f"10.128.0.{i}/32")) for i, name in enumerate("abc", 2)]
        assert "needs proof" in choose(abc(), machines, None).why
        assert [a for _, a in chosen(abc(subnet="10.128.0.0/20"), machines)] == [f"10.128.0.{i}" for i in (2, 3, 4)]

    def test_a_named_bridge_is_taken(self) -> None:
        machines = [facts(n, card("docker0", f"172.17.0.{i}/16")) for i, n in enumerate("abc", 1)]
        assert chosen(abc(interface="docker0"), machines)[0] == ("docker0", "172.17.0.1")

    def test_a_link_local_ipv6_address_is_never_taken(self) -> None:
        machines = [facts(n, card("e", f"fe80::{i}/64", scope="link")) for i, n in enumerate("abc", 1)]
        assert "link-local" in refusal(abc(interface="e"), machines).message

    def test_link_local_does_not_outdo_a_routed_ipv4_address(self) -> None:
        machines = [facts(n, card("e", f"fe80::{i}/64", f"10.0.{i}.1/24")) for i, n in enumerate("abc", 1)]
        assert [a for _, a in chosen(abc(interface="e"), machines)] == ["10.0.1.1", "10.0.2.1", "10.0.3.1"]

    @pytest.mark.parametrize(
        ("wish", "named", "line"),
        [
            ({"interface": "eth7"}, "eth7", "interface: eth7"),
            ({"subnet": "10.7.0.0/24"}, "an address in 10.7.0.0/24", "subnet: 10.7.0.0/24"),
            ({"address": "10.7.0.1"}, "10.7.0.1", "address: 10.7.0.1"),
            ({"address": "10.0.1.2", "interface": "eth7"}, "10.0.1.2 on eth7", "interface: eth7"),
            ({"interface": "lo", "subnet": "10.7.0.0/24"}, "an address in 10.7.0.0/24 on lo", "subnet: 10.7.0.0/24"),
        ],
    )
    def test_an_impossible_one_names_the_node_what_it_has_and_the_line(
        self, wish: dict[str, str], named: str, line: str
    ) -> None:
        own: Any = {**wish, "own": tuple(wish)}
        nodes = [node("a"), node("b", **own), node("c")]
        error = refusal(nodes, self.TWO)
        assert f"b can't use {named}" in error.message
        assert "10.0.1.2/24" in error.message
        assert "10.0.1.1/24" not in error.message
        assert error.fix == f'take out "{line}" of b: the nodes find what joins them'
        assert error.nodes == ("b",)

    def test_an_impossible_one_for_all_is_the_line_of_the_block(self) -> None:
        error = refusal(abc(interface="eth7"), self.TWO)
        assert error.message.startswith("a, b, c can't use eth7, which the cluster file wants\n  a has ")
        assert error.fix.startswith('take out "network.interface: eth7": ')
        assert error.nodes == ()

    def test_a_family_that_nobody_has_is_told_in_a_line(self) -> None:
        machines = [facts(n, card("e", f"10.0.0.{i}/24", f"fe80::{i}/64")) for i, n in enumerate("ab", 1)]
        error = refusal(abc(family="ipv6")[:2], machines)
        assert error.message == "a, b can't use an ipv6 address, which the cluster file wants"
        assert error.fix.startswith('take out "network.family: ipv6": ')

    def test_an_interface_that_is_down_is_an_impossible_one(self) -> None:
        machines = [facts("a", card("e", "10.0.0.1/24", up=False)), facts("b", card("e", "10.0.0.2/24"))]
        error = refusal(abc(interface="e")[:2], machines)
        assert error.message.endswith("  a has e 10.0.0.1/24 (interface is down)")
        assert error.fix.startswith("bring it up on a:")
        assert '\nor take out "network.interface: e": ' in error.fix

    def test_loopback_can_not_join_two_machines(self) -> None:
        machines = [facts("a"), facts("b")]
        assert "b has the same address" in refusal(abc(interface="lo")[:2], machines).message


class TestErrors:
    """No answer, or several: the table, and the line of YAML that decides."""

    def test_no_usable_address_names_the_nodes(self) -> None:
        machines = [facts("a", card("e", "10.0.0.1/24")), facts("b", *DECOYS[4:]), facts("c", *DECOYS[4:6])]
        message = refusal(abc(), machines).message
        assert message.startswith("no usable address on b, c\n")
        assert "interface has no carrier" in message

    def test_no_common_family_says_so(self) -> None:
        machines = [facts("a", card("e", "10.0.0.1/24")), facts("b", card("f", "fd00::1/64"))]
        error = refusal([node("a", host="h1"), node("b")], machines)
        assert error.message.split("\n") == [
            "some nodes have IPv4 addresses only, others IPv6",
            "  ipv4 alone on a",
            "  ipv6 alone on b",
        ]
        assert error.fix.endswith("- {host: h1, name: a, interface: e}")
        assert error.nodes == ()

    def test_a_node_with_a_link_local_address_that_nobody_shares_is_named(self) -> None:
        machines = [facts("a", card("e", "10.0.0.1/24")), facts("b", card("f", "169.254.0.1/16", scope="link"))]
        error = refusal(abc()[:2], machines)
        assert error.message.startswith("no usable address on b\n")
        assert error.message.endswith("  b has f 169.254.0.1/16 (link-local, and not shared)")
        assert error.nodes == ("b",)

    def test_of_many_nodes_the_one_without_an_address_is_shown_alone(self) -> None:
        names = [f"n{i:02}" for i in range(64)]
        machines = [facts(n, card("e", f"10.0.0.{i + 1}/24")) for i, n in enumerate(names)]
        machines[52] = facts("n52", card("e", "10.0.0.53/24", up=False))
        error = refusal([node(name) for name in names], machines)
        assert error.message == "no usable address on n52\n  n52 has e 10.0.0.53/24 (interface is down)"
        assert error.nodes == ("n52",)
        assert error.fix.startswith(
            "bring it up on n52:  sudo ip link set e up\nor go on without:  --nodes '!n52'\nor name the interface"
        )

    def test_where_no_node_has_one_there_are_none_to_go_on_with(self) -> None:
        assert "--nodes" not in refusal(abc()[:2], [facts("a"), facts("b")]).fix

    def test_a_node_with_nothing_to_mend_says_so(self) -> None:
        error = refusal(abc()[:2], [facts("a", card("e", "10.0.0.1/24")), facts("b")])
        assert error.message.endswith("  b has no address but loopback and link-local ones")
        assert error.fix.startswith("go on without:  --nodes '!b'\nor name the interface")

    def test_an_address_that_many_have_is_told_in_few_words(self) -> None:
        machines = [facts(name, card("e", "10.0.0.1/24")) for name in "abc"]
        error = refusal(abc(), machines)
        assert "a and 1 more have the same address" in error.message
        assert error.fix.startswith("give a (e), or b, another address\n")


class TestSeveralNetworks:
    """Several shared subnets are no error: the best is taken, and it is said why."""

    @staticmethod
    def two(first: dict[str, Any], second: dict[str, Any]) -> list[NodeFacts]:
        """Three nodes with a ``first`` card in 10.0.0.0/24 and a ``second`` one in 10.0.1.0/24."""
        return [
            facts(name, card("e", f"10.0.0.{i}/24", **first), card("f", f"10.0.1.{i}/24", **second))
            for i, name in enumerate("abc", 1)
        ]

    @pytest.mark.parametrize(
        ("poorer", "better", "why"),
        [
            ({"speed": 1000}, {"speed": 25000}, "lower speed: 1 Gbit/s against 25 Gbit/s"),
            ({"speed": None}, {"speed": 1000}, "lower speed: unknown against 1 Gbit/s"),
            ({"speed": 10000, "kind": "veth"}, {"speed": 1000}, "lower speed: unknown against 1 Gbit/s"),
            ({"speed": 10, "kind": "tun", "mtu": 1420}, {}, "smaller MTU: 1420 against 1500"),
            ({"mtu": 1500}, {"mtu": 9000}, "smaller MTU: 1500 against 9000"),
            ({"virtual": True}, {"virtual": False}, "virtual, the other is a card"),
            ({"default_route": True}, {}, "carries the SSH connection or the default route"),
            ({"speed": 1000, "mtu": 9000}, {"speed": 2500}, "lower speed: 1 Gbit/s against 2.5 Gbit/s"),
        ],
    )
    def test_the_better_one_is_taken_wherever_it_stands(
        self, poorer: dict[str, Any], better: dict[str, Any], why: str
    ) -> None:
        for machines, taken, left in ((self.two(poorer, better), "f", 0), (self.two(better, poorer), "e", 1)):
            choice = choose(abc(), machines, None)
            assert [endpoint.interface for endpoint in choice.endpoints] == [taken] * 3
            row = [verdict for verdict in choice.table[0] if verdict.candidate.interface != "lo"]
            assert [verdict.verdict for verdict in row] == (["usable", "chosen"] if left == 0 else ["chosen", "usable"])
            assert row[left].reason == why
            assert why in choice.why
            assert choice.notes == ()

    def test_the_slowest_node_counts(self) -> None:
        machines = self.two({"speed": 25000}, {"speed": 10000})
        slow = card("e", "10.0.0.3/24", speed=1000)
        machines[2] = replace(machines[2], interfaces=(slow, machines[2].interfaces[2]))
        assert [e.interface for e in choose(abc(), machines, None).endpoints] == ["f"] * 3

    def test_the_network_of_the_ssh_connection_comes_last_of_equals(self) -> None:
        machines = [replace(m, ssh_address=f"10.0.0.{i}") for i, m in enumerate(self.two({}, {}), 1)]
        assert [e.interface for e in choose(abc(), machines, None).endpoints] == ["f"] * 3

    def test_an_active_rdma_port_counts_more_than_speed(self) -> None:
        port = RdmaPort(1, "ACTIVE", "Ethernet", 25.0, netdevs=("e",))
        machines = self.two({"speed": 25000}, {"speed": 100000})
        able = [replace(m, rdma=(RdmaDevice("mlx5_0", (port,)),)) for m in machines]
        assert [e.interface for e in choose(abc(), able, None).endpoints] == ["e"] * 3
        down = [replace(m, rdma=(RdmaDevice("mlx5_0", (replace(port, state="DOWN"),)),)) for m in machines]
        assert [e.interface for e in choose(abc(), down, None).endpoints] == ["f"] * 3
        assert [e.interface for e in choose(abc(), [able[0], *down[1:]], None).endpoints] == ["f"] * 3

    def test_equals_are_decided_by_the_kernels_order_and_the_other_is_named(self) -> None:
        choice = choose(abc(), self.two({}, {}), None)
        assert [endpoint.interface for endpoint in choice.endpoints] == ["e"] * 3
        (note,) = choice.notes
        assert note.text.startswith("10.0.0.0/24 and 10.0.1.0/24 are equal on all counts: took 10.0.0.0/24")
        line = note.fix.partition("write  ")[2]
        spec = parse_cluster(f"{line}\nnodes: [a, b, c]\n", "cluster.yaml")
        assert [e.interface for e in choose(spec.nodes, self.two({}, {}), None).endpoints] == ["f"] * 3

    def test_two_subnets_on_one_wire_are_no_question(self) -> None:
        machines = [facts(n, card("e", f"10.0.0.{i}/24", f"10.0.1.{i}/24")) for i, n in enumerate("abc", 1)]
        assert choose(abc(), machines, None).notes == ()

    def test_direct_cables_are_taken_when_there_is_nothing_else(self) -> None:
        machines = [facts(n, card("e", f"169.254.7.{i}/16", scope="link")) for i, n in enumerate("abc", 1)]
        assert chosen(abc(), machines)[0] == ("e", "169.254.7.1")
        richer = [replace(m, interfaces=(*m.interfaces, card("z", f"fd00::{i}/64"))) for i, m in enumerate(machines, 1)]
        assert chosen(abc(), richer)[0] == ("z", "fd00::1")


class TestSeveralInterfacesInOneSubnet:
    """The routing decides by which card NCCL sends: the first is taken, and it is said how to use both."""

    MACHINES = (
        facts("a", card("e", "10.0.0.1/24")),
        facts("b", card("e", "10.0.0.2/24"), card("f", "10.0.0.3/24")),
    )

    def test_the_first_is_taken_with_a_note_that_names_both_and_what_mends_it(self) -> None:
        choice = choose(abc()[:2], self.MACHINES, None)
        assert choice.endpoints[1].interface == "e"
        (note,) = choice.notes
        assert note.node == "b"
        assert "2 interfaces in 10.0.0.0/24 (e 10.0.0.2, f 10.0.0.3)" in note.text
        assert "\n  sudo ip rule add from 10.0.0.3 table 102\n" in note.fix
        assert "ip route add 10.0.0.0/24 dev f src 10.0.0.3 table 102" in note.fix
        assert "arp_ignore=1" in note.fix

    def test_many_nodes_alike_are_told_in_two_notes(self) -> None:
        machines = [facts(n, card("e", f"10.0.0.{i}/24"), card("f", f"10.0.0.1{i}/24")) for i, n in enumerate("abcdef")]
        notes = choose([node(name) for name in "abcdef"], machines, None).notes
        assert [note.node for note in notes] == ["a", None]
        assert notes[1].text == "several interfaces in one subnet, as a: b, c, d, e and 1 more"

    def test_a_wish_for_the_other_is_done_and_said_as_well(self) -> None:
        choice = choose([node("a"), node("b", interface="f")], self.MACHINES, None)
        assert choice.endpoints[1].address == "10.0.0.3"
        assert [note.node for note in choice.notes] == ["b"]


class TestBridges:
    """A bridge in which no card is seen may lead out: it comes after cards, but before nothing."""

    BRIDGE: ClassVar[dict[str, Any]] = {"kind": "bridge", "virtual": True, "mtu": 9000}

    def test_a_card_comes_first_even_if_it_has_less_to_offer(self) -> None:
        machines = [
            facts(n, card("br0", f"10.0.0.{i}/24", **self.BRIDGE), card("e", f"10.0.1.{i}/24"))
            for i, n in enumerate("abc", 1)
        ]
        choice = choose(abc(), machines, None)
        assert [endpoint.interface for endpoint in choice.endpoints] == ["e"] * 3
        (verdict,) = (v for v in choice.table[0] if v.candidate.interface == "br0")
        assert (verdict.verdict, verdict.reason) == ("usable", "a bridge without a network card in it")

    def test_without_a_card_it_is_taken(self) -> None:
        machines = [
            facts(n, card("m", f"10.9.{i}.1/24"), card("br0", f"10.0.0.{i}/24", **self.BRIDGE))
            for i, n in enumerate("abc", 1)
        ]
        assert chosen(abc(), machines)[0] == ("br0", "10.0.0.1")


class TestAnnouncedAddress:
    """NCCL announces an interface's first address and no other: one behind it is the last resort, and said to be."""

    def test_the_last_resort_is_taken_with_a_note_how_to_mend_it(self) -> None:
        machines = [facts(n, card("e", "192.168.1.5/24", f"10.0.0.{i}/24")) for i, n in enumerate("abc", 1)]
        choice = choose(abc(), machines, None)
        assert [e.address for e in choice.endpoints] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
        first, others = choice.notes
        assert first.node == "a"
        assert first.text.startswith("NCCL will announce 192.168.1.5, the first address of e, and not 10.0.0.1:")
        assert first.fix == (
            "on that host, for it to come first:  sudo ip addr del 192.168.1.5/24 dev e && sudo ip addr replace"
            " 10.0.0.1/24 dev e && sudo ip addr add 192.168.1.5/24 dev e\nor give it an interface of its own"
        )
        assert others.text == "an address that is not the first, as a: b, c"

    def test_an_interface_of_its_own_comes_first_even_if_it_is_slower_or_routed(self) -> None:
        slow = [
            facts(n, card("e", f"10.1.{i}.1/32", f"10.0.0.{i}/24", speed=100000), card("f", f"10.2.0.{i}/24"))
            for i, n in enumerate("abc", 1)
        ]
        assert chosen(abc(), slow)[0] == ("f", "10.2.0.1")
        routed = [replace(machine, interfaces=machine.interfaces[:2]) for machine in slow]
        assert chosen(abc(), routed)[0] == ("e", "10.1.1.1")

    def test_proof_lets_one_behind_win_when_nothing_else_works(self) -> None:
        machines = [facts(n, card("e", f"10.1.{i}.1/24", f"10.0.0.{i}/24")) for i, n in enumerate("abc", 1)]
        found = evidence(abc(), machines, lambda _a, _s, _b, target: target.startswith("10.0."))
        choice = choose(abc(), machines, found)
        assert choice.endpoints[0].address == "10.0.0.1"
        assert choice.notes[0].text.startswith("NCCL will announce 10.1.1.1")
        choice = choose(abc(), machines, evidence(abc(), machines, everything))
        assert choice.endpoints[0].address == "10.1.1.1"
        (verdict,) = (v for v in choice.table[0] if v.candidate.address == "10.0.0.1")
        assert verdict.reason.startswith("NCCL would announce 10.1.1.1, the first address of e; ")

    def test_a_wish_for_it_is_done_and_said(self) -> None:
        machines = [
            facts(n, card("e", f"10.1.0.{i}/24", f"fd01::{i}/64", f"fd00::{i}/64")) for i, n in enumerate("ab", 1)
        ]
        choice = choose(abc(subnet="fd00::/64")[:2], machines, None)
        assert choice.endpoints[1].address == "fd00::2"
        assert "ip -6 addr del fd00::1/64 dev e && sudo ip -6 addr add fd00::1/64 dev e" in choice.notes[0].fix


class TestJudgedWithoutChoice:
    """Where there is no network every candidate is judged all the same."""

    MACHINES = tuple(
        facts(n, card("docker0", "172.17.0.1/16"), card("e", f"10.0.0.{i}/24")) for i, n in enumerate("ab")
    )

    def test_by_the_facts_alone(self) -> None:
        table = judged_without_choice(abc()[:2], self.MACHINES, None)
        assert [(v.candidate.interface, v.verdict, v.reason) for v in table[0][2:]] == [
            ("docker0", "rejected", "container or VM bridge: ends in this host"),
            ("e", "usable", "not tried"),
        ]

    def test_by_what_was_tried(self) -> None:
        found = evidence(abc()[:2], self.MACHINES, lambda a, *_: a == 0)
        table = judged_without_choice(abc()[:2], self.MACHINES, found)
        assert [table[at][3].reason for at in range(2)] == [
            "does not work with b: no answer within 2.5 s",
            "does not work with a: reached from there, but not the other way",
        ]


class TestRoutedGuess:
    """Without a subnet that all share, the best address of each is a guess that needs proof."""

    def test_what_most_share_comes_first_then_what_is_better(self) -> None:
        machines = [
            facts("a", card("m", "10.1.1.1/24", speed=100000), card("e", "10.0.0.1/24")),
            facts("b", card("m", "10.1.2.1/24", speed=100000), card("e", "10.0.0.2/24")),
            facts("c", card("m", "10.1.3.1/24", speed=100000), card("n", "10.1.4.1/24")),
        ]
        choice = choose(abc(), machines, None)
        assert [e.interface for e in choice.endpoints] == ["e", "e", "m"]
        assert "needs proof" in choice.endpoints[0].why


# --- what must hold for any machines

V4 = st.builds("10.{}.0.{}/{}".format, st.integers(0, 2), st.integers(1, 4), st.sampled_from([8, 16, 24, 32]))
V6 = st.builds("fd0{}::{}/64".format, st.integers(0, 1), st.integers(1, 4))
LINK = st.builds("fe80::{}/64".format, st.integers(1, 4))
CARD = st.builds(
    card,
    st.sampled_from(["eth0", "eth1", "ib0", "docker0", "virbr0"]),
    st.one_of(V4, V4, V6, LINK),
    up=st.sampled_from([True, True, True, False]),
    running=st.sampled_from([True, True, True, False]),
)
CARDS = st.lists(CARD, max_size=3, unique_by=lambda interface: interface.name)
WISH: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.just({}),
    st.sampled_from([{"interface": "eth0"}, {"subnet": "10.1.0.0/16"}, {"address": "10.0.0.1"}, {"family": "ipv6"}]),
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node], list[NodeFacts]]:
    """Up to four nodes on up to three machines; on one machine no address comes twice."""
    cards = draw(st.lists(CARDS, min_size=1, max_size=3))
    machines = []
    for number, row in enumerate(cards):
        unique = {interface.addresses[0].address: interface for interface in row}
        machines.append(facts(f"m{number}", *unique.values()))
    extra = draw(st.lists(st.sampled_from(machines), max_size=1))
    wishes = draw(st.lists(WISH, min_size=len(machines) + len(extra), max_size=len(machines) + len(extra)))
    nodes = [node(f"n{number}", **wish) for number, wish in enumerate(wishes)]
    return nodes, machines + extra


def answer(nodes: Sequence[Node], machines: Sequence[NodeFacts]) -> list[tuple[str, str]] | None:
    """The choice, None for a refusal; anything but PlanError is a bug and gets through."""
    try:
        return chosen(nodes, machines)
    except PlanError:
        return None


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_what_is_chosen_is_one_machines_own_and_was_not_rejected(case: tuple[list[Node], list[NodeFacts]]) -> None:
    nodes, machines = case
    picks = answer(nodes, machines)
    if picks is None:
        return
    owners = defaultdict(set)
    for machine in machines:
        for interface in machine.interfaces:
            for address in interface.addresses:
                owners[address.address].add(machine.machine)
    alone = len({machine.machine for machine in machines}) == 1
    for pick, row in zip(picks, all_candidates(nodes, machines), strict=True):
        (candidate,) = [c for c in row if (c.interface, c.address) == pick]
        assert not candidate.rejected or (alone and pick[0] == "lo")
        assert len(owners[pick[1]]) == 1
        assert not candidate.ip.is_link_local
    assert len({":" in address for _, address in picks}) == 1


@settings(max_examples=60, deadline=None)
@given(clusters(), st.randoms(use_true_random=False))
def test_another_order_of_the_nodes_only_reorders_the_answer(
    case: tuple[list[Node], list[NodeFacts]], random: Any
) -> None:
    nodes, machines = case
    order = list(range(len(nodes)))
    random.shuffle(order)
    picks = answer(nodes, machines)
    shuffled = answer([nodes[i] for i in order], [machines[i] for i in order])
    assert shuffled == (None if picks is None else [picks[i] for i in order])


@settings(max_examples=60, deadline=None)
@given(clusters(), st.sampled_from(own_decoys(7)), st.integers(0, 3))
def test_one_more_decoy_changes_nothing(case: tuple[list[Node], list[NodeFacts]], decoy: Interface, where: int) -> None:
    nodes, machines = case
    target = machines[where % len(machines)].machine
    decoy = replace(decoy, name=decoy.name if decoy.name.startswith(("veth", "br-", "docker")) else "decoy0")
    crowded = [replace(m, interfaces=(*m.interfaces, decoy)) if m.machine == target else m for m in machines]
    assert answer(nodes, crowded) == answer(nodes, machines)


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_nodes_that_share_a_subnet_are_kept_in_one(case: tuple[list[Node], list[NodeFacts]]) -> None:
    _, machines = case
    nodes = [replace(node(f"n{number}"), network=Network()) for number in range(len(machines))]
    picks = answer(nodes, machines)
    table = [[c for c in row if not c.rejected] for row in all_candidates(nodes, machines)]
    shared = set.intersection(*({c.network for c in row} for row in table))
    if picks is None or not shared or one_machine(machines):  # which uses its loopback
        return
    taken = [next(c for c in row if (c.interface, c.address) == pick) for pick, row in zip(picks, table, strict=True)]
    assert any(all(other.ip in candidate.network for other in taken) for candidate in taken)
