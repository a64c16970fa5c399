"""The scripted transport keeps to the conversation that the real ones keep to."""

from __future__ import annotations

import queue
from typing import Any

import pytest

from ncclrun.model.cluster import Launch, Network, Node, Ssh
from ncclrun.model.errors import HostError, NodeRefused
from ncclrun.transport.fake import FakeNode, FakeTransport
from ncclrun.transport.session import Session

NODE = Node(name="a", host="a", ssh=Ssh(), network=Network(), launch=Launch())


def test_answers_events_and_an_end_come_by_script() -> None:
    def start(request: dict[str, Any], body: bytes) -> dict[str, Any]:
        if request["run_id"] == "bad":
            raise NodeRefused("exists", "the run exists", fix="choose another")
        return {"pid": len(body)}

    fake = FakeNode({"start": start, "facts": {"cpus": 8}}, hostname="A")
    transport = FakeTransport({"a": fake})
    seen: queue.SimpleQueue[tuple[dict[str, Any], bytes]] = queue.SimpleQueue()
    session = Session.open(NODE, transport.open(NODE), lambda node, header, body: seen.put((header, body)))
    assert session.hello["hostname"] == "A"
    assert session.call("facts")["cpus"] == 8
    assert session.call("start", run_id="r", body=b"xyz")["pid"] == 3
    with pytest.raises(NodeRefused, match="the run exists"):
        session.call("start", run_id="bad")
    with pytest.raises(NodeRefused, match="not in the script"):
        session.call("sweep")
    fake.emit({"ev": "log", "stream": "0.out"}, b"hello\n")
    fake.die()
    assert seen.get(timeout=30) == ({"ev": "log", "stream": "0.out"}, b"hello\n")
    assert seen.get(timeout=30)[0]["ev"] == "gone"
    assert [r["do"] for r in fake.requests] == ["facts", "start", "start", "sweep"]


def test_one_that_dies_while_it_is_asked_says_nothing_more() -> None:
    def last_moment(_request: dict[str, Any], _body: bytes) -> dict[str, Any]:
        fake.die()
        return {"cpus": 8}

    fake = FakeNode({"facts": last_moment})
    transport = FakeTransport({"a": fake})
    session = Session.open(NODE, transport.open(NODE), lambda node, header, body: None)
    with pytest.raises(HostError):
        session.call("facts")


def test_a_host_may_be_out_of_reach() -> None:
    transport = FakeTransport({"a": HostError("refused", "a: refused")})
    with pytest.raises(HostError, match="a: refused"):
        transport.open(NODE)
