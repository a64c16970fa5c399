"""The choice by evidence: what is proven for all is taken, whatever the facts speak for."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclrun.model.cluster import Node
from ncclrun.model.errors import PlanError
from ncclrun.model.facts import NodeFacts
from ncclrun.model.network import Evidence, LinkIndex
from ncclrun.node.doors import MOST_ADDRESSES
from ncclrun.planning.choice.candidates import all_candidates, one_machine
from ncclrun.planning.choice.wishes import wish
from ncclrun.planning.network import MOST_PROBED, Choice, choose, probe_addresses
from ncclrun.planning.partners import partners
from tests.planning.evidence import Reaches, everything, evidence
from tests.planning.makers import card, facts, node

ABC = [node(name) for name in "abc"]
TWO = tuple(
    facts(name, card("e", f"10.0.0.{i}/24", speed=1000), card("f", f"10.0.1.{i}/24", speed=25000))
    for i, name in enumerate("abc", 1)
)


def in_net(prefix: str) -> Reaches:
    """Only what begins so is reached."""
    return lambda _a, _source, _b, target: target.startswith(prefix)


def by_proof(nodes: Sequence[Node], machines: Sequence[NodeFacts], reaches: Reaches, **more: Any) -> Choice:
    return choose(nodes, machines, evidence(nodes, machines, reaches, **more))


def taken(choice: Choice) -> list[str]:
    return [endpoint.address for endpoint in choice.endpoints]


class TestSharedSubnets:
    """Of the subnets that all share, one that works for all pairs is taken."""

    def test_the_best_that_works(self) -> None:
        choice = by_proof(ABC, TWO, everything)
        assert taken(choice) == ["10.0.1.1", "10.0.1.2", "10.0.1.3"]
        assert choice.why.endswith("10.0.0.0/24 is second (lower speed: 1 Gbit/s against 25 Gbit/s)")

    def test_the_poorer_if_the_better_fails_for_a_single_pair(self) -> None:
        choice = by_proof(ABC, TWO, lambda a, _s, b, target: not ((a, b) == (2, 0) and target.startswith("10.0.1")))
        assert taken(choice) == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]

    def test_a_bound_attempt_alone_proves_nothing_as_nccl_does_not_bind(self) -> None:
        def reaches(_a: int, source: str | None, _b: int, target: str) -> bool:
            return source is not None or target.startswith("10.0.0")

        assert taken(by_proof(ABC, TWO, reaches))[0] == "10.0.0.1"

    def test_nor_does_a_routed_one_that_leaves_by_another_address(self) -> None:
        def reaches(_a: int, source: str | None, _b: int, target: str) -> bool:
            return target.startswith("10.0.0") or source is None

        choice = by_proof(ABC, TWO, reaches, sends_by=lambda at, _target: f"10.0.0.{at + 1}")
        assert taken(choice)[0] == "10.0.0.1"

    def test_an_attempt_that_was_due_and_not_made_is_not_proven(self) -> None:
        found = evidence(ABC, TWO, everything)
        links = tuple(link for link in found.links if not (link.node_rank == 1 and link.address == "10.0.1.3"))
        assert taken(choose(ABC, TWO, replace(found, links=links)))[0] == "10.0.0.1"

    def test_pairs_that_were_not_to_be_tried_do_not_count(self) -> None:
        ring = (frozenset({1}), frozenset({0, 2}), frozenset({1}))
        choice = by_proof(ABC, TWO, everything, partners=ring)
        assert taken(choice)[0] == "10.0.1.1"
        (note,) = choice.notes
        assert note.text.startswith("of 6 directed pairs of nodes 4 were tried")

    def test_ipv6_where_ipv4_does_not_work(self) -> None:
        machines = [facts(n, card("e", f"10.0.0.{i}/24", f"fd00::{i}/64")) for i, n in enumerate("abc", 1)]
        assert taken(by_proof(ABC, machines, everything))[0] == "10.0.0.1"
        assert taken(by_proof(ABC, machines, in_net("fd00"))) == ["fd00::1", "fd00::2", "fd00::3"]

    def test_of_several_cards_in_it_the_one_by_which_the_kernel_sends(self) -> None:
        machines = [
            facts("a", card("e", "10.0.0.1/24")),
            facts("b", card("e", "10.0.0.2/24"), card("f", "10.0.0.3/24")),
        ]
        choice = by_proof(ABC[:2], machines, everything, sends_by=lambda at, _t: ["10.0.0.1", "10.0.0.3"][at])
        assert taken(choice) == ["10.0.0.1", "10.0.0.3"]
        assert "NCCL listens on f, and sends by it" in choice.notes[0].text

    def test_or_another_of_them_if_that_is_not_reached(self) -> None:
        machines = [
            facts("a", card("e", "10.0.0.1/24")),
            facts("b", card("e", "10.0.0.2/24"), card("f", "10.0.0.3/24")),
        ]
        choice = by_proof(
            ABC[:2],
            machines,
            lambda _a, _s, _b, target: target != "10.0.0.3",
            sends_by=lambda at, _t: ["10.0.0.1", "10.0.0.3"][at],
        )
        assert taken(choice) == ["10.0.0.1", "10.0.0.2"]
        assert "NCCL listens on e, but the kernel sends by f" in choice.notes[0].text

    def test_evidence_of_a_guess_alone_is_enough_for_it(self) -> None:
        guess = choose(ABC, TWO, None)
        few = probe_addresses(ABC, TWO, guess.endpoints)
        assert few == (("10.0.1.1",), ("10.0.1.2",), ("10.0.1.3",))
        choice = by_proof(ABC, TWO, everything, addresses=few)
        assert choice.endpoints == guess.endpoints
        assert [v.reason for v in choice.table[0] if v.candidate.interface == "e"] == ["not tried"]


class TestRouted:
    """Each node in its own subnet: any one address a node that all pairs prove."""

    MACHINES = tuple(
        facts(name, card("e", f"10.{i}.0.1/24"), card("f", f"10.{i}.1.1/24")) for i, name in enumerate("abc", 1)
    )

    def test_the_group_whose_members_reach_each_other(self) -> None:
        def reaches(_a: int, source: str | None, _b: int, target: str) -> bool:
            return target.endswith(".1.1") and (source is None or source.endswith(".1.1"))

        choice = by_proof(ABC, self.MACHINES, reaches, sends_by=lambda at, _t: f"10.{at + 1}.1.1")
        assert taken(choice) == ["10.1.1.1", "10.2.1.1", "10.3.1.1"]
        assert choice.endpoints[0].why == "no subnet works for all nodes: proven over their routes"

    def test_of_two_groups_the_one_whose_slowest_member_is_faster(self) -> None:
        speeds = [(1000, 40000), (100000, 40000), (100000, 25000)]
        machines = [
            facts(n, card("e", f"10.{i}.0.1/24", speed=slow), card("f", f"10.{i}.1.1/24", speed=fast))
            for (i, n), (slow, fast) in zip(enumerate("abc", 1), speeds, strict=True)
        ]

        def reaches(_a: int, source: str | None, _b: int, target: str) -> bool:
            return source is None or source[5] == target[5]

        assert taken(by_proof(ABC, machines, reaches)) == ["10.1.1.1", "10.2.1.1", "10.3.1.1"]

    def test_a_subnet_that_all_share_comes_first_and_the_faster_way_is_named(self) -> None:
        machines = [
            facts(n, card("e", f"10.0.0.{i}/24", speed=1000), card("f", f"10.{i}.1.1/24", speed=100000))
            for i, n in enumerate("abc", 1)
        ]
        choice = by_proof(ABC, machines, everything)
        assert taken(choice)[0] == "10.0.0.1"
        (note,) = choice.notes
        assert note.text == (
            "f 10.1.1.1, f 10.2.1.1, … works for all nodes, too, and is the better network, but is not one subnet that"
            " all share; took 10.0.0.0/24 (lower speed: 1 Gbit/s against 100 Gbit/s)"
        )
        assert note.fix == "to take the other, write  network: {interface: f}"
        assert [
            e.interface for e in by_proof([node(n, interface="f") for n in "abc"], machines, everything).endpoints
        ] == ["f"] * 3

    def test_one_node_behind_a_router_and_the_others_in_one_subnet(self) -> None:
        machines = [
            facts("a", card("e", "10.0.0.1/24"), card("m", "10.9.1.1/24")),
            facts("b", card("e", "10.0.0.2/24"), card("m", "10.9.2.1/24")),
            facts("c", card("x", "10.0.5.3/24")),
        ]
        choice = by_proof(ABC, machines, lambda _a, _s, _b, target: target.startswith("10.0."))
        assert taken(choice) == ["10.0.0.1", "10.0.0.2", "10.0.5.3"]


class TestVerdicts:
    """Each candidate's reason holds the evidence."""

    def test_who_reaches_it_and_in_what_time(self) -> None:
        choice = by_proof(ABC, TWO, everything)
        reasons = {v.candidate.address: (v.verdict, v.reason) for v in choice.table[0]}
        assert reasons["10.0.1.1"] == ("chosen", "b, c reach it (0.4 ms)")
        assert reasons["10.0.0.1"] == ("usable", "lower speed: 1 Gbit/s against 25 Gbit/s; b, c reach it (0.4 ms)")
        assert reasons["127.0.0.1"] == ("rejected", "loopback: ends in this host")

    def test_who_does_not_and_why(self) -> None:
        choice = by_proof(
            ABC, TWO, lambda _a, _s, b, target: "refused" if b == 2 and target.startswith("10.0.1") else "reached"
        )
        verdict = next(v for v in choice.table[2] if v.candidate.interface == "f")
        assert (verdict.verdict, verdict.reason) == ("rejected", "does not work with a, b: connection refused")

    @pytest.mark.parametrize(
        ("outcome", "by", "words"),
        [
            ("other", 1, "leads to b"),
            ("other", 0, "leads to the node that asks"),
            ("stranger", None, "somebody who is no node answers"),
            ("timeout", None, "no answer within 2.5 s"),
            ("no_route", None, "no route to host"),
            ("no_network", None, "no route to this network"),
            ("forbidden", None, "forbidden by the firewall of the one who asks"),
            ("reset", None, "connection reset"),
        ],
    )
    def test_in_words_for_each_end_of_an_attempt(self, outcome: Any, by: int | None, words: str) -> None:
        def reaches(a: int, _s: str | None, b: int, target: str) -> Any:
            return outcome if (a, b) == (0, 2) and target.startswith("10.0.1") else "reached"

        choice = by_proof(ABC, TWO, reaches, by=by)
        reason = next(v.reason for v in choice.table[2] if v.candidate.interface == "f")
        assert reason == f"does not work with a: {words}; b reaches it (0.4 ms)"

    def test_reasons_that_differ_are_told_with_who_met_with_each(self) -> None:
        def reaches(a: int, _s: str | None, b: int, target: str) -> Any:
            return ("refused", "timeout")[a] if b == 2 and target.startswith("10.0.1") else "reached"

        reason = next(v.reason for v in by_proof(ABC, TWO, reaches).table[2] if v.candidate.interface == "f")
        assert reason == "does not work with a, b: connection refused (a), no answer within 2.5 s (b)"

    def test_attempts_from_the_wrong_network_say_nothing_against_it(self) -> None:
        def reaches(_a: int, source: str | None, _b: int, target: str) -> bool:
            return source is None or source[:6] == target[:6]

        choice = by_proof(ABC, TWO, reaches)
        assert {v.reason for row in choice.table for v in row if v.verdict == "chosen"} == {
            "b, c reach it (0.4 ms)",
            "a, c reach it (0.4 ms)",
            "a, b reach it (0.4 ms)",
        }


class TestWishes:
    """What the user names is taken or refused, never replaced."""

    def test_a_wish_for_the_poorer_is_done(self) -> None:
        nodes = [node(n, interface="e") for n in "abc"]
        choice = by_proof(nodes, TWO, everything)
        assert taken(choice)[0] == "10.0.0.1"
        assert choice.why == "the cluster file names the interface"

    def test_one_that_is_not_proven_is_an_error_that_names_what_would_work(self) -> None:
        nodes = [node(n, interface="f") for n in "abc"]
        with pytest.raises(PlanError) as caught:
            by_proof(nodes, TWO, in_net("10.0.0"))
        assert caught.value.message.startswith("the cluster file's wish (interface: f) does not work for all nodes\n")
        assert caught.value.fix == (
            'take out "network.interface: f": without it 10.0.0.0/24 is proven for all nodes\n'
            "or name it:  network: {interface: e}"
        )

    def test_that_of_one_node_alone_is_named_with_its_line_and_what_it_keeps_the_node_from(self) -> None:
        nodes = [node("a"), node("b"), node("c", address="10.0.1.3")]
        with pytest.raises(PlanError) as caught:
            by_proof(nodes, TWO, in_net("10.0.0"))
        assert caught.value.message.split("\n")[1:] == [
            "10.0.0.0/24 joins 2 of 3 nodes (proven), but not c:",
            'c (e 10.0.0.3): "address: 10.0.1.3" in the cluster file keeps it out of 10.0.0.0/24',
        ]
        assert caught.value.fix == 'take out "address: 10.0.1.3" of c: without it 10.0.0.0/24 is proven for all nodes'
        assert caught.value.nodes == ("c",)

    def test_of_several_lines_of_a_node_those_alone_are_named_that_are_in_the_way(self) -> None:
        nodes = [node(n, subnet="10.0.0.0/16", address="10.0.1.3" if n == "c" else None) for n in "abc"]
        with pytest.raises(PlanError) as caught:
            by_proof(nodes, TWO, in_net("10.0.0"))
        assert caught.value.fix.startswith('take out "address: 10.0.1.3" of c: ')

    def test_a_wish_is_not_blamed_where_nothing_works_without_it_either(self) -> None:
        with pytest.raises(PlanError) as caught:
            by_proof([node(n, interface="f") for n in "abc"], TWO, lambda *_: False)
        assert caught.value.message.startswith(
            "the cluster file's wish (interface: f) does not work for all nodes, and nothing else does\n"
        )
        assert "take out" not in caught.value.fix

    def test_a_family_is_a_wish_as_well(self) -> None:
        machines = [facts(n, card("e", f"10.0.0.{i}/24", f"fd00::{i}/64")) for i, n in enumerate("abc", 1)]
        with pytest.raises(PlanError) as caught:
            by_proof([node(n, family="ipv6") for n in "abc"], machines, in_net("10."))
        assert "the cluster file's wish (family: ipv6) does not work" in caught.value.message
        assert "without it 10.0.0.0/24 is proven" in caught.value.fix

    def test_addresses_against_the_wish_are_probed_so_that_this_is_known(self) -> None:
        nodes = [node(n, interface="f") for n in "abc"]
        assert probe_addresses(nodes, TWO)[0] == ("10.0.0.1", "10.0.1.1")

    def test_what_nobody_could_use_is_not_probed(self) -> None:
        machine = facts("a", card("docker0", "172.17.0.1/16"), card("e", "10.0.0.1/24"), card("g", "fe80::1/64"))
        assert probe_addresses([node("a")], [machine]) == (("10.0.0.1",),)

    def test_of_very_many_addresses_those_are_probed_that_may_be_chosen(self) -> None:
        services = card("vip", *(f"10.9.0.{n}/16" for n in range(1, 201)))
        lone = [card(f"v{n}", f"10.8.{n}.1/24") for n in range(70)]
        machines = [facts("a", services, *lone, card("e", "10.0.0.1/24")), facts("b", card("e", "10.0.0.2/24"))]
        (many, few) = probe_addresses([node("a"), node("b")], machines)
        assert len(many) == MOST_PROBED == MOST_ADDRESSES
        assert {"10.9.0.1", "10.0.0.1"} <= set(many)
        assert "10.9.0.2" not in many, "NCCL would announce the first"
        assert few == ("10.0.0.2",)

    def test_a_wish_is_probed_however_many_there_are(self) -> None:
        services = card("vip", *(f"10.9.0.{n}/16" for n in range(1, 201)))
        (many, _) = probe_addresses([node("a", address="10.9.0.200"), node("b")], [facts("a", services), TWO[1]])
        assert "10.9.0.200" in many


# --- what must hold for any evidence


@st.composite
def proven_clusters(draw: st.DrawFn) -> tuple[list[Node], list[NodeFacts], Evidence]:
    """Up to five nodes in a few networks, some with wishes, where chance decides who reaches whom."""
    count = draw(st.integers(2, 5))
    machines = []
    for number in range(count):
        networks = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True))
        speeds = st.sampled_from([None, 1000, 25000])
        cards = [card(f"e{net}", f"10.0.{net}.{number + 1}/24", speed=draw(speeds)) for net in networks]
        if draw(st.booleans()):
            cards.append(card("v6", f"fd00::{number + 1}/64"))
        machines.append(facts(f"m{number}", *cards))
    wishes: Any = st.sampled_from([{}, {}, {}, {"interface": "e0"}, {"subnet": "10.0.1.0/24"}, {"family": "ipv6"}])
    nodes = [node(f"n{number}", **draw(wishes)) for number in range(count)]
    chance, seed = draw(st.sampled_from([0.3, 0.9, 0.99, 1.0])), draw(st.integers(0, 1000))
    dice = random.Random(seed)
    few = tuple(frozenset({(at - 1) % count, (at + 1) % count, 0} - {at}) for at in range(count))
    found = evidence(
        nodes,
        machines,
        lambda *_: dice.random() < chance,
        partners=draw(st.sampled_from([(), few])) if count > 2 else (),
    )
    return nodes, machines, found


@settings(max_examples=150, deadline=None)
@given(proven_clusters())
def test_what_is_chosen_is_not_rejected_and_proven_for_every_pair_that_was_tried(
    case: tuple[list[Node], list[NodeFacts], Evidence],
) -> None:
    nodes, machines, found = case
    try:
        choice = choose(nodes, machines, found)
    except PlanError as error:
        assert error.fix
        assert set(error.nodes) <= {node.name for node in nodes}
        return
    index = LinkIndex(found.links)
    for row, endpoint in zip(all_candidates(nodes, machines), choice.endpoints, strict=True):
        (candidate,) = [c for c in row if (c.interface, c.address) == (endpoint.interface, endpoint.address)]
        assert not candidate.rejected  # so no wish was overridden either
    for a, b in found.pairs():
        routed = index.get(a, None, b, choice.endpoints[b].address)
        bound = index.get(a, choice.endpoints[a].address, b, choice.endpoints[b].address)
        assert routed is not None
        assert routed.ok
        assert routed.local == choice.endpoints[a].address or (bound is not None and bound.ok)
    for verdicts in choice.table:
        assert [verdict.verdict for verdict in verdicts].count("chosen") == 1
        assert all(verdict.reason for verdict in verdicts)


@settings(max_examples=80, deadline=None)
@given(proven_clusters(), st.randoms(use_true_random=False))
def test_another_order_of_the_nodes_chooses_the_same_shared_network(
    case: tuple[list[Node], list[NodeFacts], Evidence], dice: random.Random
) -> None:
    nodes, machines, found = case
    order = list(range(len(nodes)))
    dice.shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    moved = Evidence(
        nodes=found.nodes,
        links=tuple(
            replace(link, node_rank=place[link.node_rank], peer=place[link.peer], by=None) for link in found.links
        ),
        partners=tuple(frozenset(place[peer] for peer in found.partners[old]) for old in order)
        if found.partners
        else (),
    )

    def network(nodes: Sequence[Node], machines: Sequence[NodeFacts], found: Evidence) -> str:
        try:
            return choose(nodes, machines, found).endpoints[0].why.partition("which")[0]
        except PlanError:
            return "none"

    if any(wish(one) for one in nodes):
        return  # then the reason is the wish of each
    assert network(nodes, machines, found) == network([nodes[i] for i in order], [machines[i] for i in order], moved)


def test_hundreds_of_nodes_with_many_addresses_each_in_its_own_subnet_find_the_one_group() -> None:
    count, cards = 120, 8
    names = [f"n{i:03}" for i in range(count)]
    nodes = [node(name) for name in names]
    machines = [facts(n, *[card(f"e{k}", f"10.{k}.{i}.1/32") for k in range(cards)]) for i, n in enumerate(names)]

    def reaches(_a: int, source: str | None, _b: int, target: str) -> bool:
        return target.startswith("10.7.") and (source is None or source.startswith("10.7."))

    found = evidence(nodes, machines, reaches, partners=partners(count), sends_by=lambda at, _target: f"10.7.{at}.1")
    assert {endpoint.interface for endpoint in choose(nodes, machines, found).endpoints} == {"e7"}
    assert not one_machine(machines)
