"""Throughput is measured in rounds, both ways, and what is doubtful again; with nodes that answer by script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ncclrun.commands.bandwidth import Measurement, failures, measure, measure_again
from ncclrun.commands.control import Control, Interrupted
from ncclrun.commands.findings import Finding
from ncclrun.commands.survey import Listeners, Participant, Survey
from ncclrun.model.errors import NodeRefused
from ncclrun.model.events import Event, Warn
from ncclrun.model.netevents import Measuring, Transferred
from ncclrun.model.plan import Endpoint
from ncclrun.transport.fake import FakeNode, FakeTransport, Request
from ncclrun.transport.fleet import connect_all
from ncclrun.transport.session import Session
from tests.planning.makers import facts, node

Speed = Callable[[int, int], float]
RANKS = (0, 2, 3, 5, 7)
"""node_ranks of those that take part: some are not there."""


class Lab:
    """Nodes of which each answers `throughput` with the Gbit/s that ``speed`` says; 0: it refuses."""

    def __init__(self, count: int, speed: Speed, *, machines: int | None = None) -> None:
        self.control = Control()
        self.requests: list[Request] = []
        self._speed = speed
        self._lock = threading.Lock()
        self.fakes = [FakeNode({"throughput": self._answer}) for _ in range(count)]
        self.nodes = [node(f"n{place}") for place in range(count)]
        self.machines = machines or count

    @contextmanager
    def open(self) -> Iterator[Measurement]:
        """A measurement between them."""
        transport = FakeTransport({n.name: fake for n, fake in zip(self.nodes, self.fakes, strict=True)})
        sessions: dict[str, Session] = {}
        for n, session, _ in connect_all(transport, self.nodes, lambda *_: None):
            assert isinstance(session, Session)
            sessions[n.name] = session
        ones = [
            Participant(n, RANKS[place], sessions[n.name], facts(f"m{place % self.machines}"))
            for place, n in enumerate(self.nodes)
        ]
        survey = Survey(ones, self.control)
        survey.listeners = [Listeners(ports={f"10.0.0.{place}": 5000 + place}) for place in range(len(ones))]
        endpoints = [Endpoint("eth1", f"10.0.0.{place}", "") for place in range(len(ones))]
        yield Measurement(survey, endpoints, self.control, seconds=2, streams=4)
        for session in sessions.values():
            session.close()

    def _answer(self, request: Request, _: bytes) -> dict[str, Any]:
        ends = {request["node_rank"], request["peer"]}
        with self._lock:
            self.requests.append(request)
        rate = self._speed(RANKS.index(request["node_rank"]), RANKS.index(request["peer"]))
        if not rate:
            raise NodeRefused("refused", f"nothing listens on {sorted(ends)}")
        return {"size": int(rate * 1e9 / 8 * 2), "seconds": 2.0, "streams": 4}


def test_of_one_node_there_is_nothing_to_measure() -> None:
    with Lab(1, lambda _a, _b: 10.0).open() as measurement:
        (warning,) = measure(measurement)
        assert warning == Warn(text="bandwidth is not measured: there is only one node")
        assert list(measure_again(measurement)) == []


def deep(measurement: Measurement) -> tuple[list[Event], tuple[Finding, ...]]:
    """The events of the second measurement, and its findings."""
    events: list[Event] = []
    found: list[tuple[Finding, ...]] = []

    def run() -> Iterator[Event]:
        found.append((yield from measure_again(measurement)))

    events += run()
    return events, found[0]


def transfers(events: list[Event]) -> list[tuple[str, str, int, float | None]]:
    return [(e.node, e.peer, e.round, e.gbits) for e in events if isinstance(e, Transferred)]


def test_every_pair_is_measured_both_ways_and_a_node_is_in_one_pair_a_round() -> None:
    lab = Lab(5, lambda a, b: 1.0 + a)
    with lab.open() as measurement:
        rows = transfers(list(measure(measurement)))
    assert sorted(row[:2] for row in rows) == sorted((f"n{a}", f"n{b}") for a in range(5) for b in range(5) if a != b)
    for number in range(1, 6):
        both_ways = [row[:2] for row in rows if row[2] == number]
        once, back = both_ways[: len(both_ways) // 2], both_ways[len(both_ways) // 2 :]
        assert sorted((b, a) for a, b in back) == sorted(once)
        assert len({name for pair in once for name in pair}) == 2 * len(once) == 4
    assert {(row[0], row[3]) for row in rows} == {(f"n{a}", 1.0 + a) for a in range(5)}


def test_a_round_is_told_before_it_is_measured() -> None:
    with Lab(4, lambda a, b: 1.0).open() as measurement:
        events = list(measure(measurement))
    assert isinstance(events[0], Measuring)
    rounds = [event for event in events if isinstance(event, Measuring)]
    assert [(event.round, event.rounds, event.pairs) for event in rounds] == [(1, 3, 2), (2, 3, 2), (3, 3, 2)]


def test_a_node_is_asked_for_the_chosen_addresses_of_both_ends() -> None:
    lab = Lab(2, lambda a, b: 1.0)
    with lab.open() as measurement:
        list(measure(measurement))
        token = measurement.survey.token
    asked = lab.requests[0]
    assert {key: asked[key] for key in asked if key != "id"} == {
        "do": "throughput",
        "token": token,
        "node_rank": 0,
        "peer": 2,
        "address": "10.0.0.1",
        "port": 5001,
        "source": "10.0.0.0",
        "seconds": 2.0,
        "streams": 4,
    }


def test_a_pair_that_fails_is_told_with_the_reason_and_keeps_nobody_else_from_it() -> None:
    lab = Lab(3, lambda a, b: 0.0 if (a, b) == (0, 1) else 4.0)
    with lab.open() as measurement:
        events = [event for event in measure(measurement) if isinstance(event, Transferred)]
        assert measurement.rates == {(a, b): 4.0 * ((a, b) != (0, 1)) for a in range(3) for b in range(3) if a != b}
    (failed,) = [event for event in events if event.error]
    assert (failed.node, failed.peer, failed.gbits) == ("n0", "n1", None)
    assert failed.error == "nothing listens on [0, 2]"
    assert len(events) == 6


def test_an_answer_that_makes_no_sense_is_a_pairs_failure() -> None:
    lab = Lab(2, lambda a, b: 1.0)
    lab.fakes[0].replies["throughput"] = {"size": "much", "seconds": 1.0, "streams": 1}
    with lab.open() as measurement:
        events = [event for event in measure(measurement) if isinstance(event, Transferred)]
    assert [("makes no sense" in event.error, event.gbits) for event in events] == [(True, None), (False, 1.0)]


def test_a_node_that_is_lost_is_not_waited_for_in_every_round() -> None:
    lab = Lab(3, lambda a, b: 1.0)

    def die(*_: Any) -> dict[str, Any]:
        lab.fakes[2].die()
        return {}

    lab.fakes[2].replies["throughput"] = die
    with lab.open() as measurement:
        events = [event for event in measure(measurement) if isinstance(event, Transferred)]
        assert list(measurement.survey.failed) == [2]
        assert failures(measurement) == ()
        assert deep(measurement)[1] == ()
    assert [(event.node, bool(event.error)) for event in events if "n2" in (event.node, event.peer)][-1] == ("n2", True)
    assert {("n0", "n1"), ("n1", "n0")} <= {(event.node, event.peer) for event in events if not event.error}


def test_without_a_second_look_a_transfer_that_fails_is_an_error_of_who_sent() -> None:
    with Lab(3, lambda a, b: 0.0 if (a, b) == (1, 2) else 1.0).open() as measurement:
        list(measure(measurement))
        (finding,) = failures(measurement)
        assert (finding.node_rank, finding.problem.level) == (RANKS[1], "error")
        assert finding.problem.message == "nothing that it sent to n2 came through"


def test_ctrl_c_ends_it_between_two_transfers() -> None:
    lab = Lab(4, lambda a, b: 1.0)
    with lab.open() as measurement:
        events = measure(measurement)
        next(events)
        lab.control.press()
        with pytest.raises(Interrupted):
            list(events)
    assert len(lab.requests) <= 2


def test_nodes_on_one_machine_have_no_network_to_measure() -> None:
    lab = Lab(2, lambda a, b: 1.0, machines=1)
    with lab.open() as measurement:
        (told,) = measure(measurement)
    assert isinstance(told, Warn)
    assert lab.requests == []


def test_a_slow_node_is_found_by_measuring_it_with_the_best_and_told_under_its_own_rank() -> None:
    lab = Lab(5, lambda a, b: 1.0 if 3 in (a, b) else 10.0)
    with lab.open() as measurement:
        list(measure(measurement))
        events, findings = deep(measurement)
    assert [(finding.node_rank, finding.problem.code) for finding in findings] == [(5, "slow_node")]
    rows = transfers(events)
    assert {name for row in rows for name in row[:2]} == {"n3", "n0", "n1"}
    assert {row[2] for row in rows} == {6, 7}


def test_a_slow_link_is_told_at_both_its_ends() -> None:
    lab = Lab(4, lambda a, b: 1.0 if {a, b} == {1, 2} else 10.0)
    with lab.open() as measurement:
        list(measure(measurement))
        _, findings = deep(measurement)
        assert len(measurement.rates) == 12
    assert [(finding.node_rank, finding.problem.code) for finding in findings] == [(2, "slow_link"), (3, "slow_link")]


def test_where_all_is_well_nothing_is_measured_again() -> None:
    lab = Lab(4, lambda a, b: 10.0)
    with lab.open() as measurement:
        list(measure(measurement))
        assert deep(measurement) == ([], ())
