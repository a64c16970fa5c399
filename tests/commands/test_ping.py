"""Which nodes are fit, and which are to blame when no network joins all of them."""

from __future__ import annotations

import pytest

from ncclrun.commands.control import Control
from ncclrun.commands.ping import Bandwidth, Ping
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import HostError
from ncclrun.model.events import Event, Failure
from ncclrun.model.netevents import Judged, Pinged, Transferred
from tests.commands.fakenet import FakeNet
from tests.planning.makers import card, cluster, node

THREE = {name: (card("e0", f"10.0.0.{at}/24"),) for at, name in enumerate("abc", 1)}


def pinged(net: FakeNet, bandwidth: Bandwidth | None = None) -> list[Event]:
    return list(Ping(cluster(*net.nodes), net.transport, Control(), {}, bandwidth=bandwidth).events())


def rows(events: list[Event]) -> dict[str, Pinged]:
    return {event.node: event for event in events if isinstance(event, Pinged)}


def end(events: list[Event]) -> tuple[int, str]:
    assert isinstance(events[-1], Ended)
    return events[-1].exit_code, events[-1].reason


def test_nodes_that_reach_each_other_are_fit() -> None:
    events = pinged(FakeNet(THREE))
    assert {name: (row.fit, row.interface, row.address) for name, row in rows(events).items()} == {
        "a": (True, "e0", "10.0.0.1"),
        "b": (True, "e0", "10.0.0.2"),
        "c": (True, "e0", "10.0.0.3"),
    }
    assert end(events) == (0, "all nodes are fit")


def test_a_node_that_nobody_reaches_does_not_make_the_others_unfit() -> None:
    events = pinged(FakeNet(THREE, lambda n, _s, p, _a: "timeout" if "b" in (n, p) else "reached"))
    found = rows(events)
    assert {name: row.fit for name, row in found.items()} == {"a": True, "b": False, "c": True}
    assert {name: row.address for name, row in found.items()} == {"a": "10.0.0.1", "b": "", "c": "10.0.0.3"}
    assert [problem.code for problem in found["b"].problems] == ["network"]
    (failure,) = [event for event in events if isinstance(event, Failure)]
    assert "b (e0 10.0.0.2)" in failure.message
    assert end(events) == (1, "not fit: b")


def test_all_are_judged_before_the_error_the_others_by_what_joins_them() -> None:
    events = pinged(FakeNet(THREE, lambda n, _s, p, _a: "timeout" if "b" in (n, p) else "reached"))
    judged = [(e.node, e.verdict) for e in events if isinstance(e, Judged) and e.interface == "e0"]
    assert judged == [("a", "chosen"), ("b", "rejected"), ("c", "chosen")]
    kinds = [type(event) for event in events if isinstance(event, Judged | Failure)]
    assert kinds.index(Failure) == len(kinds) - 1


def test_a_node_that_is_out_by_its_facts_alone_leaves_the_others_to_prove_their_network() -> None:
    net = FakeNet({**THREE, "b": (card("e0", "10.0.0.2/24", running=False),)})
    found = rows(pinged(net))
    assert {name: (row.fit, row.address) for name, row in found.items()} == {
        "a": (True, "10.0.0.1"),
        "b": (False, ""),
        "c": (True, "10.0.0.3"),
    }
    assert net.asked("b", "probe") == []
    assert [target["address"] for request in net.asked("a", "probe") for target in request["targets"]] == ["10.0.0.3"]


def test_a_wish_that_one_node_can_not_have_leaves_the_others_to_prove_their_network() -> None:
    net = FakeNet(THREE)
    net.nodes = (*net.nodes[:2], node("c", interface="e9", own=("interface",)))
    events = pinged(net)
    assert {name: (row.fit, row.address) for name, row in rows(events).items()} == {
        "a": (True, "10.0.0.1"),
        "b": (True, "10.0.0.2"),
        "c": (False, ""),
    }
    (failure,) = [event for event in events if isinstance(event, Failure)]
    assert failure.fix.startswith('take out "interface: e9" of c')


def test_a_cut_between_two_is_the_trouble_of_these_alone() -> None:
    four = {name: (card("e0", f"10.0.0.{at}/24"),) for at, name in enumerate("abcd", 1)}
    for cards in (four, THREE):
        events = pinged(FakeNet(cards, lambda n, _s, p, _a: "timeout" if {n, p} == {"a", "b"} else "reached"))
        assert {name for name, row in rows(events).items() if not row.fit} == {"a", "b"}
        assert end(events) == (1, "not fit: a, b")


def test_those_whom_nothing_joins_when_others_are_left_out_are_not_fit_either() -> None:
    net = FakeNet(
        {
            **{name: (card("e0", f"10.0.0.{at}/24"),) for at, name in enumerate("abc", 1)},
            "d": (card("e0", "10.0.0.4/24", up=False),),
        },
        lambda *_: "timeout",
    )
    assert not any(row.fit for row in rows(pinged(net)).values())


def test_a_node_that_fails_after_others_were_left_out_is_told() -> None:
    net = FakeNet(THREE, lambda n, _s, p, _a: "timeout" if "a" in (n, p) else "reached")
    net.fakes["c"].replies["nccl"] = {"library": 7}
    found = rows(pinged(net))
    assert [found[name].fit for name in "abc"] == [False, True, False]
    assert "makes no sense" in found["c"].problems[-1].message


def test_where_nobody_is_to_blame_all_are_unfit() -> None:
    apart = {name: (card("e0", f"10.0.{at}.1/24"),) for at, name in enumerate("ab", 1)}
    events = pinged(FakeNet(apart, lambda *_: "no_network"))
    assert [row.fit for row in rows(events).values()] == [False, False]
    assert end(events)[0] == 1


def test_a_host_that_does_not_answer_is_a_row_and_the_network_of_the_others_is_told() -> None:
    net = FakeNet(THREE)
    net.transport.nodes["c"] = HostError("refused", "c: connection refused", fix="start sshd")
    events = pinged(net)
    found = rows(events)
    assert [found[name].fit for name in "abc"] == [True, True, False]
    assert found["c"].problems[0].fix == "start sshd"
    assert {event.node for event in events if isinstance(event, Judged) and event.verdict == "chosen"} == {"a", "b"}
    assert end(events) == (1, "not fit: c")


def test_one_answer_of_several_nodes_is_not_taken_for_a_network() -> None:
    net = FakeNet(THREE)
    for name in "bc":
        net.transport.nodes[name] = HostError("refused", f"{name}: connection refused")
    events = pinged(net)
    assert (rows(events)["a"].fit, rows(events)["a"].address) == (True, "")


def test_where_nobody_answers_there_is_no_network_to_look_at() -> None:
    net = FakeNet({"a": THREE["a"]})
    net.transport.nodes["a"] = HostError("refused", "a: connection refused")
    assert end(pinged(net)) == (1, "not fit: a")


def test_a_node_that_loses_its_senses_after_connecting_is_not_fit() -> None:
    net = FakeNet(THREE)
    net.fakes["b"].replies["facts"] = {"hostname": "b"}
    found = rows(pinged(net))
    assert [found[name].fit for name in "abc"] == [True, False, True]
    assert "its facts make no sense" in found["b"].problems[0].message


def test_nccl_that_takes_another_interface_is_a_problem_of_that_node() -> None:
    net = FakeNet(THREE)
    net.fakes["b"].replies["nccl"] = {
        "library": "/l/libnccl.so.2",
        "version": "2.27.5",
        "result": 0,
        "lines": ["b:7:7 [0] NCCL INFO Bootstrap: Using eth9:192.168.0.9<0>"],
    }
    found = rows(pinged(net))
    assert [found[name].fit for name in "abc"] == [True, False, True]
    assert "eth9" in found["b"].problems[0].message


@pytest.mark.parametrize("deep", [False, True])
def test_every_pair_is_measured_both_ways(deep: bool) -> None:
    events = pinged(FakeNet(THREE), Bandwidth(seconds=0.1, streams=1, deep=deep))
    measured = [event for event in events if isinstance(event, Transferred)]
    assert {(event.node, event.peer) for event in measured} == {
        ("a", "b"), ("b", "a"), ("a", "c"), ("c", "a"), ("b", "c"), ("c", "b"),
    }  # fmt: skip
    assert {event.gbits for event in measured} == {8.0}
    assert end(events)[0] == 0
