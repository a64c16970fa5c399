"""Connecting to real sshds: host keys, gateways, time-outs, dropped banners, and what the errors say."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ncclrun.model.cluster import Node
from ncclrun.model.errors import HostError
from ncclrun.transport.base import Channel
from ncclrun.transport.ssh import SshTransport
from tests.transport.servers import Lab, free_port, raw_server


def say(channel: Channel, script: str) -> str:
    """Runs ``script`` in the remote shell and returns all that it printed."""
    channel.send(script.encode() + b"\nexit\n")
    output = b""
    while piece := channel.recv(1 << 16):
        output += piece
    channel.close()
    return output.decode()


def refusal(transport: SshTransport, node: Node) -> HostError:
    """The error of a connection that must not come to be."""
    with pytest.raises(HostError) as caught:
        transport.open(node)
    assert node.host in caught.value.message
    return caught.value


class TestAChannel:
    def test_is_a_shells_stdin_and_stdout(self, lab: Lab, transport: SshTransport) -> None:
        channel = transport.open(lab.node(lab.server()))
        channel.send(b"echo $((6 * 7)); echo oops >&2; exit 3\n")
        assert (channel.recv(100), channel.recv(100)) == (b"42\n", b"")
        assert channel.exit_status() == 3
        assert channel.stderr_tail() == "oops\n"

    def test_carries_megabytes_both_ways_unharmed(self, lab: Lab, transport: SshTransport) -> None:
        data = os.urandom(5 << 20)
        channel = transport.open(lab.node(lab.server()))
        channel.send(b"echo go; exec cat\n")
        assert channel.recv(3) == b"go\n"
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(channel.send, data)
            received = b""
            while len(received) < len(data):
                received += channel.recv(1 << 16)
            sent.result()
        assert received == data
        channel.close()

    def test_is_not_stopped_by_a_flood_on_stderr(self, lab: Lab, transport: SshTransport) -> None:
        channel = transport.open(lab.node(lab.server()))
        script = "i=0; while [ $i -lt 600 ]; do printf '%9000d' $i >&2; echo $i; i=$((i + 1)); done"
        assert say(channel, script).splitlines()[-1] == "599"
        assert len(channel.stderr_tail()) <= 8192

    def test_says_lost_when_its_server_dies(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server()
        channel = transport.open(lab.node(server))
        server.stop()
        assert channel.recv(100) == b""
        with pytest.raises(HostError) as caught:
            channel.send(b"x" * (4 << 20))
        assert caught.value.reason == "lost"

    def test_ends_a_waiting_reader_when_it_is_closed(self, lab: Lab, transport: SshTransport) -> None:
        channel = transport.open(lab.node(lab.server()))
        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(channel.recv, 100)
            channel.close()
            channel.close()
            assert reader.result(timeout=10) == b""


class TestHostKeys:
    def test_of_an_unknown_host_are_refused_with_fingerprint_and_fix(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server(known=False)
        error = refusal(transport, lab.node(server))
        shown = subprocess.run(
            ["ssh-keygen", "-lf", server.home / "host_ed25519.pub"], capture_output=True, text=True, check=True
        )
        assert error.reason == "unknown_key"
        assert shown.stdout.split()[1] in error.message
        assert error.fix == "ncclrun trust lab.yaml"
        assert "Accepted" not in server.log()

    def test_are_written_once_with_accept_new(self, lab: Lab) -> None:
        server = lab.server(known=False)
        lab.known_hosts = lab.home / "new" / "known_hosts"
        node = lab.node(server, host_keys="accept-new")
        for _ in range(2):
            transport = SshTransport()
            transport.open(node)
            transport.close()
        assert lab.known_hosts.read_text() == f"{server.known_name} {server.public_key()}\n"
        assert lab.known_hosts.stat().st_mode & 0o777 == 0o600
        assert lab.known_hosts.parent.stat().st_mode & 0o777 == 0o700

    @pytest.mark.parametrize("mode", ["strict", "accept-new"])
    def test_that_changed_are_always_refused(self, lab: Lab, transport: SshTransport, mode: str) -> None:
        server = lab.server()
        before = lab.known_hosts.read_text()
        server.swap_key()
        error = refusal(transport, lab.node(server, host_keys=mode))
        assert error.reason == "changed_key"
        assert error.message.count("SHA256:") == 2
        assert f"{lab.known_hosts}:1" in error.message
        assert f"ssh-keygen -R '{server.known_name}'" in error.fix
        assert lab.known_hosts.read_text() == before

    def test_of_another_kind_do_not_pass_for_new(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server(known=False, kinds=("ecdsa",))
        other = lab.server(known=False)
        lab.know(server.known_name, other.public_key())
        assert refusal(transport, lab.node(server, host_keys="accept-new")).reason == "changed_key"

    def test_that_are_revoked_are_refused_though_known(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server()
        lab.know("*", server.public_key(), "@revoked")
        assert refusal(transport, lab.node(server, host_keys="accept-new")).reason == "revoked_key"

    @pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
    def test_of_the_kind_that_is_known_are_asked_for(self, lab: Lab, transport: SshTransport, kind: str) -> None:
        server = lab.server(known=False, kinds=("ed25519", "ecdsa", "rsa"))
        lab.know(server.known_name, server.public_key(kind))
        assert say(transport.open(lab.node(server)), "echo in") == "in\n"

    def test_are_found_under_a_host_key_alias(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server(known=False)
        lab.config.write_text("Host box\n HostName 127.0.0.1\n HostKeyAlias the-box\n")
        lab.know("the-box", server.public_key())
        assert say(transport.open(lab.node(server, host="box")), "echo in") == "in\n"


class TestAGateway:
    def test_leads_to_a_host_behind_it(self, lab: Lab, transport: SshTransport) -> None:
        gateway, server = lab.server(), lab.server()
        node = lab.node(server, gateway=f"127.0.0.1:{gateway.port}")
        assert say(transport.open(node), "echo in") == "in\n"
        assert "Accepted publickey" in gateway.log()

    def test_is_logged_in_to_once_for_many_hosts(self, lab: Lab, transport: SshTransport) -> None:
        gateway, server = lab.server(), lab.server()
        node = lab.node(server, gateway=f"127.0.0.1:{gateway.port}")
        with ThreadPoolExecutor(6) as pool:
            channels = list(pool.map(transport.open, [node] * 6))
        assert [say(c, "echo in") for c in channels] == ["in\n"] * 6
        assert gateway.log().count("Accepted publickey") == 1

    def test_outlives_any_order_of_ends_behind_it(self, lab: Lab, transport: SshTransport) -> None:
        gateway, server = lab.server(), lab.server()
        node = lab.node(server, gateway=f"127.0.0.1:{gateway.port}")
        last = transport.open(node)
        for _ in range(5):
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda c: (c.send(b"exit\n"), c.close()), [transport.open(node) for _ in range(4)]))
        assert say(last, "echo in") == "in\n"
        assert "nonexistent" not in gateway.log()

    def test_may_stand_behind_another(self, lab: Lab, transport: SshTransport) -> None:
        first, second, server = lab.server(), lab.server(), lab.server()
        lab.config.write_text(
            f"Host inner\n HostName 127.0.0.1\n Port {second.port}\n ProxyJump outer\n"
            f"Host outer\n HostName 127.0.0.1\n Port {first.port}\n ProxyJump none\nHost *\n ProxyJump inner\n"
        )
        assert say(transport.open(lab.node(server)), "echo in") == "in\n"
        assert "Accepted publickey" in first.log()
        assert "Accepted publickey" in second.log()

    def test_with_a_swapped_key_is_refused(self, lab: Lab, transport: SshTransport) -> None:
        gateway, server = lab.server(), lab.server()
        gateway.swap_key()
        error = refusal(transport, lab.node(server, gateway=f"127.0.0.1:{gateway.port}", host_keys="accept-new"))
        assert error.reason == "changed_key"
        assert "gateway" in error.message
        assert "Accepted" not in server.log()

    def test_does_not_vouch_for_the_host_behind_it(self, lab: Lab, transport: SshTransport) -> None:
        gateway, server = lab.server(), lab.server()
        server.swap_key()
        assert refusal(transport, lab.node(server, gateway=f"127.0.0.1:{gateway.port}")).reason == "changed_key"

    def test_that_can_not_go_on_says_so(self, lab: Lab, transport: SshTransport) -> None:
        gateway = lab.server()
        error = refusal(transport, lab.node(gateway=f"127.0.0.1:{gateway.port}", port=free_port()))
        assert error.reason == "gateway"
        assert "can't reach" in error.message

    def test_that_is_off_is_named(self, lab: Lab, transport: SshTransport) -> None:
        error = refusal(transport, lab.node(lab.server(), gateway=f"127.0.0.1:{free_port()}"))
        assert error.reason == "gateway"
        assert "refused" in error.message


class TestAProxyCommand:
    def test_carries_the_connection(self, lab: Lab, transport: SshTransport) -> None:
        jump, server = lab.server(), lab.server()
        lab.config.write_text(
            f"Host 127.0.0.1\n ProxyCommand ssh -F none -i {lab.key} -o UserKnownHostsFile={lab.known_hosts} "
            f"-p {jump.port} -W %h:%p 127.0.0.1\n"
        )
        assert say(transport.open(lab.node(server)), "echo in") == "in\n"

    def test_that_dies_is_an_error_and_not_a_spin(self, lab: Lab, transport: SshTransport) -> None:
        lab.config.write_text("Host *\n ProxyCommand echo no way >&2; exit 9\n")
        before = resource.getrusage(resource.RUSAGE_SELF)
        error = refusal(transport, lab.node(port=22, connect_timeout=30))
        after = resource.getrusage(resource.RUSAGE_SELF)
        assert error.reason == "gateway"
        assert "no way" in error.message
        assert after.ru_utime - before.ru_utime < 5

    def test_that_says_nothing_is_a_timeout_and_not_its_own_end(self, lab: Lab, transport: SshTransport) -> None:
        lab.config.write_text("Host *\n ProxyCommand sleep 100\n")
        error = refusal(transport, lab.node(port=22, connect_timeout=1))
        assert error.reason == "timeout"
        assert "through the ProxyCommand `sleep 100`: timed out: no SSH banner came" in error.message

    def test_that_dies_later_ends_the_stream(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server()
        command = f"exec 3<>/dev/tcp/127.0.0.1/{server.port}; cat <&3 & cat >&3"
        lab.config.write_text(f"Host *\n ProxyCommand bash -c 'echo $$ > {lab.home}/pid; {command}'\n")
        channel = transport.open(lab.node(server))
        os.killpg(int((lab.home / "pid").read_text()), 9)
        assert channel.recv(100) == b""


class TestAHostThatIsNotThere:
    def test_by_name_says_name(self, lab: Lab, transport: SshTransport) -> None:
        error = refusal(transport, lab.node(host="no-such-host.invalid"))
        assert error.reason == "name"

    def test_by_port_says_refused(self, lab: Lab, transport: SshTransport) -> None:
        assert refusal(transport, lab.node(port=free_port())).reason == "refused"

    def test_that_never_speaks_says_timeout_and_the_phase(self, lab: Lab, transport: SshTransport) -> None:
        with raw_server("silent") as (port, _):
            began = time.monotonic()
            error = refusal(transport, lab.node(port=port, connect_timeout=1))
        assert error.reason == "timeout"
        assert "banner" in error.message
        assert time.monotonic() - began < 20

    def test_that_is_no_ssh_server_says_so(self, lab: Lab, transport: SshTransport) -> None:
        with raw_server("web") as (port, _):
            error = refusal(transport, lab.node(port=port))
        assert error.reason == "protocol"
        assert "no SSH server" in error.message

    def test_that_drops_us_is_tried_a_few_times(self, lab: Lab, transport: SshTransport) -> None:
        with raw_server("closing") as (port, times):
            error = refusal(transport, lab.node(port=port, connect_timeout=3))
        assert error.reason == "protocol"
        assert 2 <= len(times) <= 8


class TestManyAtOnce:
    def test_get_past_max_startups(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server(options=["MaxStartups 1:100:1"])
        node = lab.node(server, connect_timeout=60)
        with ThreadPoolExecutor(20) as pool:
            channels = list(pool.map(transport.open, [node] * 20))
        assert [say(c, "echo in") for c in channels] == ["in\n"] * 20

    def test_are_all_closed_with_the_transport(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server()
        with ThreadPoolExecutor(6) as pool:
            channels = list(pool.map(transport.open, [lab.node(server)] * 6))
        transport.close()
        assert [c.recv(10) for c in channels] == [b""] * 6
        assert refusal(transport, lab.node(server)).reason == "lost"
