"""Which network joins the nodes: tables of machines as people have them, and what must hold for all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclrun.model.cluster import Network, Node
from ncclrun.model.errors import PlanError
from ncclrun.model.facts import Interface, NodeFacts
from ncclrun.planning.clusterfile import parse_cluster
from ncclrun.planning.network import all_candidates, choose_endpoints
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
    return [(endpoint.interface, endpoint.address) for endpoint in choose_endpoints(nodes, machines)]


def refusal(nodes: Sequence[Node], machines: Sequence[NodeFacts]) -> PlanError:
    with pytest.raises(PlanError) as caught:
        choose_endpoints(nodes, machines)
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
        assert choose_endpoints(abc(), machines)[0].why == "the subnet 10.0.0.0/24, which all nodes share"

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
        assert "share 2 subnets" in refusal(abc(), machines).message

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
        endpoints = choose_endpoints(abc(interface="eth1"), self.TWO)
        assert [e.address for e in endpoints] == ["10.0.1.1", "10.0.1.2", "10.0.1.3"]
        assert {e.why for e in endpoints} == {"the cluster file names the interface"}

    def test_a_subnet_for_all(self) -> None:
        endpoints = choose_endpoints(abc(subnet="10.0.1.0/24"), self.TWO)
        assert [e.interface for e in endpoints] == ["eth1"] * 3
        assert endpoints[0].why == "the cluster file names the subnet 10.0.1.0/24"

    def test_an_address_on_one_node_decides_for_all(self) -> None:
        nodes = [node("a"), node("b", address="10.0.1.2"), node("c")]
        endpoints = choose_endpoints(nodes, self.TWO)
        assert [e.address for e in endpoints] == ["10.0.1.1", "10.0.1.2", "10.0.1.3"]
        assert endpoints[1].why == "the cluster file names the address"
        assert endpoints[0].why == "the subnet 10.0.1.0/24, which all nodes share"

    def test_an_interface_on_one_node_decides_for_all(self) -> None:
        nodes = [node("a"), node("b"), node("c", interface="eth0")]
        assert [e.interface for e in choose_endpoints(nodes, self.TWO)] == ["eth0"] * 3

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
        assert "network: {interface: ens4}" in refusal(abc(), machines).fix
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
        ("wish", "named"),
        [
            ({"interface": "eth7"}, "eth7"),
            ({"subnet": "10.7.0.0/24"}, "an address in 10.7.0.0/24"),
            ({"address": "10.7.0.1"}, "10.7.0.1"),
        ],
    )
    def test_an_impossible_one_names_the_node_and_shows_what_it_has(self, wish: dict[str, str], named: str) -> None:
        nodes = [node("a"), node("b", **wish), node("c")]  # type: ignore[arg-type]  # names of fields, values of text
        error = refusal(nodes, self.TWO)
        assert f"b can't use {named}" in error.message
        assert "10.0.1.2/24" in error.message
        assert "10.0.1.1/24" not in error.message
        assert "correct network.interface" in error.fix

    def test_an_interface_that_is_down_is_an_impossible_one(self) -> None:
        machines = [facts("a", card("e", "10.0.0.1/24", up=False)), facts("b", card("e", "10.0.0.2/24"))]
        assert "interface is down" in refusal(abc(interface="e")[:2], machines).message

    def test_loopback_can_not_join_two_machines(self) -> None:
        machines = [facts("a"), facts("b")]
        assert "b has the same address" in refusal(abc(interface="lo")[:2], machines).message


class TestErrors:
    """No answer, or several: the table, and the line of YAML that decides."""

    def test_two_shared_subnets_show_both_and_every_address(self) -> None:
        error = refusal(abc(), TestWishes.TWO)
        assert "share 2 subnets" in error.message
        assert "  10.0.0.0/24: a eth0 10.0.0.1, b eth0 10.0.0.2, c eth0 10.0.0.3" in error.message
        assert "  c  eth1  10.0.1.3/24  usable" in error.message
        assert error.fix == "add to the cluster file:  network: {subnet: 10.0.0.0/24}   # or 10.0.1.0/24"

    def test_no_usable_address_names_the_nodes(self) -> None:
        machines = [facts("a", card("e", "10.0.0.1/24")), facts("b", *DECOYS[4:]), facts("c", *DECOYS[4:6])]
        message = refusal(abc(), machines).message
        assert message.startswith("no usable address on b, c\n")
        assert "interface has no carrier" in message

    def test_no_common_subnet_says_so(self) -> None:
        machines = [facts("a", card("e", "10.0.0.1/24")), facts("b", card("f", "10.0.1.1/24"))]
        error = refusal([node("a", host="h1"), node("b")], machines)
        assert error.message.startswith("there is no subnet in which every node has a usable address\n")
        assert error.fix.endswith("- {host: h1, name: a, interface: e}")

    def test_one_of_many_that_is_outside_is_named_and_shown_with_a_few_others(self) -> None:
        names = [f"n{i:02}" for i in range(64)]
        machines = [facts(n, card("m", f"10.1.{i}.2/24"), card("e", f"10.0.0.{i + 1}/24")) for i, n in enumerate(names)]
        machines[52] = facts("n52", card("m", "10.1.52.2/24"), card("e", "10.0.0.53/24", up=False))
        error = refusal([node(name) for name in names], machines)
        assert error.message.startswith("10.0.0.0/24 joins 63 of 64 nodes, but no usable address of n52 is in it\n")
        assert "  n52  e   10.0.0.53/24  interface is down" in error.message
        assert error.message.endswith("  … and 56 more nodes")
        assert error.nodes == ("n52",)
        assert error.fix.startswith("mend or leave out n52, or name the interface")

    def test_two_subnets_with_as_many_nodes_blame_nobody(self) -> None:
        machines = [
            facts("a", card("e", "10.0.0.1/24"), card("f", "10.0.1.1/24")),
            facts("b", card("e", "10.0.0.2/24")),
            facts("c", card("f", "10.0.1.3/24")),
        ]
        error = refusal(abc(), machines)
        assert error.message.startswith("there is no subnet in which every node has a usable address\n")
        assert error.nodes == ()

    def test_two_interfaces_in_the_subnet_ask_for_one_on_that_node(self) -> None:
        machines = [
            facts("a", card("e", "10.0.0.1/24")),
            facts("b", card("e", "10.0.0.2/24"), card("f", "10.0.0.3/24")),
        ]
        error = refusal(abc()[:2], machines)
        assert error.message.startswith("b has several interfaces in 10.0.0.0/24")
        assert "10.0.0.1/24" not in error.message
        assert error.fix.endswith("- {host: b, interface: e}")

    def test_two_subnets_are_told_before_two_interfaces_in_one(self) -> None:
        machines = [
            facts("a", card("e", "10.0.0.1/24"), card("g", "10.0.9.1/24")),
            facts("b", card("e", "10.0.0.2/24"), card("f", "10.0.0.3/24"), card("g", "10.0.9.2/24")),
        ]
        assert "share 2 subnets" in refusal(abc()[:2], machines).message

    def test_an_address_that_many_have_is_told_in_few_words(self) -> None:
        machines = [facts(name, card("e", "10.0.0.1/24")) for name in "abc"]
        assert "a and 1 more have the same address" in refusal(abc(), machines).message

    @pytest.mark.parametrize(
        "machines",
        [
            TestWishes.TWO,
            tuple(facts(n, card("e", f"fd00::{i}/64"), card("f", f"fd01::{i}/64")) for i, n in enumerate("abc", 1)),
            tuple(facts(n, card("ens4", f"10.128.0.{i}/32")) for i, n in enumerate("abc", 1)),
            tuple(
                facts(n, card("e", f"10.0.0.{i}/24"), *([card("f", "10.0.0.9/24")] if n == "b" else []))
                for i, n in enumerate("abc", 1)
            ),
        ],
        ids=["two IPv4 subnets", "two IPv6 subnets", "no subnet", "two interfaces"],
    )
    def test_the_line_in_it_put_into_the_file_mends_it(self, machines: tuple[NodeFacts, ...]) -> None:
        line = refusal(abc(), machines).fix.partition(":  ")[2]
        nodes = ["- a", "- b", "- c"]
        head = ""
        if line.startswith("- "):
            nodes["abc".index(line[len("- {host: ")])] = line
        else:
            head = line + "\n"
        spec = parse_cluster(head + "nodes:\n" + "\n".join(nodes), "cluster.yaml")
        assert len({e.address for e in choose_endpoints(spec.nodes, machines)}) == 3


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
    crowded = [replace(m, interfaces=(decoy, *m.interfaces)) if m.machine == target else m for m in machines]
    assert answer(nodes, crowded) == answer(nodes, machines)


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_nodes_that_share_no_wish_keep_to_one_subnet(case: tuple[list[Node], list[NodeFacts]]) -> None:
    _, machines = case
    nodes = [replace(node(f"n{number}"), network=Network()) for number in range(len(machines))]
    picks = answer(nodes, machines)
    if picks is None:
        return
    table = all_candidates(nodes, machines)
    taken = [next(c for c in row if (c.interface, c.address) == pick) for pick, row in zip(picks, table, strict=True)]
    assert any(all(other.ip in candidate.network for other in taken) for candidate in taken)
