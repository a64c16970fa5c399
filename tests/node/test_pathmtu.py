"""The largest packet that fits through, found without being told and when told; ports that pass."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ncclrun.node import echo
from ncclrun.node.hello import Identity
from tests.cluster.cluster import Cluster
from tests.cluster.host import Host
from tests.node.client import Client, Refused
from tests.node.conftest import again
from tests.node.netclient import SECRET, listen, on
from tests.node.test_probe import free_port, incoming, rules


def paths(node: Client, source: str, *targets: dict[str, Any], mtu: int, node_rank: int = 0, **more: Any) -> list[Any]:
    usual: dict[str, Any] = {"token": SECRET, "node_rank": node_rank, "source": source, "mtu": mtu, "limit": 3.0}
    found = node.call("paths", **{**usual, "targets": list(targets), **more})["paths"]
    assert isinstance(found, list)
    return found


def to(address: str, door: dict[str, Any], *ports: int, peer: int = 1) -> dict[str, Any]:
    return {"peer": peer, "address": address, "udp": door["udp"], "ports": list(ports)}


class TestOnOneHost:
    @pytest.mark.parametrize(("address", "source"), [("127.0.0.2", "127.0.0.3"), ("::1", "::1")])
    @pytest.mark.parametrize(("mtu", "found"), [(1500, 1500), (9000, 9000), (65536, 65535)])
    def test_what_fits_through_is_the_interface_s_own_size(
        self, node: Client, env: dict[str, str], address: str, source: str, mtu: int, found: int
    ) -> None:
        door = listen(node, address, node_rank=1)[address]
        with again(env) as asks:
            [path] = paths(asks, source, to(address, door), mtu=mtu)
        assert path == {"peer": 1, "address": address, "mtu": found, "told": False, "passed": [], "blocked": []}

    def test_ports_that_answer_pass_and_others_do_not(self, node: Client) -> None:
        door = listen(node, "127.0.0.2", node_rank=1, extra=4)["127.0.0.2"]
        closed = free_port()
        [path] = paths(node, "127.0.0.3", to("127.0.0.2", door, *door["extra"], closed), mtu=1500)
        assert path["passed"] == door["extra"]
        assert path["blocked"] == [closed]

    def test_a_wrong_peer_a_wrong_token_and_silence_are_no_answer(self, node: Client) -> None:
        door = listen(node, "127.0.0.2", node_rank=1)["127.0.0.2"]
        [path] = paths(node, "127.0.0.3", to("127.0.0.2", door, door["port"], peer=2), mtu=1500)
        assert (path["mtu"], path["blocked"]) == (0, [door["port"]])
        assert paths(node, "127.0.0.3", to("127.0.0.2", door), mtu=1500, token="another")[0]["mtu"] == 0
        assert paths(node, "127.0.0.3", to("127.0.0.2", {"udp": free_port()}), mtu=1500)[0]["mtu"] == 0
        assert paths(node, "192.0.2.3", to("127.0.0.2", door), mtu=1500)[0]["mtu"] == 0
        assert paths(node, "::1", to("127.0.0.2", door, 7), mtu=1500)[0] == {
            **{"peer": 1, "address": "127.0.0.2", "mtu": 0, "told": False, "passed": [], "blocked": [7]}
        }

    @pytest.mark.parametrize("wrong", [{"mtu": 10}, {"limit": -1.0}, {"source": "eth0"}, {"targets": [{"peer": 1}]}])
    def test_nonsense_is_refused(self, node: Client, wrong: dict[str, Any]) -> None:
        with pytest.raises(Refused) as refused:
            node.call(
                "paths",
                **{"token": SECRET, "node_rank": 0, "source": "::1", "mtu": 1500, "limit": 1.0, "targets": [], **wrong},
            )
        assert refused.value.code in ("bad_request", "bad_address")


class TestTheEcho:
    def test_it_answers_in_short_and_only_those_who_know_the_token(self) -> None:
        identity = Identity(SECRET, 7)
        asked = echo.question(SECRET, b"n" * 16, 1472)
        assert len(asked) == 1472
        told = echo.answer(identity, memoryview(asked))
        assert told is not None
        assert len(told) < 100
        assert echo.read_answer(SECRET, told) == echo.Reply(b"n" * 16, 7)
        assert echo.read_answer("another", told) is None
        for other in (echo.question("another", b"n" * 16, 1472), asked[:-1], asked + b"\0", b"", b"x" * 1472, told):
            assert echo.answer(identity, memoryview(other)) is None

    def test_noise_gets_no_answer_and_disturbs_nobody(self, node: Client) -> None:
        door = listen(node, "127.0.0.2", node_rank=1)["127.0.0.2"]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noisy:
            noisy.connect(("127.0.0.2", door["udp"]))
            for size in (0, 1, 56, 57, 1400, 60000):
                noisy.send(b"n" * size)
            assert paths(node, "127.0.0.3", to("127.0.0.2", door), mtu=1500)[0]["mtu"] == 1500
            noisy.setblocking(False)
            with pytest.raises(BlockingIOError):
                noisy.recv(100)


Make = Callable[..., Cluster]


@pytest.mark.cluster
class TestBetweenHosts:
    @pytest.fixture
    def pair(self, make_cluster: Make) -> Iterator[tuple[Host, Host, Client, Client]]:
        """Two hosts with jumbo frames and IPv6, and a node part on each."""
        cluster = make_cluster(2, data_ipv6=True)
        with on(cluster.hosts[0]) as first, on(cluster.hosts[1]) as second:
            yield cluster.hosts[0], cluster.hosts[1], first, second

    def test_a_peer_with_smaller_frames_is_found_though_nobody_says_so(
        self, pair: tuple[Host, Host, Client, Client]
    ) -> None:
        here, there, asks, holds = pair
        doors = listen(holds, there.data_address, "fd77::2", node_rank=1)
        for smaller, largest in ((None, 9000), (8000, 8000), (1500, 1500), (1437, 1437)):
            if smaller:
                there.exec(["ip", "link", "set", there.data_interface, "mtu", str(smaller)], check=True)
            for address, source in ((there.data_address, here.data_address), ("fd77::2", "fd77::1")):
                [path] = paths(asks, source, to(address, doors[address]), mtu=9000)
                # A veth takes frames that are larger by a VLAN tag.
                assert path["mtu"] == (largest + 4 if smaller else largest)
                assert not path["told"]

    def test_a_router_that_says_so_is_believed_and_mentioned(self, make_cluster: Make) -> None:
        # Host 1 routes between host 0's data network and host 2's side, which has smaller packets.
        cluster = make_cluster(3, shared_management=True)
        first, router, last = cluster.hosts
        router.exec(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"], check=True)
        first.exec(["ip", "addr", "add", "10.78.0.1/32", "dev", "lo"], check=True)
        first.exec(["ip", "route", "add", "10.78.0.3/32", "via", router.data_address, "src", "10.78.0.1"], check=True)
        last.exec(["ip", "addr", "add", "10.78.0.3/32", "dev", "lo"], check=True)
        last.exec(["ip", "route", "add", "10.78.0.1/32", "via", router.address, "src", "10.78.0.3"], check=True)
        router.exec(["ip", "route", "add", "10.78.0.3/32", "via", last.address], check=True)
        router.exec(["ip", "route", "add", "10.78.0.1/32", "via", first.data_address], check=True)
        with on(first) as asks, on(last) as holds:
            door = listen(holds, "10.78.0.3", node_rank=1)["10.78.0.3"]
            [path] = paths(asks, "10.78.0.1", to("10.78.0.3", door), mtu=9000)
        assert (path["mtu"], path["told"]) == (1500, True)

    def test_a_firewall_that_lets_some_ports_through_is_found(self, pair: tuple[Host, Host, Client, Client]) -> None:
        here, there, asks, holds = pair
        door = listen(holds, there.data_address, node_rank=1, extra=2)[there.data_address]
        good, bad = door["extra"]
        rules(there, incoming("drop", f"tcp dport {bad}") + incoming("drop", "meta l4proto udp"))
        [path] = paths(asks, here.data_address, to(there.data_address, door, good, bad), mtu=9000, limit=1.0)
        assert path["mtu"] == 0
        assert (path["passed"], path["blocked"]) == ([good], [bad])
