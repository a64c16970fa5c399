"""What the nodes are asked to prove: little when the facts speak clearly, everything when they were wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any, TypeVar

import pytest

from ncclrun.commands.control import Control, Interrupted
from ncclrun.commands.survey import Survey
from ncclrun.commands.visit import Visit
from ncclrun.model.errors import NodeRefused, PlanError
from ncclrun.model.events import Event
from ncclrun.model.netevents import Linked, Probed
from ncclrun.planning.network import Choice
from ncclrun.transport.fake import Request
from tests.commands.fakenet import FakeNet
from tests.planning.makers import card, cluster

T = TypeVar("T")
BOTH = {
    "a": (card("slow0", "10.0.0.1/24"), card("fast0", "10.1.0.1/24", mtu=9000)),
    "b": (card("slow0", "10.0.0.2/24"), card("fast1", "10.1.0.2/24", mtu=9000)),
}


@pytest.fixture
def control() -> Control:
    return Control()


def surveyed(net: FakeNet, control: Control) -> Iterator[Survey]:
    """A survey of all nodes of the net, its sessions closed at the end."""
    with Visit(cluster(*net.nodes), net.transport, control) as visit:
        for _event in visit.events():
            pass
        yield Survey(visit.participants, control)


def outcome(steps: Generator[Event, None, T]) -> tuple[list[Event], T]:
    """All events of a step, and what it comes to."""
    events = []
    while True:
        try:
            events.append(next(steps))
        except StopIteration as stop:
            return events, stop.value


def addresses(choice: Choice) -> list[str]:
    return [endpoint.address for endpoint in choice.endpoints]


def probed(net: FakeNet, name: str) -> list[list[str]]:
    """The addresses that a node was asked to try, request by request."""
    return [[target["address"] for target in request["targets"]] for request in net.asked(name, "probe")]


def test_a_guess_that_is_proven_is_all_that_is_tried(control: Control) -> None:
    net = FakeNet(BOTH)
    for survey in surveyed(net, control):
        events, choice = outcome(survey.choose())
        assert addresses(choice) == ["10.1.0.1", "10.1.0.2"]
    assert probed(net, "a") == [["10.1.0.2"]]
    (told,) = [event for event in events if isinstance(event, Probed)]
    assert (told.pairs, told.connections, told.reached, told.scheme) == (2, 4, 4, "all pairs")


def test_when_the_guess_fails_everything_is_tried(control: Control) -> None:
    net = FakeNet(BOTH, lambda _n, _s, _p, address: "timeout" if address.startswith("10.1.") else "reached")
    for survey in surveyed(net, control):
        _, choice = outcome(survey.choose())
        assert addresses(choice) == ["10.0.0.1", "10.0.0.2"]
    assert probed(net, "b") == [["10.1.0.1"], ["10.0.0.1", "10.1.0.1"]]


def test_everything_is_tried_at_once_where_all_is_to_be_judged(control: Control) -> None:
    net = FakeNet(BOTH)
    for survey in surveyed(net, control):
        _, choice = outcome(survey.choose(everything=True))
        assert [row.verdict for row in choice.table[0] if row.candidate.interface == "slow0"] == ["usable"]
    assert probed(net, "a") == [["10.0.0.2", "10.1.0.2"]]


def test_a_network_that_nobody_proves_is_refused_with_the_node_to_blame(control: Control) -> None:
    three = {name: (card("e0", f"10.0.0.{at}/24"),) for at, name in enumerate("abc", 1)}
    net = FakeNet(three, lambda n, _s, p, _a: "timeout" if "c" in (n, p) else "reached")
    for survey in surveyed(net, control):
        with pytest.raises(PlanError, match=r"c \(e0 10\.0\.0\.3\)") as caught:
            outcome(survey.choose())
        assert caught.value.nodes == ("c",)


def test_what_gave_no_answer_is_asked_once_more_before_it_is_held_against_a_node(control: Control) -> None:
    tried: Counter[tuple[str, str | None, str]] = Counter()

    def slow(name: str, source: str | None, peer: str, address: str) -> str:
        tried[name, source, address] += 1
        return "reached" if name == "a" or tried[name, source, address] > 1 else "timeout"

    one = {name: (card("e0", f"10.0.0.{at}/24"),) for at, name in enumerate("ab", 1)}
    net = FakeNet(one, slow)
    for survey in surveyed(net, control):
        events, choice = outcome(survey.choose(everything=True))
        assert addresses(choice) == ["10.0.0.1", "10.0.0.2"]
        assert survey.evidence is not None
        assert all(link.ok for link in survey.evidence.links)
    assert [(e.connections, e.reached) for e in events if isinstance(e, Probed)] == [(4, 2), (2, 2)]
    assert [request["limit"] for request in net.asked("b", "probe")] == [2.5, 4.0]


def test_a_refusal_is_no_silence_and_is_not_asked_again(control: Control) -> None:
    one = {name: (card("e0", f"10.0.0.{at}/24"),) for at, name in enumerate("ab", 1)}
    net = FakeNet(one, lambda *_: "refused")
    for survey in surveyed(net, control):
        with pytest.raises(PlanError):
            outcome(survey.choose(everything=True))
    assert len(net.asked("a", "probe")) == 1


def test_what_the_facts_refuse_is_told_before_anything_is_tried(control: Control) -> None:
    net = FakeNet({"a": (card("e0", "10.0.0.1/24"),), "b": (card("e0", "10.0.0.2/24", running=False),)})
    for everything in (False, True):
        for survey in surveyed(net, control):
            with pytest.raises(PlanError) as caught:
                outcome(survey.choose(everything=everything))
            assert caught.value.nodes == ("b",)
    assert net.asked("a", "listen") == []


def test_one_machine_has_nothing_to_prove(control: Control) -> None:
    net = FakeNet({"a": (card("e0", "10.0.0.1/24"),)})
    for survey in surveyed(net, control):
        _, choice = outcome(survey.choose())
        assert addresses(choice) == ["127.0.0.1"]
    assert net.asked("a", "listen") == []


def test_the_token_is_the_same_for_all_and_new_each_time(control: Control) -> None:
    net = FakeNet(BOTH)
    for survey in surveyed(net, control):
        outcome(survey.choose())
    for survey in surveyed(net, control):
        outcome(survey.choose())
    tokens = [request["token"] for name in "ab" for what in ("listen", "probe") for request in net.asked(name, what)]
    assert len(set(tokens)) == 2
    assert len(tokens) == 8


def test_a_node_that_refuses_is_noted_and_the_others_are_still_asked(control: Control) -> None:
    net = FakeNet(BOTH)

    def refuse(request: Request, body: bytes) -> dict[str, Any]:
        raise NodeRefused("internal", "no socket left")

    net.fakes["b"].replies["probe"] = refuse
    for survey in surveyed(net, control):
        outcome(survey.choose())
        assert {at: error.message for at, error in survey.failed.items()} == {1: "no socket left"}
    assert len(net.asked("a", "probe")) == 1


def test_what_makes_no_sense_counts_as_a_node_that_fails(control: Control) -> None:
    net = FakeNet(BOTH)
    net.fakes["a"].replies["probe"] = {"links": [{"peer": "nobody"}]}
    for survey in surveyed(net, control):
        outcome(survey.choose())
        assert "makes no sense" in survey.failed[0].message


def test_ctrl_c_ends_it(control: Control) -> None:
    for survey in surveyed(FakeNet(BOTH), control):
        control.press()
        with pytest.raises(Interrupted):
            outcome(survey.choose())


def test_a_part_keeps_the_numbers_that_the_nodes_know(control: Control) -> None:
    three = {name: (card("e0", f"10.0.0.{at}/24"),) for at, name in enumerate("abc", 1)}
    net = FakeNet(three, lambda n, _s, p, _a: "timeout" if "a" in (n, p) else "reached")
    for survey in surveyed(net, control):
        with pytest.raises(PlanError):
            outcome(survey.choose(everything=True))
        part = survey.part([1, 2])
        assert part.ranks == [1, 2]
        assert part.evidence is not None
        assert {(link.node_rank, link.peer) for link in part.evidence.links} == {(0, 1), (1, 0)}


def test_links_are_told_with_the_clusters_ranks(control: Control) -> None:
    net = FakeNet(BOTH)
    for survey in surveyed(net, control):
        events, _ = outcome(survey.choose())
    links = [link for event in events if isinstance(event, Linked) for link in event.links]
    assert {(link.node_rank, link.peer, link.by) for link in links} == {(0, 1, 1), (1, 0, 0)}
