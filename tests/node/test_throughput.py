"""Throughput as the receiver counts it, and receivers that nobody can misuse."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import pytest

from ncclrun.node import hello
from tests.node.client import Client, Refused
from tests.node.conftest import again
from tests.node.netclient import SECRET, listen
from tests.node.test_probe import free_port, somebody


def throughput(node: Client, port: int, **more: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"token": SECRET, "node_rank": 0, "peer": 1, "address": "127.0.0.2", "port": port}
    return node.call("throughput", **{**usual, "source": None, "seconds": 0.2, "streams": 1, **more})


def call(port: int, line: bytes) -> socket.socket:
    sock = socket.create_connection(("127.0.0.2", port), timeout=20)
    sock.sendall(line)
    return sock


@pytest.fixture
def port(node: Client) -> int:
    """Of the listener of node 1."""
    return int(listen(node, "127.0.0.2", node_rank=1)["127.0.0.2"]["port"])


@pytest.mark.parametrize("streams", [1, 4])
def test_the_bytes_that_arrived_and_their_time_are_told(
    node: Client, env: dict[str, str], port: int, streams: int
) -> None:
    with again(env) as sender:
        found = throughput(sender, port, streams=streams, source="127.0.0.7")
    assert found["streams"] == streams
    assert found["size"] > 1 << 20
    assert found["seconds"] > 0.1


def test_every_byte_is_counted_and_the_answer_proves_who_counted(port: int) -> None:
    challenge = hello.new_challenge()
    with call(port, hello.sink(SECRET, challenge) + b"x" * 77) as sock:
        sock.sendall(b"y" * 100_000)
        sock.shutdown(socket.SHUT_WR)
        words = sock.makefile("rb").readline().split()
    assert hello.who(SECRET, challenge, b" ".join(words[:2])) == 1
    assert int(words[2]) == 100_077
    assert float(words[3]) >= 0


def test_who_does_not_know_the_token_gets_no_receiver(port: int) -> None:
    for line in (
        hello.sink("another", hello.new_challenge()),
        b"sink 0123456789abcdef\n",
        b"sink 0123456789abcdef x\n",
    ):
        with call(port, line) as sock:
            assert sock.recv(100) == b""


def test_receivers_end_with_the_channel(env: dict[str, str]) -> None:
    with again(env) as holds:
        port = listen(holds, "127.0.0.2", node_rank=1)["127.0.0.2"]["port"]
        sock = call(port, hello.sink(SECRET, hello.new_challenge()) + b"x")
        holds.call("probe", token=SECRET, node_rank=1, targets=[], limit=1.0)  # it has read the hello by now
        assert holds.hang_up() == 0
    # A reset says the same, of a receiver that had not read everything.
    with sock, contextlib.suppress(ConnectionResetError):
        assert sock.recv(100) == b""


def test_the_master_s_listener_counts_nothing(node: Client) -> None:
    prepared = node.prepare("r", listen={"address": "127.0.0.2", "port": 0}, token=SECRET)
    with pytest.raises(Refused):
        throughput(node, prepared["port"])


def test_why_nothing_can_be_sent_is_said(node: Client, port: int) -> None:
    def code(at: int = port, **more: Any) -> str:
        with pytest.raises(Refused) as refused:
            throughput(node, at, **more)
        return refused.value.code

    assert code(free_port()) == "refused"
    assert code(peer=5) == "wrong_machine"
    assert code(token="another") in ("reset", "unfinished")
    assert code(source="::1") == "unreachable"
    assert code(source="192.0.2.9") == "bad_source"
    with somebody(b"", "127.0.0.2") as silent:
        assert code(silent) in ("reset", "unfinished")
    with somebody(b"SSH-2.0-x\r\n", "127.0.0.2") as other:
        assert code(other) in ("reset", "wrong_machine")


@pytest.mark.parametrize("wrong", [{"streams": 0}, {"streams": 1000}, {"seconds": 0}, {"seconds": 1e9}, {"port": 0}])
def test_nonsense_is_refused(node: Client, port: int, wrong: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        throughput(node, **{"port": port, **wrong})
    assert refused.value.code == "bad_request"
