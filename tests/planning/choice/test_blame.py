"""Who is in the way when nothing is proven for all: the error's words, its nodes, and the line that mends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ncclrun.model.errors import PlanError
from ncclrun.model.facts import Interface
from ncclrun.model.network import Reach
from ncclrun.planning.network import choose
from tests.planning.evidence import Reaches, evidence
from tests.planning.makers import card, facts, node

NAMES = [f"node{i}" for i in range(4)]
NODES = [node(name) for name in NAMES]
MACHINES = [facts(name, card("ens5", f"10.0.0.{i}/24")) for i, name in enumerate(NAMES, 1)]


def refusal(reaches: Reaches, *, nnodes: int = 4, **more: Any) -> PlanError:
    nodes, machines = NODES[:nnodes], MACHINES[:nnodes]
    with pytest.raises(PlanError) as caught:
        choose(nodes, machines, evidence(nodes, machines, reaches, **more))
    return caught.value


def about(error: PlanError) -> str:
    """The first line under the headline that says what is wrong."""
    return next(line for line in error.message.split("\n")[1:] if "(proven), but not" not in line)


class TestOneNode:
    """It fails with all others: it is named, with interface and address, and the others can go on."""

    def test_that_nobody_reaches_and_that_reaches_nobody(self) -> None:
        error = refusal(lambda a, _s, b, _t: 2 not in (a, b))
        assert about(error) == (
            "node2 (ens5 10.0.0.3): nobody reaches it and it reaches nobody: no answer within 2.5 s:"
            " a firewall drops it, or an interface, VLAN or cable is dead"
        )
        assert error.nodes == ("node2",)
        assert error.fix.startswith(
            "look at the wire on node2:  ip -s link show ens5; sudo ethtool ens5\nor open all ports"
        )
        assert error.fix.endswith("\nor go on without:  --nodes '!node2'")

    def test_that_only_hears_nothing(self) -> None:
        error = refusal(lambda _a, _s, b, _t: b != 2)
        assert "node2 (ens5 10.0.0.3): nobody reaches it: no answer" in error.message
        assert error.nodes == ("node2",)

    def test_that_is_not_heard(self) -> None:
        error = refusal(lambda a, _s, _b, _t: a != 0)
        assert "node0 (ens5 10.0.0.1): it reaches nobody: no answer" in error.message
        assert error.fix.startswith(
            "see what node0 does with what it sends:  ip route get 10.0.0.2 from 10.0.0.1; sudo nft"
        )

    def test_without_a_route_can_not_answer_either_and_that_is_what_is_said(self) -> None:
        error = refusal(lambda a, _s, b, _t: "no_network" if a == 2 else b != 2)
        assert about(error) == (
            "node2 (ens5 10.0.0.3): nobody reaches it and it reaches nobody: node2 has no route to this network"
        )
        assert error.fix.startswith("give node2 a route:  sudo ip route add 10.0.0.0/24 via GATEWAY dev ens5")

    def test_that_is_the_master_is_looked_at_itself(self) -> None:
        error = refusal(lambda a, _s, b, _t: 0 not in (a, b))
        assert error.nodes == ("node0",)
        assert error.fix.startswith("look at the wire on node0:")

    def test_that_may_not_speak(self) -> None:
        error = refusal(lambda a, _s, _b, _t: "forbidden" if a == 2 else "reached")
        assert about(error) == (
            "node2 (ens5 10.0.0.3): it reaches nobody: forbidden by node2 itself (a firewall there)"
        )
        assert error.fix.startswith("on node2 itself a rule forbids it:  sudo nft list ruleset")

    def test_whose_firewall_lets_ssh_through(self) -> None:
        error = refusal(lambda _a, _s, b, _t: b != 3, open_ports=(22,))
        assert "port 22 of it answers, port 40000 does not: a firewall lets only some ports through" in error.message
        assert error.fix.startswith("open all ports between the nodes; on node3, by")
        assert "\n  ufw:        sudo ufw allow from 10.0.0.0/24\n" in error.fix
        assert "--add-source=10.0.0.0/24" in error.fix
        assert "nft insert rule inet filter input ip saddr 10.0.0.0/24 accept" in error.fix

    def test_whose_firewall_rejects_as_if_there_were_no_route(self) -> None:
        error = refusal(lambda _a, _s, b, _t: "no_route" if b == 3 else "reached")
        assert "no route to host: in one subnet that is a firewall's REJECT" in error.message
        assert error.fix.startswith("open all ports between the nodes; on node3, by")

    def test_that_refuses_though_it_listens(self) -> None:
        error = refusal(lambda _a, _s, b, _t: "refused" if b == 3 else "reached")
        assert "connection refused, though it listens there: a firewall rejects it, or another machine" in error.message

    def test_whose_address_another_machine_has(self) -> None:
        error = refusal(lambda _a, _s, b, _t: "stranger" if b == 3 else "reached")
        assert "at 10.0.0.4 a machine answers that is none of the nodes" in error.message
        assert error.fix.startswith(
            "give node3 an address of its own on ens5;  who has it now?  ip neigh show 10.0.0.4   (on node0)"
        )

    def test_whose_address_leads_to_another_node(self) -> None:
        error = refusal(lambda _a, _s, b, _t: "other" if b == 3 else "reached", by=1)
        assert "10.0.0.4 leads node0 to node1, not to node3" in error.message
        assert error.nodes == ("node3",)

    def test_two_of_five_are_both_named(self) -> None:
        nodes = [*NODES, node("node4")]
        machines = [*MACHINES, facts("node4", card("ens5", "10.0.0.5/24"))]
        with pytest.raises(PlanError) as caught:
            choose(nodes, machines, evidence(nodes, machines, lambda a, _s, b, _t: not {a, b} & {1, 4}))
        assert caught.value.nodes == ("node1", "node4")

    def test_that_tried_no_others_than_bad_ones_is_named_too(self) -> None:
        names = [f"n{i}" for i in range(8)]
        nodes = [node(name) for name in names]
        machines = [facts(n, card("e", f"10.0.0.{i + 1}/24")) for i, n in enumerate(names)]
        chain = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (5, 6), (5, 7), (6, 1), (7, 2)]
        tried = tuple(frozenset(b if a == n else a for a, b in chain if n in (a, b)) for n in range(8))
        found = evidence(nodes, machines, lambda a, _s, b, _t: not {a, b} & {5, 6, 7}, partners=tried)
        with pytest.raises(PlanError) as caught:
            choose(nodes, machines, found)
        assert caught.value.nodes == ("n5", "n6", "n7")


class TestPairs:
    """Only some pairs fail: they are named, and their ends alone have the trouble."""

    def test_one_way_is_something_on_the_way(self) -> None:
        error = refusal(lambda a, _s, b, _t: (a, b) != (0, 2))
        assert about(error).startswith(
            "node0 -> node2 (ens5 10.0.0.1, ens5 10.0.0.3): no answer within 2.5 s; the other way works: a firewall"
            " drops it"
        )
        assert error.nodes == ("node0", "node2")
        assert error.fix.startswith("open all ports between the nodes; on node2, by")
        assert "ufw allow from 10.0.0.0/24" in error.fix

    def test_both_ways_alike_is_one_line(self) -> None:
        error = refusal(lambda a, _s, b, _t: {a, b} != {0, 2})
        assert about(error).startswith(
            "node0 <-> node2 (ens5 10.0.0.1, ens5 10.0.0.3): no answer within 2.5 s: a firewall drops it"
        )

    def test_both_ways_differently_is_one_line_too(self) -> None:
        error = refusal(
            lambda a, _s, b, _t: {(0, 2): "refused", (2, 0): "no_network"}.get((a, b), "reached")  # type: ignore[arg-type,return-value]  # words of Reach
        )
        assert about(error) == (
            "node0 -> node2 (ens5 10.0.0.1, ens5 10.0.0.3): connection refused; the other way: node2 has"
            " no route to this network"
        )

    def test_two_nodes_blame_nobody(self) -> None:
        error = refusal(lambda *_: False, nnodes=2)
        assert about(error).startswith("node0 <-> node1 (ens5 10.0.0.1, ens5 10.0.0.2): no answer")
        assert error.nodes == ()

    def test_a_source_that_does_not_work_is_named(self) -> None:
        error = refusal(
            lambda a, source, b, _t: (a, b) != (0, 2) or source is None, sends_by=lambda at, _t: "192.0.2.1"
        )
        assert "node0 -> node2 (ens5 10.0.0.1, ens5 10.0.0.3): from 10.0.0.1: no answer" in about(error)

    def test_many_are_folded(self) -> None:
        names = [f"n{i:02}" for i in range(12)]
        nodes = [node(name) for name in names]
        machines = [facts(n, card("e", f"10.0.0.{i + 1}/24")) for i, n in enumerate(names)]
        found = evidence(nodes, machines, lambda a, _s, b, _t: abs(a - b) != 1)
        with pytest.raises(PlanError) as caught:
            choose(nodes, machines, found)
        lines = caught.value.message.split("\n")
        assert lines[1].startswith("n00 <-> n01 (e 10.0.0.1, e 10.0.0.2): no answer")
        assert lines[7] == "and 5 more pairs"


class TestGroups:
    """Nodes that see only their own group: a split is told as that, not pair by pair."""

    @staticmethod
    def split(addresses: list[str], border: int, outcome: bool | Reach = False) -> PlanError:
        """Nodes with these addresses, of which those below ``border`` reach only each other, and so do the others."""
        names = [f"n{i:02}" for i in range(len(addresses))]
        nodes = [node(name) for name in names]
        machines = [facts(name, card("e", address)) for name, address in zip(names, addresses, strict=True)]
        found = evidence(nodes, machines, lambda a, _s, b, _t: (a < border) == (b < border) or outcome)
        with pytest.raises(PlanError) as caught:
            choose(nodes, machines, found)
        return caught.value

    def test_halves_of_one_subnet_are_two_groups_and_nobody_is_left_out(self) -> None:
        error = self.split([f"10.0.0.{i + 1}/24" for i in range(12)], 6)
        assert error.message.split("\n") == [
            "no network works for all nodes",
            "the nodes fall into 2 groups, and none reaches another:",
            "  n00, n01, n02, n03, n04, n05  (10.0.0.0/24)",
            "  n06, n07, n08, n09, n10, n11  (10.0.0.0/24)",
            "between them, n00 -> n06 (e 10.0.0.1, e 10.0.0.7): no answer within 2.5 s: a firewall drops"
            " it, or an interface, VLAN or cable is dead",
        ]
        assert error.nodes == ()
        assert error.fix.startswith("look at what joins the groups (the cable between their switches, the VLAN, the")

    def test_of_a_small_group_and_a_large_one_the_small_one_may_be_left_out(self) -> None:
        error = self.split([f"10.0.0.{i + 1}/24" for i in range(5)], 3)
        assert error.nodes == ("n03", "n04")
        assert error.message.split("\n")[1] == "10.0.0.0/24 joins 3 of 5 nodes (proven), but not n03, n04:"
        assert error.fix.endswith("\nor go on without:  --nodes '!n03,!n04'")

    def test_each_in_a_subnet_of_its_own_lacks_a_route(self) -> None:
        error = self.split(["10.1.0.1/24", "10.1.0.2/24", "10.2.0.1/24", "10.2.0.2/24"], 2, "no_network")
        assert "  n00, n01  (10.1.0.0/24)\n  n02, n03  (10.2.0.0/24)\n" in error.message
        assert error.fix == "give n00 a route:  sudo ip route add 10.2.0.0/24 via GATEWAY dev e"


class TestWithoutTheNetwork:
    """A node that lacks the others' network, or whose address there can't be used: that is the sentence."""

    @staticmethod
    def refused(third: list[Interface], reaches: Reaches | None = None) -> PlanError:
        """Two nodes in 10.50.0.0/24, which works, beside networks for SSH that don't; and a third one."""
        machines = [
            facts("node0", card("ens3", "10.89.0.2/24"), card("eth1", "10.50.0.1/24")),
            facts("node1", card("ens3", "10.89.1.2/24"), card("enp7s0", "10.50.0.2/24")),
            facts("node2", card("ens3", "10.89.2.2/24"), *third),
        ]

        def default(_a: int, _source: str | None, _b: int, target: str) -> bool | Reach:
            return True if target.startswith("10.50.") else "no_network"

        with pytest.raises(PlanError) as caught:
            choose(NODES[:3], machines, evidence(NODES[:3], machines, reaches or default))
        return caught.value

    def test_no_address_in_it(self) -> None:
        error = self.refused([card("eth0", "172.20.0.5/16", up=False)])
        assert error.message.split("\n") == [
            "no network works for all nodes",
            "10.50.0.0/24 joins 2 of 3 nodes (proven), but not node2:",
            "node2 has no address in 10.50.0.0/24; it has ens3 10.89.2.2/24, eth0 172.20.0.5/16 (interface is down)",
        ]
        assert error.nodes == ("node2",)
        assert error.fix == (
            "give node2 an address in 10.50.0.0/24 on the card that is on this wire:  sudo ip addr add ADDRESS/24 dev"
            " INTERFACE\nor go on without:  --nodes '!node2'"
        )

    def test_a_card_without_a_carrier(self) -> None:
        error = self.refused([card("ens5", "10.50.0.3/24", running=False)])
        assert about(error) == "node2 (ens5 10.50.0.3): interface has no carrier"
        assert (
            error.fix
            == "look at the cable and the switch port on node2:  sudo ethtool ens5\nor go on without:  --nodes '!node2'"
        )

    def test_a_card_that_is_down(self) -> None:
        assert self.refused([card("ens5", "10.50.0.3/24", up=False)]).fix.startswith(
            "bring it up on node2:  sudo ip link set ens5 up"
        )

    def test_an_address_that_another_node_has(self) -> None:
        error = self.refused([card("ens5", "10.50.0.2/24")])
        assert error.message.split("\n")[1:] == [
            "10.50.0.0/24 could join the nodes, but not node1, node2:",
            "node1 (enp7s0) and node2 (ens5) have the same address 10.50.0.2",
        ]
        assert error.fix == "give one of node1 (enp7s0), node2 (ens5) another address than 10.50.0.2"

    def test_a_dead_address_in_it_is_told_by_how_it_failed(self) -> None:
        error = self.refused(
            [card("ens5", "10.50.0.3/24")],
            lambda a, _s, b, target: "no_network" if not target.startswith("10.50") else 2 not in (a, b),
        )
        assert about(error).startswith("node2 (ens5 10.50.0.3): nobody reaches it and it reaches nobody: no answer")


def test_over_routers_it_starts_from_what_is_proven_not_from_the_network_of_ssh() -> None:
    machines = [
        facts(n, card("ens3", f"10.89.{i}.2/24"), card("e", f"10.60.{i}.1/24"), ssh_address=f"10.89.{i}.2")
        for i, n in enumerate(NAMES[:3])
    ]
    found = evidence(
        NODES[:3], machines, lambda a, _s, b, target: target.startswith("10.60.") and 2 not in (a, b), sends_by=None
    )
    with pytest.raises(PlanError) as caught:
        choose(NODES[:3], machines, found)
    assert caught.value.message.split("\n")[1] == "2 of 3 nodes reach each other (proven), but not node2:"
    assert about(caught.value).startswith("node2 (e 10.60.2.1): nobody reaches it")


def test_a_lone_node_behind_a_router_is_looked_at_by_the_interface_that_the_others_use() -> None:
    machines = [facts(n, card("e0", f"10.8.{i}.1/24"), card("e1", f"10.9.{i}.1/24")) for i, n in enumerate(NAMES[:3])]
    found = evidence(NODES[:3], machines, lambda a, _s, b, target: target.startswith("10.9.") and 2 not in (a, b))
    with pytest.raises(PlanError) as caught:
        choose(NODES[:3], machines, found)
    assert about(caught.value).startswith("node2 (e1 10.9.2.1): nobody reaches it")


def test_cables_from_node_to_node_serve_each_pair_but_give_no_node_one_address_for_all() -> None:
    ends = {"node0": ("10.70.0.0/31", "10.70.0.2/31"), "node1": ("10.70.0.1/31", "10.70.0.4/31")}
    ends["node2"] = ("10.70.0.3/31", "10.70.0.5/31")
    machines = [facts(n, card("c1", one), card("c2", two)) for n, (one, two) in ends.items()]
    wires = [{"10.70.0.0", "10.70.0.1"}, {"10.70.0.2", "10.70.0.3"}, {"10.70.0.4", "10.70.0.5"}]
    found = evidence(
        NODES[:3],
        machines,
        lambda a, source, b, target: any(
            target in wire and wire & {text[:-3] for text in ends[NAMES[a]]} and source in {None, *wire}
            for wire in wires
        ),
    )
    with pytest.raises(PlanError) as caught:
        choose(NODES[:3], machines, found)
    assert caught.value.message.split("\n") == [
        "no network works for all nodes",
        "each pair works by some of its addresses, but no choice of one address a node works for all:",
        "  10.70.0.0/31 works among node0, node1",
        "  10.70.0.2/31 works among node0, node2",
        "  10.70.0.4/31 works among node1, node2",
        "  node0 has c1 10.70.0.0/31, c2 10.70.0.2/31",
        "  node1 has c1 10.70.0.1/31, c2 10.70.0.4/31",
        "  node2 has c1 10.70.0.3/31, c2 10.70.0.5/31",
    ]
    assert caught.value.nodes == ()
    assert caught.value.fix.startswith("join all nodes by one subnet")


class TestManyNodes:
    """64 nodes: what is said stays on a screen."""

    NAMES = tuple(f"n{i:02}" for i in range(64))
    NODES = tuple(node(name) for name in NAMES)
    MACHINES = tuple(
        facts(n, card("docker0", "172.17.0.1/16"), card("m", f"10.9.{i}.1/24"), card("e", f"10.0.0.{i + 1}/24"))
        for i, n in enumerate(NAMES)
    )

    @pytest.mark.parametrize(
        "fails",
        [
            lambda a, b: True,
            lambda a, b: (a * 7 + b) % 5 == 0,
            lambda a, b: a % 8 != b % 8,
            lambda a, b: a % 30 != b % 30,
            lambda a, b: min(a, b) < 20,
            lambda a, b: max(a, b) < 20 and (a + b) % 2 == 0,
        ],
        ids=["all", "many pairs", "eight groups", "thirty groups", "twenty nodes", "pairs of some"],
    )
    def test_the_message_has_some_twenty_lines(self, fails: Callable[[int, int], bool]) -> None:
        found = evidence(
            self.NODES,
            self.MACHINES,
            lambda a, source, b, target: (
                target.startswith("10.0.") and (source or "10.0.").startswith("10.0.") and not fails(a, b)
            ),
        )
        with pytest.raises(PlanError) as caught:
            choose(self.NODES, self.MACHINES, found)
        assert 2 <= len(caught.value.message.split("\n")) <= 25
        assert len(caught.value.nodes) < 32


class TestNobodyReachesAnybody:
    """It is the wrong network, or a firewall on all."""

    def test_the_network_is_named_and_no_node(self) -> None:
        error = refusal(lambda *_: False)
        assert about(error).startswith(
            "no node reaches any other in 10.0.0.0/24 (node0, node1, node2, node3); node0 -> node1 (ens5 10.0.0.1, ens5"
            " 10.0.0.2): no answer within 2.5 s: "
        )
        assert error.nodes == ()
        assert error.fix.startswith("look whether these interfaces are on one wire")

    def test_with_port_22_open_it_is_a_firewall_on_each(self) -> None:
        error = refusal(lambda *_: False, open_ports=(22,))
        assert "port 22 of it answers" in about(error)
        assert "32768-60999) and the master's port" in about(error)
        assert "on each node, by the firewall" in error.fix
        assert "ufw allow from 10.0.0.0/24" in error.fix

    def test_routed_subnets_without_a_route_are_told_as_that(self) -> None:
        machines = [facts(name, card("e", f"10.{i}.0.1/24")) for i, name in enumerate(NAMES[:3], 1)]
        with pytest.raises(PlanError) as caught:
            choose(NODES[:3], machines, evidence(NODES[:3], machines, lambda *_: "no_network"))
        assert (
            "reaches any other over 10.1.0.0/24, 10.2.0.0/24, 10.3.0.0/24 (node0, node1, node2); node0 -> node1 (e"
            in caught.value.message
        )
        assert ": node0 has no route to this network" in caught.value.message
        assert caught.value.fix == "give node0 a route:  sudo ip route add 10.2.0.0/24 via GATEWAY dev e"


def test_networks_that_work_among_some_are_said_when_no_sentence_tells_them() -> None:
    machines = [
        facts(n, card("e", f"10.0.0.{i}/24"), *([card("f", f"10.0.1.{i}/24")] if i < 3 else []))
        for i, n in enumerate(NAMES, 1)
    ]
    found = evidence(NODES, machines, lambda a, _s, b, target: target.startswith("10.0.1") or {a, b} != {0, 2})
    with pytest.raises(PlanError) as caught:
        choose(NODES, machines, found)
    assert "  10.0.1.0/24 works among node0, node1" in caught.value.message
