"""Many nodes at once: answers as they come, errors in their place, and a way out while they connect."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from ncclrun.model.cluster import Launch, Network, Node, Ssh
from ncclrun.model.errors import HostError, NodeRefused, UsageError
from ncclrun.transport.base import Channel
from ncclrun.transport.fake import FakeNode, FakeTransport
from ncclrun.transport.fleet import connect_all, for_all, make_transport
from ncclrun.transport.session import Session
from tests.transport.servers import Lab


def nodes(*names: str) -> list[Node]:
    return [Node(name=n, host=n, ssh=Ssh(), network=Network(), launch=Launch()) for n in names]


def ignore(node: Node, header: dict[str, Any], body: bytes) -> None:
    """A sink that does nothing."""


class Gated(FakeTransport):
    """Nodes whose name starts with `slow` connect only when the gate is opened."""

    def __init__(self, scripted: dict[str, FakeNode | HostError]) -> None:
        super().__init__(scripted)
        self.gate = threading.Event()
        self.channels: list[Channel] = []

    def open(self, node: Node) -> Any:
        if node.name.startswith("slow"):
            self.gate.wait(30)
        self.channels.append(super().open(node))
        return self.channels[-1]


class TestConnecting:
    def test_yields_sessions_and_errors(self) -> None:
        error = HostError("refused", "b: refused")
        transport = FakeTransport({"a": FakeNode(hostname="A"), "b": error, "c": FakeNode(hostname="C")})
        results = {node.name: result for node, result, _ in connect_all(transport, nodes("a", "b", "c"), ignore)}
        assert results["b"] is error
        sessions = {name: r for name, r in results.items() if isinstance(r, Session)}
        assert {name: s.hello["hostname"] for name, s in sessions.items()} == {"a": "A", "c": "C"}
        for session in sessions.values():
            session.close()

    def test_does_not_wait_for_the_slowest(self) -> None:
        transport = Gated({"slow": FakeNode(), "quick": FakeNode()})
        results = connect_all(transport, nodes("slow", "quick"), ignore)
        assert next(results)[0].name == "quick"
        transport.gate.set()
        assert next(results)[0].name == "slow"
        transport.close()

    def test_that_is_cancelled_ends_and_leaves_no_session(self) -> None:
        transport = Gated({"slow": FakeNode(), "quick": FakeNode()})
        cancel = threading.Event()
        sessions = []
        for _, result, _ in connect_all(transport, nodes("slow", "quick"), ignore, cancelled=cancel.is_set):
            sessions.append(result)
            cancel.set()
        assert len(sessions) == 1
        assert isinstance(sessions[0], Session)
        assert sessions[0].gone
        transport.gate.set()
        for _ in range(600):
            if len(transport.channels) == 2 and transport.channels[1].recv(1 << 20) == b"":
                break
            time.sleep(0.05)
        else:
            raise AssertionError("the late session stayed open")

    def test_that_ends_well_leaves_the_sessions_to_the_caller(self) -> None:
        [(_, session, _)] = connect_all(FakeTransport({"a": FakeNode()}), nodes("a"), ignore)
        assert isinstance(session, Session)
        assert session.call("clock")["time"] == 0.0
        session.close()

    def test_raises_what_no_host_is_to_blame_for(self) -> None:
        class Broken(FakeTransport):
            def open(self, node: Node) -> Any:
                raise UsageError("the ssh_config is broken")

        with pytest.raises(UsageError, match="broken"):
            list(connect_all(Broken({}), nodes("a"), ignore))

    @pytest.mark.usefixtures("standin")
    def test_mixes_this_machine_and_ssh(self, lab: Lab) -> None:
        transport = make_transport()
        members = [lab.node(lab.server(), name="far"), lab.node(name="near", host="localhost")]
        sessions = {n.name: s for n, s, _ in connect_all(transport, members, ignore) if isinstance(s, Session)}
        assert [transport.is_local(n) for n in members] == [False, True]
        answers = dict(for_all(sessions, lambda name, s: s.call("echo", text=name)))
        assert {name: a["said"] for name, a in answers.items() if isinstance(a, dict)} == {"far": "far", "near": "near"}
        for session in sessions.values():
            session.close()
        transport.close()


class TestAskingAll:
    def test_yields_answers_and_refusals(self) -> None:
        def question(_key: int, number: int) -> int:
            if number == 3:
                raise NodeRefused("odd", "not three")
            return number * number

        answers = dict(for_all({n: n for n in range(5)}, question))
        assert isinstance(answers.pop(3), NodeRefused)
        assert answers == {0: 0, 1: 1, 2: 4, 4: 16}

    def test_raises_bugs(self) -> None:
        with pytest.raises(ZeroDivisionError):
            list(for_all({"a": 0}, lambda _, n: 1 // n))

    def test_of_nobody_is_nothing(self) -> None:
        assert list(for_all({}, lambda *_: None)) == []

    def test_a_quick_answer_does_not_wait_for_a_slow_one(self) -> None:
        release = threading.Event()

        def question(key: str, _: None) -> str:
            if key == "slow":
                release.wait(30)
            return key

        found = []
        for key, _ in for_all({"slow": None, "quick": None}, question):
            found.append(key)
            release.set()
        assert found == ["quick", "slow"]

    def test_asks_no_more_at_a_time_than_there_are_workers(self) -> None:
        answers = for_all(dict.fromkeys(range(20)), lambda *_: threading.current_thread().name, workers=2)
        assert len({thread for _, thread in answers}) <= 2

    def test_ends_when_cancelled_though_nobody_answers(self) -> None:
        cancelled, release = threading.Event(), threading.Event()

        def question(*_: object) -> None:
            cancelled.set()
            release.wait(30)

        assert list(for_all({1: None, 2: None}, question, cancelled=cancelled.is_set)) == []
        release.set()
