"""The node's name service: asked for all at once, and never waited for longer than was said."""

from __future__ import annotations

import selectors
import socket
import time
from typing import Any

import pytest

from ncclrun.model import network as model
from ncclrun.node import names
from ncclrun.node.tasks import Tasks
from tests.node.client import Client, Refused


def ask(addresses: list[str], limit: float) -> dict[str, Any]:
    """The answer, as the serving loop would get it."""
    answers: list[dict[str, Any]] = []
    with selectors.DefaultSelector() as selector:
        tasks = Tasks(selector)
        names.ask(tasks, addresses, limit, answers.append)
        while not answers:
            for key, _ in selector.select(0.05):
                key.data()
            tasks.expire(time.monotonic())
    (answer,) = answers
    return answer


def hang(*_: object, **__: object) -> Any:
    time.sleep(1000)


def test_the_answer_has_the_fields_of_the_model(node: Client) -> None:
    answer = node.call("names", addresses=["127.0.0.1", "::1"], limit=20.0)
    assert set(answer) - {"ok", "re"} == set(model.Names.__dataclass_fields__)
    for look_up in (answer["forward"], *answer["reverse"]):
        assert set(look_up) == set(model.LookUp.__dataclass_fields__)
    assert answer["hostname"] == answer["forward"]["question"] == socket.gethostname()
    assert [look_up["question"] for look_up in answer["reverse"]] == ["127.0.0.1", "::1"]
    assert "localhost" in answer["reverse"][0]["answers"][0]


def test_what_is_asked_must_make_sense(node: Client) -> None:
    with pytest.raises(Refused, match="addresses must be a list"):
        node.call("names", addresses="127.0.0.1", limit=1.0)
    with pytest.raises(Refused, match="limit must be seconds"):
        node.call("names", addresses=[], limit=1000.0)
    answer = node.call("names", addresses=["gpu[1-3]"], limit=20.0)
    assert answer["reverse"][0]["answers"] == []
    assert answer["reverse"][0]["error"]


def test_a_name_without_an_address_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    forward = ask([], 20.0)["forward"]
    assert (forward["answers"], forward["error"]) == ([], "Name or service not known")


def test_each_address_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(0, 0, 0, "", ("10.0.0.1", 0)), (0, 0, 0, "", ("10.0.0.1", 0)), (0, 0, 0, "", ("fe80::1%eth0", 0, 0, 2))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)
    assert ask([], 20.0)["forward"]["answers"] == ["10.0.0.1", "fe80::1"]


def test_a_dead_server_is_given_up_for_all_questions_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getnameinfo", hang)
    answer = ask([f"127.0.0.{number}" for number in range(1, 9)], 0.4)
    assert [look_up["error"] for look_up in answer["reverse"]] == ["no answer within 0.4 s"] * 8
    assert {look_up["seconds"] for look_up in answer["reverse"]} == {0.4}


def test_a_child_that_dies_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> Any:
        raise SystemExit(1)

    monkeypatch.setattr(socket, "getnameinfo", crash)
    (reverse,) = ask(["127.0.0.1"], 20.0)["reverse"]
    assert reverse["error"] == "a child of the node part died at work"
