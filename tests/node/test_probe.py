"""Who reaches whom: every way in which an attempt can end is told by its word."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ncclrun.node import dial
from tests.cluster.cluster import Cluster
from tests.cluster.host import Host
from tests.node.client import Client, Refused
from tests.node.conftest import again
from tests.node.netclient import SECRET, listen, on, probe, target


@contextlib.contextmanager
def somebody(says: bytes | None, address: str = "127.0.0.1") -> Iterator[int]:
    """A listener that takes one connection after the other, says this and closes (None: says nothing and holds)."""
    with socket.create_server((address, 0)) as server:
        held: list[socket.socket] = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    caller, _ = server.accept()
                    held.append(caller)
                    if says is not None:
                        caller.recv(100)
                        caller.sendall(says)
                        caller.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for caller in held:
            caller.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class TestOnOneHost:
    def test_the_node_that_was_meant_is_reached_from_each_source_and_as_routed(
        self, node: Client, env: dict[str, str]
    ) -> None:
        doors = listen(node, "127.0.0.2", "::1", node_rank=3)
        with again(env) as peer:
            wanted = [
                target("127.0.0.2", doors["127.0.0.2"]["port"], None, "127.0.0.9", peer=3),
                target("::1", doors["::1"]["port"], "::1", peer=3),
            ]
            links = probe(peer, *wanted)
        assert [(link["source"], link["outcome"], link["by"], link["local"]) for link in links] == [
            (None, "reached", 3, "127.0.0.1"),
            ("127.0.0.9", "reached", 3, "127.0.0.9"),
            ("::1", "reached", 3, "::1"),
        ]
        assert all(0 < link["seconds"] < 3 for link in links)

    def test_another_node_and_oneself_are_not_the_one_that_was_meant(self, node: Client) -> None:
        port = listen(node, "127.0.0.2", node_rank=1)["127.0.0.2"]["port"]
        for asks in (0, 1):
            [link] = probe(node, target("127.0.0.2", port, peer=4), node_rank=asks)
            assert (link["outcome"], link["by"]) == ("other", 1)

    def test_addresses_of_two_families_are_not_tried(self, node: Client) -> None:
        port = listen(node, "127.0.0.2")["127.0.0.2"]["port"]
        links = probe(node, target("127.0.0.2", port, "::1"), target("fe80::1%eth1", port, None, "::1"))
        assert links == []

    def test_whoever_does_not_know_the_token_is_a_stranger(self, node: Client) -> None:
        port = listen(node, "127.0.0.2")["127.0.0.2"]["port"]
        [link] = probe(node, target("127.0.0.2", port), token="another")
        assert (link["outcome"], link["by"], link["seconds"]) == ("stranger", None, None)

    @pytest.mark.parametrize("says", [b"SSH-2.0-OpenSSH_9.2\r\n", b"0 " + b"ab" * 32 + b"\n", b"x" * 1000, b"no line"])
    def test_somebody_else_who_talks_is_a_stranger(self, node: Client, says: bytes) -> None:
        with somebody(says) as port:
            assert probe(node, target("127.0.0.1", port))[0]["outcome"] == "stranger"

    def test_silence_is_a_timeout_and_a_close_a_reset(self, node: Client) -> None:
        with somebody(None) as silent, somebody(b"") as closing:
            links = probe(node, target("127.0.0.1", silent), target("127.0.0.1", closing), limit=0.3)
        assert [link["outcome"] for link in links] == ["timeout", "reset"]
        assert links[0]["local"] == "127.0.0.1"

    def test_nobody_there_is_refused_and_other_ports_tell_that_the_host_lives(self, node: Client) -> None:
        closed = free_port()
        with somebody(None) as first, somebody(None) as second:
            [link] = probe(node, target("127.0.0.1", closed, other_ports=(second, closed, first)))
        assert link["outcome"] == "refused"
        assert link["open_ports"] == sorted([first, second])

    def test_other_ports_of_an_address_that_answers_are_left_alone(self, node: Client) -> None:
        port = listen(node, "127.0.0.2")["127.0.0.2"]["port"]
        with somebody(None, "127.0.0.2") as other:
            assert probe(node, target("127.0.0.2", port, other_ports=(other,)))[0]["open_ports"] == []

    @pytest.mark.parametrize("source", ["192.0.2.77", "fe80::77%nowhere"])
    def test_a_source_that_is_not_ours_is_told(self, node: Client, source: str) -> None:
        address = "fe80::1%eth1" if ":" in source else "127.0.0.1"
        assert probe(node, target(address, 1, source))[0]["outcome"] == "bad_source"

    def test_what_has_no_word_is_an_error_in_the_kernel_s_words(self, node: Client) -> None:
        # Nothing leaves a host from a loopback address.
        [link] = probe(node, target("192.0.2.1", 9, "127.0.0.1"))
        assert (link["outcome"], link["detail"]) == ("error", "Invalid argument")

    def test_a_call_that_meets_itself_has_reached_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        port = free_port()
        ended: list[dial.Call] = []

        def bind(sock: socket.socket, source: tuple[str, int]) -> bool:
            sock.bind((source[0], port))
            return True

        def done(call: dial.Call) -> tuple[dial.Call, ...]:
            ended.append(call)
            return ()

        monkeypatch.setattr(dial, "bind", bind)  # the kernel may give this very port, once in a while
        dial.Dialler(SECRET, done).run([dial.Call("127.0.0.1", port, "127.0.0.1", 2.0)])
        assert [call.outcome for call in ended] == ["refused"]

    def test_more_attempts_than_may_be_under_way_are_all_made(self, node: Client) -> None:
        port = listen(node, "127.0.0.2", node_rank=0)["127.0.0.2"]["port"]
        sources = [f"127.1.{index // 250}.{index % 250 + 1}" for index in range(dial.MOST_AT_ONCE + 100)]
        links = probe(node, target("127.0.0.2", port, *sources), limit=20.0)
        assert [link["source"] for link in links] == sources
        assert {link["outcome"] for link in links} == {"reached"}

    @pytest.mark.parametrize(
        "wrong",
        [
            {"limit": 0},
            {"limit": 3600},
            {"targets": [{"peer": 0, "address": "127.0.0.1", "port": 70000, "sources": [None]}]},
            {"targets": [{"peer": 0, "address": "127.0.0.1", "port": 7, "sources": "all"}]},
            {"targets": [{"peer": "0", "address": "127.0.0.1", "port": 7, "sources": [None]}]},
        ],
    )
    def test_nonsense_is_refused(self, node: Client, wrong: dict[str, Any]) -> None:
        usual: dict[str, Any] = {"token": SECRET, "node_rank": 0, "targets": [], "limit": 1.0}
        with pytest.raises(Refused) as refused:
            node.call("probe", **{**usual, **wrong})
        assert refused.value.code == "bad_request"

    def test_a_name_is_no_address(self, node: Client) -> None:
        with pytest.raises(Refused) as refused:
            probe(node, target("localhost", 7))
        assert refused.value.code == "bad_address"


Make = Callable[..., Cluster]


def rules(host: Host, text: str) -> None:
    """nftables rules of the host itself."""
    done = host.exec(["nft", "-f", "-"], input=text)
    assert done.returncode == 0, done.stderr


def incoming(verdict: str, what: str = "tcp dport 1024-65535") -> str:
    """Rules that let nothing new in on the data network's high ports."""
    chain = "add chain inet t in { type filter hook input priority 0; }\n"
    match = "iifname != lo iifname != ens3 ct state new"
    return f"add table inet t\n{chain}add rule inet t in {match} {what} {verdict}\n"


def link_local(host: Host) -> str:
    """Its link-local address on the data network, once the kernel has found that nobody else has it."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        argv = ["ip", "-6", "addr", "show", "dev", host.data_interface, "scope", "link", "-tentative"]
        for word in host.exec(argv).stdout.split():
            if word.startswith("fe80"):
                return word.split("/")[0]
        time.sleep(0.1)
    raise AssertionError("no link-local address")


@pytest.mark.cluster
class TestBetweenHosts:
    @pytest.fixture
    def pair(self, make_cluster: Make) -> Iterator[tuple[Host, Host, Client, Client]]:
        """Two hosts with IPv6, and a node part on each."""
        cluster = make_cluster(2, data_ipv6=True)
        with on(cluster.hosts[0]) as first, on(cluster.hosts[1]) as second:
            yield cluster.hosts[0], cluster.hosts[1], first, second

    def test_each_kind_of_firewall_is_told_by_its_word(self, pair: tuple[Host, Host, Client, Client]) -> None:
        here, there, asks, holds = pair
        four, six = there.data_address, "fd77::2"
        doors = listen(holds, four, six, node_rank=1)
        wanted = [
            target(address, doors[address]["port"], None, source, peer=1, other_ports=(22,))
            for address, source in ((four, here.data_address), (six, "fd77::1"))
        ]

        def outcomes(verdict: str | None) -> set[str]:
            rules(there, "add table inet t\ndelete table inet t\n" + (incoming(verdict) if verdict else ""))
            # A kernel sends one ICMP error a second to each host, so that some attempts hear of it at the next SYN.
            links = probe(asks, *wanted, node_rank=0, limit=0.6 if verdict == "drop" else 6.0)
            assert len(links) == 4
            assert all(link["open_ports"] == ([22] if verdict else []) for link in links)
            return {link["outcome"] for link in links}

        assert outcomes(None) == {"reached"}
        assert outcomes("drop") == {"timeout"}
        assert outcomes("reject with tcp reset") == {"refused"}
        assert outcomes("reject") == {"refused"}
        assert outcomes("reject with icmpx type host-unreachable") == {"no_route"}
        assert outcomes("reject with icmpx type admin-prohibited") == {"no_route"}
        assert outcomes("reject with icmpx type no-route") == {"no_network"}

    def test_what_the_own_host_forbids_or_has_no_way_to_is_told_apart(
        self, pair: tuple[Host, Host, Client, Client]
    ) -> None:
        here, _there, asks, _holds = pair
        for line in ("prohibit 198.51.100.0/24", "unreachable 203.0.113.0/24", "prohibit fd99::/64"):
            family = ["-6"] if "fd99" in line else []
            here.exec(["ip", *family, "route", "add", *line.split()], check=True)
        here.exec(["ip", "route", "del", "default"], check=True)
        wanted = [target(a, 9) for a in ("198.51.100.7", "203.0.113.7", "192.0.2.7", "fd99::7", "fd98::7")]
        outcomes = [link["outcome"] for link in probe(asks, *wanted)]
        assert outcomes == ["forbidden", "no_route", "no_network", "forbidden", "no_network"]

    def test_an_address_that_nobody_has_is_no_route_in_the_end(self, pair: tuple[Host, Host, Client, Client]) -> None:
        _here, _there, asks, _holds = pair
        quick, patient = target("10.77.0.99", 9), target("10.77.0.98", 9)
        assert probe(asks, quick, limit=0.5)[0]["outcome"] == "timeout"
        assert probe(asks, patient, limit=10.0)[0]["outcome"] == "no_route"

    def test_a_link_local_address_is_reached_through_the_interface_of_the_source(
        self, pair: tuple[Host, Host, Client, Client]
    ) -> None:
        here, there, asks, holds = pair
        own, far = link_local(here), link_local(there)
        address = f"{far}%{there.data_interface}"
        port = listen(holds, address, node_rank=1)[address]["port"]
        source = f"{own}%{here.data_interface}"
        links = probe(asks, target(address, port, source, None, peer=1), node_rank=0)
        assert [(link["address"], link["source"], link["outcome"]) for link in links] == [(address, source, "reached")]

    def test_an_address_that_both_hosts_have_leads_to_oneself(self, pair: tuple[Host, Host, Client, Client]) -> None:
        _here, _there, asks, holds = pair
        listen(asks, "172.17.0.1", node_rank=0)
        port = listen(holds, "172.17.0.1", node_rank=1)["172.17.0.1"]["port"]
        [link] = probe(asks, target("172.17.0.1", port, peer=1), node_rank=0)
        assert link["outcome"] == "refused"  # the port is the other's
        own = listen(asks, "172.17.0.1", node_rank=0)["172.17.0.1"]["port"]
        [link] = probe(asks, target("172.17.0.1", own, peer=1), node_rank=0)
        assert (link["outcome"], link["by"]) == ("other", 0)
