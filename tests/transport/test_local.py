"""This machine as a node: the pipes, their ends, and which names lead here."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import netifaces
import pytest

from ncclrun.model.cluster import Launch, Network, Node, Ssh
from ncclrun.model.errors import HostError
from ncclrun.transport import local
from ncclrun.transport.local import LocalChannel, LocalTransport, is_this_machine
from ncclrun.transport.ssh import SshTransport


@pytest.fixture
def channel() -> Iterator[LocalChannel]:
    transport = LocalTransport()
    yield transport.open(node("localhost"))
    transport.close()


def node(host: str, **ssh: object) -> Node:
    settings = Ssh.model_validate({"config": "/dev/null", **ssh}) if ssh.get("config") else Ssh.model_validate(ssh)
    return Node(name="n", host=host, ssh=settings, network=Network(), launch=Launch())


def everything(channel: LocalChannel) -> bytes:
    output = b""
    while piece := channel.recv(1 << 16):
        output += piece
    return output


class TestAChannel:
    def test_is_a_shells_stdin_and_stdout(self, channel: LocalChannel) -> None:
        channel.send(b"echo $((6 * 7)); echo oops >&2; exit 3\n")
        assert everything(channel) == b"42\n"
        assert channel.stderr_tail() == "oops\n"
        assert channel.exit_status() is not None

    def test_carries_megabytes_both_ways(self, channel: LocalChannel) -> None:
        data = os.urandom(3 << 20)
        channel.send(b"echo go; exec cat\n")
        assert channel.recv(3) == b"go\n"
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(channel.send, data)
            received = b""
            while len(received) < len(data):
                received += channel.recv(1 << 16)
            sent.result()
        assert received == data

    def test_to_a_shell_that_ended_is_lost(self, channel: LocalChannel) -> None:
        channel.send(b"exit\n")
        assert channel.recv(10) == b""
        with pytest.raises(HostError) as caught:
            channel.send(b"x" * (1 << 20))
        assert caught.value.reason == "lost"

    def test_ends_a_waiting_reader_when_it_is_closed(self, channel: LocalChannel) -> None:
        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(channel.recv, 10)
            channel.close()
            channel.close()
            assert reader.result(timeout=10) == b""
        with pytest.raises(HostError):
            channel.send(b"x")

    def test_ends_what_does_not_end_by_itself(self, channel: LocalChannel) -> None:
        channel.send(b"trap '' TERM HUP; echo $$; sleep 1000 </dev/null\n")
        pid = int(channel.recv(20))
        channel.close()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    def test_is_out_of_reach_of_ctrl_c(self, channel: LocalChannel) -> None:
        channel.send(b"echo $$\n")
        assert os.getsid(int(channel.recv(20))) != os.getsid(0)

    def test_hides_our_password(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NCCLRUN_SSH_PASSWORD", "secret")
        channel = LocalTransport().open(node("localhost"))
        channel.send(b"env; exit\n")
        assert b"secret" not in everything(channel)
        channel.close()

    def test_survives_a_shell_that_is_killed(self, channel: LocalChannel) -> None:
        channel.send(b"echo $$; sleep 1000\n")
        os.killpg(int(channel.recv(20)), signal.SIGKILL)
        assert channel.recv(10) == b""


def addresses_of_eth0(name: str) -> dict[int, list[dict[str, str]]]:
    """As netifaces answers, also for an interface that has just gone."""
    if name == "gone":
        raise ValueError("You must specify a valid interface name.")
    return {netifaces.AF_INET: [{"addr": "192.0.2.7"}]}


class TestThisMachine:
    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.1.1", "::1"])
    def test_is_where_loopback_leads(self, host: str) -> None:
        assert is_this_machine(host)

    def test_is_every_address_of_its_interfaces(self) -> None:
        for name in netifaces.interfaces():
            for entry in netifaces.ifaddresses(name).get(netifaces.AF_INET, ()):
                assert is_this_machine(entry["addr"])

    def test_looks_at_the_interfaces_once_for_all_nodes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        looks = []

        def interfaces() -> list[str]:
            looks.append(1)
            return ["eth0", "gone"]

        monkeypatch.setattr(netifaces, "interfaces", interfaces)
        monkeypatch.setattr(netifaces, "ifaddresses", addresses_of_eth0)
        monkeypatch.setattr(local, "own_addresses", local._OwnAddresses())
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(is_this_machine, ["192.0.2.7"] * 64))
        assert answers == [True] * 64
        assert looks == [1]

    @pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "no-such-host.invalid", "bad..name"])
    def test_is_nowhere_else(self, host: str) -> None:
        assert not is_this_machine(host)

    def test_goes_by_names_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.1.1", 0))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
        assert is_this_machine("my-own-name")

    @pytest.mark.parametrize(
        ("host", "ssh", "local"),
        [
            ("localhost", {}, True),
            ("localhost", {"port": 22}, True),
            ("127.0.0.2", {"port": 2222}, False),
            ("localhost", {"gateway": "bastion"}, False),
            ("localhost", {"user": "somebody-else"}, False),
            ("192.0.2.1", {}, False),
        ],
    )
    def test_needs_no_ssh_unless_something_speaks_for_it(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: object, host: str, ssh: dict[str, object], local: bool
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        assert SshTransport().is_local(node(host, **ssh)) is local
