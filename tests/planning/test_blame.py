"""Who is in the way when nothing is proven for all: the error's words, its nodes, and the line that mends it."""

from __future__ import annotations

from typing import Any

import pytest

from ncclrun.model.errors import PlanError
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
    """The line under the headline."""
    return error.message.split("\n")[1]


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
            "look at the wire on node2:  ip -s link show ens5; ethtool ens5;  or open all ports"
        )
        assert error.fix.endswith("or leave out node2")

    def test_that_only_hears_nothing(self) -> None:
        error = refusal(lambda _a, _s, b, _t: b != 2)
        assert "node2 (ens5 10.0.0.3): nobody reaches it: no answer" in error.message
        assert error.nodes == ("node2",)

    def test_that_is_not_heard(self) -> None:
        error = refusal(lambda a, _s, _b, _t: a != 0)
        assert "node0 (ens5 10.0.0.1): it reaches nobody: no answer" in error.message
        assert error.fix.startswith("see what node0 does with what it sends:  ip route get 10.0.0.2 from 10.0.0.1; nft")

    def test_that_is_the_master_is_looked_at_itself(self) -> None:
        error = refusal(lambda a, _s, b, _t: 0 not in (a, b))
        assert error.nodes == ("node0",)
        assert error.fix.startswith("look at the wire on node0:")

    def test_that_may_not_speak(self) -> None:
        error = refusal(lambda a, _s, _b, _t: "forbidden" if a == 2 else "reached")
        assert about(error) == (
            "node2 (ens5 10.0.0.3): it reaches nobody: forbidden by node2 itself (a firewall there)"
        )
        assert error.fix.startswith("on node2 itself a rule forbids it:  nft list ruleset")

    def test_whose_firewall_lets_ssh_through(self) -> None:
        error = refusal(lambda _a, _s, b, _t: b != 3, open_ports=(22,))
        assert "port 22 of it answers, port 40000 does not: a firewall lets only some ports through" in error.message
        assert "on node3:  ufw allow from 10.0.0.0/24 " in error.fix
        assert "--add-source=10.0.0.0/24" in error.fix
        assert "nft insert rule inet filter input ip saddr 10.0.0.0/24 accept" in error.fix

    def test_whose_firewall_rejects_as_if_there_were_no_route(self) -> None:
        error = refusal(lambda _a, _s, b, _t: "no_route" if b == 3 else "reached")
        assert "no route to host: in one subnet that is a firewall's REJECT" in error.message
        assert error.fix.startswith("open all ports between the nodes; on node3:")

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
    """Only some pairs fail: they are named, nobody is left out."""

    def test_one_way_is_something_on_the_way(self) -> None:
        error = refusal(lambda a, _s, b, _t: (a, b) != (0, 2))
        assert about(error).startswith(
            "node0 -> node2: no answer within 2.5 s; the other way works: a firewall drops it"
        )
        assert error.nodes == ()
        assert "on node2:  ufw allow from 10.0.0.0/24" in error.fix

    def test_both_ways_alike_is_one_line(self) -> None:
        error = refusal(lambda a, _s, b, _t: {a, b} != {0, 2})
        assert about(error).startswith("node0 <-> node2: no answer within 2.5 s: a firewall drops it")

    def test_both_ways_differently_is_one_line_too(self) -> None:
        error = refusal(
            lambda a, _s, b, _t: {(0, 2): "refused", (2, 0): "no_network"}.get((a, b), "reached")  # type: ignore[arg-type,return-value]  # words of Reach
        )
        assert about(error) == ("node0 -> node2: connection refused; the other way: node2 has no route to this network")

    def test_two_nodes_blame_nobody(self) -> None:
        error = refusal(lambda *_: False, nnodes=2)
        assert about(error).startswith("node0 <-> node1: no answer")
        assert error.nodes == ()

    def test_a_source_that_does_not_work_is_named(self) -> None:
        error = refusal(
            lambda a, source, b, _t: (a, b) != (0, 2) or source is None, sends_by=lambda at, _t: "192.0.2.1"
        )
        assert "node0 -> node2: from 10.0.0.1: no answer" in about(error)

    def test_many_are_folded(self) -> None:
        names = [f"n{i:02}" for i in range(12)]
        nodes = [node(name) for name in names]
        machines = [facts(n, card("e", f"10.0.0.{i + 1}/24")) for i, n in enumerate(names)]
        half = evidence(nodes, machines, lambda a, _s, b, _t: (a < 6) == (b < 6))
        with pytest.raises(PlanError) as caught:
            choose(nodes, machines, half)
        lines = caught.value.message.split("\n")
        assert lines[9] == "and 28 more pairs"
        assert caught.value.message.endswith("  … and 4 more nodes")


class TestNobodyReachesAnybody:
    """It is the wrong network, or a firewall on all."""

    def test_the_network_is_named_and_no_node(self) -> None:
        error = refusal(lambda *_: False)
        assert about(error).startswith(
            "no node reaches any other in 10.0.0.0/24: no answer within 2.5 s (node0 -> node1)"
        )
        assert error.nodes == ()
        assert error.fix.startswith("look whether these interfaces are on one wire")

    def test_with_port_22_open_it_is_a_firewall_on_each(self) -> None:
        error = refusal(lambda *_: False, open_ports=(22,))
        assert "port 22 of it answers" in about(error)
        assert "on each node:  ufw allow from 10.0.0.0/24" in error.fix

    def test_routed_subnets_without_a_route_are_told_as_that(self) -> None:
        machines = [facts(name, card("e", f"10.{i}.0.1/24")) for i, name in enumerate(NAMES[:3], 1)]
        with pytest.raises(PlanError) as caught:
            choose(NODES[:3], machines, evidence(NODES[:3], machines, lambda *_: "no_network"))
        assert "over 10.1.0.0/24, 10.2.0.0/24, 10.3.0.0/24: node0 has no route to this network" in caught.value.message
        assert caught.value.fix == "give node0 a route:  ip route add 10.2.0.0/24 via GATEWAY dev e"


def test_a_network_that_works_among_some_is_said() -> None:
    machines = [
        facts("node0", card("e", "10.0.0.1/24"), card("f", "10.0.1.1/24")),
        facts("node1", card("e", "10.0.0.2/24"), card("f", "10.0.1.2/24")),
        facts("node2", card("e", "10.0.0.3/24")),
    ]
    found = evidence(NODES[:3], machines, lambda _a, _s, _b, target: target.startswith("10.0.1"))
    with pytest.raises(PlanError) as caught:
        choose(NODES[:3], machines, found)
    assert "  10.0.1.0/24 works among node0, node1" in caught.value.message


def test_the_table_of_all_addresses_comes_with_its_evidence_and_without_loopback() -> None:
    error = refusal(lambda a, _s, b, _t: 2 not in (a, b))
    first = error.message.split("all addresses:\n")[1].split("\n")[0]
    assert first.startswith("  node2  ens5  10.0.0.3/24  does not work with node0, node1, node3; no answer to node0, ")
    assert "127.0.0.1" not in error.message
