"""`resolve`: what it tells, what it ends with, and when it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ncclrun.commands.control import Control
from ncclrun.commands.resolve import resolve
from ncclrun.model.cluster import Node
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import HostError
from ncclrun.model.events import Event, Failure, Refused, Unreachable, Warn
from ncclrun.model.facts import RdmaDevice, RdmaPort
from ncclrun.model.netevents import Judged, Resolved, Written
from ncclrun.model.plan import Endpoint
from ncclrun.model.settings import NodeSettings
from ncclrun.node.pathmtu import SMALLEST
from ncclrun.transport.fake import Request
from tests.commands.fakenet import FakeNet
from tests.planning.makers import card, cluster

PAIR = {
    "a": (card("e0", "10.0.0.1/24"), card("docker0", "172.17.0.1/16")),
    "b": (card("f0", "10.0.0.2/24"), card("docker0", "172.17.0.1/16")),
}


class Pen:
    """Writes nothing, and remembers what it was to write."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str, str]] = []

    def __call__(self, nodes: Sequence[Node], endpoints: Sequence[Endpoint]) -> Written:
        self.written = [(n.name, e.interface, e.address) for n, e in zip(nodes, endpoints, strict=True)]
        return Written(path="c.yaml", backup="c.yaml.bak", changes=())


def resolved(net: FakeNet, write: Pen | None = None) -> list[Event]:
    return list(resolve(cluster(*net.nodes), net.transport, Control(), {}, write=write))


def end(events: list[Event]) -> tuple[int, str]:
    assert isinstance(events[-1], Ended)
    return events[-1].exit_code, events[-1].reason


def test_every_candidate_has_a_verdict_and_every_node_an_endpoint() -> None:
    events = resolved(FakeNet(PAIR))
    verdicts = {
        (e.node, e.interface): (e.verdict, e.reason) for e in events if isinstance(e, Judged) if "." in e.address
    }
    assert verdicts["a", "e0"][0] == verdicts["b", "f0"][0] == "chosen"
    assert verdicts["a", "docker0"] == ("rejected", "container or VM bridge: ends in this host")
    assert [(e.node, e.interface, e.address) for e in events if isinstance(e, Resolved)] == [
        ("a", "e0", "10.0.0.1"),
        ("b", "f0", "10.0.0.2"),
    ]
    assert end(events) == (0, "the network is proven")


def test_it_writes_what_is_proven() -> None:
    pen = Pen()
    events = resolved(FakeNet(PAIR), pen)
    assert pen.written == [("a", "e0", "10.0.0.1"), ("b", "f0", "10.0.0.2")]
    assert any(isinstance(event, Written) for event in events)


def test_a_loopback_is_never_written() -> None:
    pen = Pen()
    events = resolved(FakeNet({"a": PAIR["a"]}), pen)
    assert pen.written == []
    (failure,) = [event for event in events if isinstance(event, Failure)]
    assert "one machine" in failure.message
    assert end(events)[0] == 2
    assert end(resolved(FakeNet({"a": PAIR["a"]})))[0] == 0


def test_without_a_network_it_tells_why_and_writes_nothing() -> None:
    pen = Pen()
    events = resolved(FakeNet(PAIR, lambda *_: "timeout"), pen)
    (failure,) = [event for event in events if isinstance(event, Failure)]
    assert "no answer" in failure.message
    assert (end(events), pen.written) == ((3, "no network was found"), [])


def test_without_a_network_every_candidate_is_judged_before_the_error() -> None:
    events = resolved(FakeNet(PAIR, lambda *_: "timeout"))
    judged = [at for at, event in enumerate(events) if isinstance(event, Judged)]
    error = next(at for at, event in enumerate(events) if isinstance(event, Failure))
    assert max(judged) < error
    assert {(e.node, e.interface): e.verdict for e in events if isinstance(e, Judged) and "." in e.address} == {
        (name, interface): "rejected"
        for name, card in (("a", "e0"), ("b", "f0"))
        for interface in ("lo", card, "docker0")
    }


def test_where_nothing_could_be_tried_the_facts_judge() -> None:
    down = {"a": (card("e0", "10.0.0.1/24"),), "b": (card("f0", "10.0.0.2/24", up=False),)}
    events = resolved(FakeNet(down))
    reasons = {(e.node, e.interface): e.reason for e in events if isinstance(e, Judged)}
    assert (reasons["a", "e0"], reasons["b", "f0"]) == ("not tried", "interface is down")
    (failure,) = [event for event in events if isinstance(event, Failure)]
    assert failure.message == "no usable address on b\n  b has f0 10.0.0.2/24 (interface is down)"


def test_an_error_of_one_node_ends_it_unproven_and_unwritten() -> None:
    pen, net = Pen(), FakeNet(PAIR)
    net.fakes["b"].replies["paths"] = lambda request, _body: {
        "paths": [{"peer": 0, "address": "10.0.0.1", "mtu": 1400, "passed": [40001]}]
    }
    events = resolved(net, pen)
    assert [event.node for event in events if isinstance(event, Refused)] == ["b"]
    assert (end(events)[0], pen.written) == (3, [])


def test_a_host_that_does_not_answer_ends_it() -> None:
    net = FakeNet(PAIR)
    net.transport.nodes["b"] = HostError("refused", "b: connection refused")
    events = resolved(net)
    assert [event.node for event in events if isinstance(event, Unreachable)] == ["b"]
    assert end(events) == (255, "no answer from b")


def test_a_node_that_is_lost_on_the_way_ends_it() -> None:
    net = FakeNet(PAIR)
    probe = net.fakes["a"].replies["probe"]
    assert callable(probe)

    def last_moment_of_b(request: Request, body: bytes) -> Mapping[str, Any]:
        net.fakes["b"].die()
        return probe(request, body)

    net.fakes["a"].replies["probe"] = last_moment_of_b
    events = resolved(net)
    assert end(events) == (255, "no answer from b")
    assert [event.node for event in events if isinstance(event, Refused)] == ["b"]


ROCE = RdmaDevice("mlx5_0", (RdmaPort(1, "ACTIVE", "Ethernet", 100.0, netdevs=("e0", "f0")),))


def test_rdma_on_the_chosen_interface_of_all_nodes_is_given_to_nccl() -> None:
    net = FakeNet(PAIR, said={"a": {"rdma": (ROCE,)}, "b": {"rdma": (ROCE,)}})
    events = resolved(net)
    assert [event.hca for event in events if isinstance(event, Resolved)] == ["=mlx5_0:1"] * 2
    (asked,) = net.asked("a", "nccl")
    assert asked["env"]["NCCL_IB_HCA"] == "=mlx5_0:1"
    assert end(events)[0] == 0


def test_rdma_on_one_of_two_nodes_is_refused_before_any_start() -> None:
    events = resolved(FakeNet(PAIR, said={"a": {"rdma": (ROCE,)}}))
    (failure,) = [event for event in events if isinstance(event, Failure)]
    assert "a" in failure.message
    assert "NCCL_IB_DISABLE" in failure.fix
    assert end(events)[0] == 3


def test_rdma_that_the_node_itself_switches_off_is_no_mix() -> None:
    off = {"rdma": (ROCE,), "settings": NodeSettings(login={"NCCL_IB_DISABLE": "1"})}
    events = resolved(FakeNet(PAIR, said={"a": off}))
    assert [event.hca for event in events if isinstance(event, Resolved)] == ["", ""]
    assert end(events)[0] == 0


def test_leftovers_of_another_launcher_are_warned_about() -> None:
    events = resolved(FakeNet(PAIR, said={"b": {"stale": ("MASTER_ADDR", "PET_NNODES")}}))
    (warning,) = [event for event in events if isinstance(event, Warn)]
    assert (warning.node, "MASTER_ADDR, PET_NNODES" in warning.text) == ("b", True)


def test_a_variable_that_is_not_exported_here_is_not_set_for_nccl() -> None:
    net = FakeNet({"a": PAIR["a"]})
    launch = net.nodes[0].launch.model_copy(update={"forward_env": ("SHELL_HAS_IT", "NCCL_SOCKET_IFNAME")})
    spec = cluster(replace(net.nodes[0], launch=launch))
    list(resolve(spec, net.transport, Control(), {"SHELL_HAS_IT": "1"}))
    (request,) = net.asked("a", "nccl")
    assert request["env"]["SHELL_HAS_IT"] == "1"
    assert request["env"]["NCCL_SOCKET_IFNAME"] == "=lo"


def test_no_firewall_is_blamed_for_the_ways_to_a_node_that_is_lost_meanwhile() -> None:
    net = FakeNet(PAIR)

    def last_moment_of_b(_request: Request, _body: bytes) -> Mapping[str, Any]:
        net.fakes["b"].die()
        return {}

    net.fakes["b"].replies["paths"] = last_moment_of_b
    net.fakes["a"].replies["paths"] = lambda _request, _body: {
        "paths": [{"peer": 1, "address": "10.0.0.2", "mtu": 0, "blocked": [40001]}]
    }
    events = resolved(net)
    assert [(event.node, event.code) for event in events if isinstance(event, Refused)] == [("b", "lost")]
    assert end(events) == (255, "no answer from b")


def test_a_tiny_mtu_is_no_refused_question() -> None:
    tiny = {name: (card("e0", f"10.0.0.{at}/24", mtu=68),) for at, name in enumerate(PAIR, 1)}
    net = FakeNet(tiny)
    assert end(resolved(net)) == (0, "the network is proven")
    assert [request["mtu"] for request in net.asked("a", "paths")] == [SMALLEST]
