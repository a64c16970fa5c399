"""The doors that a node holds open: where they are, who is answered, and that no caller costs the node anything."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ncclrun.node import doors, hello, listener, ports
from ncclrun.node.hello import Hello, Identity
from tests.node.client import Client, Refused
from tests.node.conftest import again
from tests.node.netclient import SECRET, listen, probe, target


def taken(address: str, port: int) -> bool:
    """Whether anybody listens there."""
    try:
        socket.create_connection((address, port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


class TestTheHello:
    def test_the_answer_proves_who_answers_to_those_who_know_the_token(self) -> None:
        challenge = hello.new_challenge()
        answer = hello.answer(Identity(SECRET, 12), challenge).encode()
        assert hello.who(SECRET, challenge, answer + b"\n") == 12
        assert hello.who("another", challenge, answer) is None
        assert hello.who(SECRET, hello.new_challenge(), answer) is None
        assert hello.who(SECRET, challenge, answer.replace(b"12 ", b"13 ", 1)) is None

    @pytest.mark.parametrize("line", [b"", b"0", b"x y", b"-1 00", b"9" * 100 + b" 00", b"\xff\xfe 00", b"0 \xc3\xa9"])
    def test_no_answer_is_too_strange_to_be_read(self, line: bytes) -> None:
        assert hello.who(SECRET, "0" * 16, line) is None

    def test_a_caller_s_line_is_read(self) -> None:
        challenge = hello.new_challenge()
        assert hello.read(SECRET, hello.probe(challenge).rstrip()) == Hello("probe", challenge)
        assert hello.read(SECRET, hello.sink(SECRET, challenge).rstrip()) == Hello("sink", challenge)

    @pytest.mark.parametrize(
        "line",
        [b"", b"probe", b"probe 12", b"probe xyz", b"probe 0123456789abcdef ", b"GET / HTTP/1.1", b"\xff \xff"],
    )
    def test_what_is_no_hello_is_not_answered(self, line: bytes) -> None:
        assert hello.read(SECRET, line) is None

    def test_the_token_crosses_the_network_in_no_line(self) -> None:
        challenge = hello.new_challenge()
        lines = [hello.probe(challenge), hello.sink(SECRET, challenge), hello.answer(Identity(SECRET, 0), challenge)]
        assert not any(SECRET in str(line) for line in lines)


class TestListen:
    def test_every_address_has_ports_of_both_kinds_and_an_echo(self, node: Client) -> None:
        found = listen(node, "127.0.0.2", "127.0.0.3", "::1", extra=5)
        assert set(found) == {"127.0.0.2", "127.0.0.3", "::1"}
        for address, door in found.items():
            assert len({door["port"], *door["extra"]}) == 6
            assert all(taken(address, port) for port in (door["port"], *door["extra"]))
            high = [any(port in span for span in ports.reserved()) for port in (door["port"], *door["extra"])]
            assert high == [True, True, False, True, False, True]
            assert 0 < door["udp"] < 65536

    def test_ipv4_and_ipv6_do_not_share_a_socket(self, node: Client) -> None:
        port = listen(node, "::")["::"]["port"]
        assert taken("::1", port)
        assert not taken("127.0.0.1", port)

    def test_an_address_that_can_t_be_had_fails_alone(self, node: Client) -> None:
        wanted = ["192.0.2.1", "127.0.0.2", "localhost", "fe80::1%nowhere", ""]
        answer = node.call("listen", token=SECRET, node_rank=0, addresses=wanted, extra=0)
        assert set(answer["listeners"]) == {"127.0.0.2"}
        assert set(answer["failed"]) == set(wanted) - {"127.0.0.2"}
        assert "nowhere" in answer["failed"]["fe80::1%nowhere"]
        assert all(answer["failed"].values())

    def test_a_second_listen_takes_the_place_of_the_first(self, node: Client) -> None:
        first = listen(node, "127.0.0.2")["127.0.0.2"]["port"]
        second = listen(node, "127.0.0.2", node_rank=5)["127.0.0.2"]["port"]
        assert not taken("127.0.0.2", first)
        assert probe(node, target("127.0.0.2", second))[0]["by"] == 5

    def test_unlisten_closes_all_and_may_come_twice(self, node: Client) -> None:
        door = listen(node, "127.0.0.2", extra=2)["127.0.0.2"]
        for _ in range(2):
            node.call("unlisten")
        assert not any(taken("127.0.0.2", port) for port in (door["port"], *door["extra"]))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as echo:
            echo.bind(("127.0.0.2", door["udp"]))

    def test_the_end_of_the_channel_closes_all(self, env: dict[str, str]) -> None:
        with again(env) as node:
            port = listen(node, "127.0.0.2")["127.0.0.2"]["port"]
            with socket.create_connection(("127.0.0.2", port)):
                assert node.hang_up() == 0
        assert not taken("127.0.0.2", port)

    @pytest.mark.parametrize(
        ("said", "port"),
        [("10.0.0.9 51000 10.0.0.1 2222", 2222), ("fe80::9 51000 fe80::1 22", 22), (None, None), ("nonsense", None)],
    )
    def test_the_port_of_our_sshd_is_known_from_its_variable(self, said: str | None, port: int | None) -> None:
        assert doors.ssh_port({"SSH_CONNECTION": said}.get) == port

    @pytest.mark.parametrize(
        "wrong", [{"extra": 9}, {"extra": -1}, {"extra": True}, {"addresses": "::1"}, {"addresses": ["::1"] * 65}]
    )
    def test_nonsense_is_refused(self, node: Client, wrong: dict[str, Any]) -> None:
        usual: dict[str, Any] = {"token": SECRET, "node_rank": 0, "addresses": [], "extra": 0}
        with pytest.raises(Refused) as refused:
            node.call("listen", **{**usual, **wrong})
        assert refused.value.code == "bad_request"


class TestCallers:
    @pytest.fixture
    def selector(self) -> Iterator[selectors.DefaultSelector]:
        """A loop without a server."""
        with selectors.DefaultSelector() as selector:
            yield selector

    def turn(self, selector: selectors.DefaultSelector) -> None:
        """Handles what is there."""
        while events := selector.select(0.05):
            for key, _ in events:
                if selector.get_map().get(key.fd) is key:
                    key.data()

    def test_those_who_never_end_their_line_go_after_their_time(self, selector: selectors.DefaultSelector) -> None:
        callers = listener.Callers(selector)
        door = listener.Listener(callers, listener.open_port("127.0.0.1", 0), Identity(SECRET, 0))
        with socket.create_connection(("127.0.0.1", door.port)) as silent:
            silent.send(b"probe")
            self.turn(selector)
            now = time.monotonic()
            assert now < callers.next_deadline() <= now + listener.CALLER_SECONDS
            callers.expire(now)
            silent.setblocking(False)
            with pytest.raises(BlockingIOError):
                silent.recv(1)
            callers.expire(now + listener.CALLER_SECONDS)
            silent.settimeout(5)
            assert silent.recv(1) == b""
        assert callers.next_deadline() == float("inf")
        door.close()
        door.close()

    def test_of_too_many_the_oldest_goes(
        self, selector: selectors.DefaultSelector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(listener, "MOST_CALLERS", 3)
        callers = listener.Callers(selector)
        door = listener.Listener(callers, listener.open_port("127.0.0.1", 0), Identity(SECRET, 0))
        with contextlib.ExitStack() as stack:
            calls = [stack.enter_context(socket.create_connection(("127.0.0.1", door.port))) for _ in range(5)]
            for call in calls:
                call.send(b"probe")
                self.turn(selector)
                call.settimeout(0.2)
            assert [call.recv(1) for call in calls[:2]] == [b"", b""]
            for call in calls[2:]:
                with pytest.raises(TimeoutError):
                    call.recv(1)
            door.close()

    def test_hundreds_who_say_nothing_push_nobody_out(self, node: Client, env: dict[str, str]) -> None:
        port = listen(node, "127.0.0.2", node_rank=1)["127.0.0.2"]["port"]
        with contextlib.ExitStack() as stack, again(env) as peer:
            for _ in range(listener.MOST_CALLERS + 50):
                stack.enter_context(socket.create_connection(("127.0.0.2", port), timeout=5))
            descriptors = len(list(Path(f"/proc/{node.process.pid}/fd").iterdir()))
            assert descriptors < 50
            sources = [f"127.1.0.{number}" for number in range(1, 100)]
            links = probe(peer, target("127.0.0.2", port, *sources, peer=1))
            assert {link["outcome"] for link in links} == {"reached"}

    @pytest.mark.parametrize("says", [b"GET / HTTP/1.1\r\n", b"x" * 300, b"probe \n", b"\0\n"])
    def test_those_who_talk_nonsense_are_hung_up_on(self, node: Client, says: bytes) -> None:
        port = listen(node, "127.0.0.2")["127.0.0.2"]["port"]
        with socket.create_connection(("127.0.0.2", port), timeout=5) as rude:
            rude.sendall(says)
            with contextlib.suppress(ConnectionResetError):
                assert rude.recv(1) == b""

    def test_a_hello_may_come_in_pieces_and_twice(self, node: Client) -> None:
        port = listen(node, "127.0.0.2", node_rank=3)["127.0.0.2"]["port"]
        with socket.create_connection(("127.0.0.2", port), timeout=5) as slow:
            for _ in range(2):
                challenge = hello.new_challenge()
                line = hello.probe(challenge)
                slow.sendall(line[:9])
                node.call("clock")  # it has seen the first piece by now
                slow.sendall(line[9:])
                assert hello.who(SECRET, challenge, slow.recv(200)) == 3

    def test_a_flood_of_callers_keeps_no_request_and_no_peer_waiting(self, node: Client, env: dict[str, str]) -> None:
        port = listen(node, "127.0.0.2", node_rank=1)["127.0.0.2"]["port"]
        over = threading.Event()
        calls = 0

        def flood() -> None:
            nonlocal calls
            while not over.is_set():
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.2", port), timeout=5) as call:
                    calls += 1
                    call.sendall(b"probe 0123456789abcdef\n" if calls % 2 else b"")

        threads = [threading.Thread(target=flood) for _ in range(2)]
        for thread in threads:
            thread.start()
        with again(env) as peer:
            try:
                for _ in range(20):
                    node.call("clock")
                    assert probe(peer, target("127.0.0.2", port, peer=1))[0]["outcome"] == "reached"
                node.event("beat", 20)
            finally:
                over.set()
                for thread in threads:
                    thread.join()
        assert calls > 200
