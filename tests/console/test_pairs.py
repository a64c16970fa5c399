"""A pair's state is that of the chosen addresses, and its words say what is wrong."""

from __future__ import annotations

from typing import ClassVar

import pytest

from ncclrun.console.pairs import Pair, Seen, worst_first
from ncclrun.model.events import Event, Refused
from ncclrun.model.netevents import Linked, Problem
from ncclrun.model.network import Link, Reach
from tests.console.networks import DOCKER, address, judged, link, linked, path, resolved, transfer
from tests.console.samples import pinged


def pair(*links: Link, more: tuple[Event, ...] = (), nodes: int = 3, choice: bool = True) -> Pair:
    """Of node 0 with node 1 after these attempts."""
    chosen = [*judged(nodes), *resolved(nodes)] if choice else []
    return Seen([*linked(nodes, {(0, 1): links}), *chosen, *more]).pairs()[0, 1]


def test_an_attempt_made_again_counts_as_it_went_then() -> None:
    odd = {(0, 1): (link(0, 1, "timeout"),)}
    again = Linked(node="gpu0", node_rank=0, links=(link(0, 1),))
    assert Seen(linked(2, odd)).pairs()[0, 1].state == "timeout"
    assert Seen([*linked(2, odd), again]).pairs()[0, 1].state == "ok"


def test_what_answered_beside_it_the_first_time_is_still_told() -> None:
    odd = {(0, 1): (link(0, 1, "timeout", open_ports=(22,)),)}
    again = Linked(node="gpu0", node_rank=0, links=(link(0, 1, "timeout"),))
    assert Seen([*linked(2, odd), again]).pairs()[0, 1].words == "no answer, though port 22 answers"


def test_the_addresses_are_those_that_failed_alike_or_the_chosen_one() -> None:
    tries = link(0, 1, "timeout"), link(0, 1, "timeout", address="192.168.1.1"), link(0, 1, "other", address=DOCKER)
    assert pair(*tries, choice=False).addresses == (address(1), "192.168.1.1")
    assert pair(*tries).addresses == (address(1),)


class TestWithAChoice:
    def test_a_proven_pair_is_well_and_has_its_time(self) -> None:
        found = pair(link(0, 1), link(0, 1, source=address(0)))
        assert (found.state, found.words, found.seconds) == ("ok", "connected in 0.31 ms", 0.00031)

    @pytest.mark.parametrize(
        ("outcome", "state", "words"),
        [
            ("timeout", "timeout", "no answer"),
            ("refused", "refused", "connection refused"),
            ("no_route", "no_route", "no route to host"),
            ("no_network", "no_route", "no route to this network"),
            ("forbidden", "forbidden", "forbidden by the firewall of the one who asks"),
            ("stranger", "wrong", "somebody who is no node answers"),
            ("reset", "error", "connection reset"),
        ],
    )
    def test_a_failed_one_says_how(self, outcome: Reach, state: str, words: str) -> None:
        found = pair(link(0, 1, outcome))
        assert (found.state, found.words, found.seconds) == (state, words, None)

    def test_a_wrong_machine_is_named(self) -> None:
        assert pair(link(0, 1, "other", by=2)).words == "reached gpu2 instead"
        assert pair(link(0, 1, "other", by=0)).words == "reached itself"

    def test_an_open_port_beside_the_dead_one_is_told(self) -> None:
        assert pair(link(0, 1, "timeout", open_ports=(22,))).words == "no answer, though port 22 answers"

    def test_another_address_does_not_make_it_well_but_is_told(self) -> None:
        found = pair(link(0, 1, "timeout"), link(0, 1, address="192.168.1.1"))
        assert (found.state, found.words) == ("timeout", "no answer (reached at 192.168.1.1)")

    def test_an_address_that_every_host_has_changes_nothing(self) -> None:
        assert pair(link(0, 1), link(0, 1, "other", by=0, address=DOCKER)).state == "ok"

    def test_only_from_another_source_is_a_detour(self) -> None:
        found = pair(link(0, 1, "timeout"), link(0, 1, source=address(0)))
        assert (found.state, found.words) == ("detour", f"no answer, but reached from {address(0)}")

    def test_a_connection_that_leaves_by_another_interface_is_a_detour(self) -> None:
        found = pair(link(0, 1, local="192.168.1.0"))
        assert (found.state, found.words) == ("detour", "leaves by eth0 (192.168.1.0), not by eth1")

    def test_an_address_of_its_own_that_no_interface_is_known_of_is_none(self) -> None:
        assert pair(link(0, 1, local="fd00::1234")).state == "ok"


class TestWithoutAChoice:
    def test_the_best_attempt_counts(self) -> None:
        found = pair(link(0, 1, "timeout"), link(0, 1, address="192.168.1.1"), choice=False)
        assert (found.state, found.link) == ("ok", link(0, 1, address="192.168.1.1"))

    def test_a_wrong_machine_is_farther_off_than_silence(self) -> None:
        assert pair(link(0, 1, "other", by=0, address=DOCKER), link(0, 1, "timeout"), choice=False).state == "timeout"


class TestANodeWithoutAChoice:
    """The others have one: node 0 is kept out."""

    CHOSEN = (*judged(3)[4:], *resolved(3)[1:])
    BOUND = link(0, 1, "timeout", source="192.168.1.0")

    def test_is_judged_by_what_the_kernel_routes_not_by_its_other_cards(self) -> None:
        found = pair(link(0, 1), self.BOUND, choice=False, more=self.CHOSEN)
        assert (found.state, found.words) == ("ok", "connected in 0.31 ms")

    def test_that_reaches_a_peer_from_one_card_alone_makes_a_detour(self) -> None:
        links = link(0, 1, "timeout"), link(0, 1, source=address(0)), self.BOUND
        found = pair(*links, choice=False, more=self.CHOSEN)
        assert (found.state, found.words) == ("detour", f"no answer, but reached from {address(0)}")


class TestALostNode:
    ODD: ClassVar = {(0, 1): (link(0, 1, "timeout"),), (1, 0): (link(1, 0, "timeout"),)}
    PATHS = (path(0, 1, 0, blocked=(40001,)), path(0, 2), path(2, 0))
    GONE = Problem(code="lost", message="nothing was heard from it", fix="")
    KNOWN = (*linked(3, ODD), *judged(3), *resolved(3), *PATHS)

    @pytest.mark.parametrize(
        "told",
        [
            Refused(node="gpu1", node_rank=1, code=GONE.code, message=GONE.message, fix=""),
            pinged(1, node="gpu1", fit=False, problems=(GONE,)),
        ],
    )
    def test_has_nothing_else_told_of_it(self, told: Event) -> None:
        seen = Seen([*self.KNOWN, told])
        found = seen.pairs()
        assert {found[at].state for at in ((0, 1), (1, 0), (1, 2), (2, 1))} == {"untried"}
        assert (found[0, 1].words, found[0, 2].state) == ("lost meanwhile: gpu1", "ok")
        assert list(seen.paths) == [(0, 2), (2, 0)]

    def test_that_is_not_known_to_be_lost_answers_no_more(self) -> None:
        found = pair(link(0, 1), more=self.PATHS)
        assert (found.state, found.words) == ("timeout", "no answer any more, though it connected a moment before")


class TestWhatFitsThrough:
    def test_large_packets_that_vanish_are_trouble(self) -> None:
        found = pair(link(0, 1), more=(path(0, 1, 1500),))
        assert (found.state, found.words) == ("mtu", "packets over 1500 bytes vanish (9000 were sent)")

    def test_a_router_that_says_so_is_none_and_neither_is_blocked_udp(self) -> None:
        assert pair(link(0, 1), more=(path(0, 1, 1500, told=True),)).state == "ok"
        assert pair(link(0, 1), more=(path(0, 1, 0),)).state == "ok"

    def test_blocked_ports_are(self) -> None:
        found = pair(link(0, 1), more=(path(0, 1, blocked=(40001, 40002)),))
        assert (found.state, found.words) == ("ports", "TCP ports 40001, 40002 do not answer")

    def test_what_could_not_be_measured_failed(self) -> None:
        found = pair(link(0, 1), more=(transfer(0, 1, None, "reset"),))
        assert (found.state, found.words, found.gbits) == ("error", "no throughput: reset", None)

    def test_a_second_measurement_replaces_the_first(self) -> None:
        assert pair(link(0, 1), more=(transfer(0, 1, 1.0), transfer(0, 1, 9.0))).gbits == 9.0


def test_a_pair_that_nobody_tried_says_so() -> None:
    found = Seen(linked(3, {(0, 1): ()})).pairs()
    assert found[0, 1].state == "untried"
    assert found[0, 0].state == "self"
    assert len(found) == 9


def test_the_worst_come_first_and_then_the_slow() -> None:
    odd = {(0, 1): (link(0, 1, "timeout"),), (1, 0): (link(1, 0, seconds=0.5),)}
    found = Seen([*linked(3, odd), path(2, 0, 1500), path(2, 1, 9000)]).pairs()
    ordered = worst_first([one for one in found.values() if one.state != "self"])
    assert [(one.node_rank, one.peer) for one in ordered[:3]] == [(0, 1), (2, 0), (1, 0)]
