"""`ncclrun trust`: what hosts and gateways show, and what of it may be written."""

from __future__ import annotations

from ncclrun.commands.trust import NotSeen, Shown, accept, scan
from ncclrun.model.cluster import ClusterSpec, Nccl, Node
from ncclrun.model.errors import HostError
from ncclrun.transport.ssh import SshTransport
from tests.transport.servers import Lab, free_port


def cluster(*nodes: Node) -> ClusterSpec:
    return ClusterSpec(name="lab", source="lab.yaml", nccl=Nccl(), nodes=nodes)


def shown(spec: ClusterSpec, transport: SshTransport) -> list[Shown]:
    entries = list(scan(spec, transport))
    assert all(isinstance(e, Shown) for e in entries), entries
    return [e for e in entries if isinstance(e, Shown)]


class TestAScan:
    def test_sees_every_kind_of_key_that_a_host_has(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server(known=False, kinds=("ed25519", "ecdsa", "rsa"))
        keys = {e.key.kind: e for e in shown(cluster(lab.node(server)), transport)}
        assert set(keys) == {"ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"}
        assert {e.verdict.status for e in keys.values()} == {"unknown"}
        assert "Accepted" not in server.log()

    def test_sees_a_host_once_however_many_nodes_it_has(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server(known=False)
        spec = cluster(lab.node(server, name="a"), lab.node(server, name="b"), lab.node(name="c", host="localhost"))
        assert len(shown(spec, transport)) == 1

    def test_goes_through_a_gateway_that_is_known(self, lab: Lab, transport: SshTransport) -> None:
        gateway, server = lab.server(), lab.server(known=False)
        entries = shown(cluster(lab.node(server, gateway=f"127.0.0.1:{gateway.port}")), transport)
        assert [e.verdict.status for e in entries] == ["known", "unknown"]
        assert entries[0].target.port == gateway.port

    def test_stops_at_a_gateway_that_is_not_known_yet(self, lab: Lab, transport: SshTransport) -> None:
        gateway, server = lab.server(known=False), lab.server(known=False)
        spec = cluster(lab.node(server, gateway=f"127.0.0.1:{gateway.port}"))
        first, second = scan(spec, transport)
        assert isinstance(first, Shown)
        assert isinstance(second, NotSeen)
        assert "not trusted yet" in second.error.message
        accept([first], transport)
        assert [e.verdict.status for e in shown(spec, transport)] == ["known", "unknown"]

    def test_names_a_host_that_does_not_answer(self, lab: Lab, transport: SshTransport) -> None:
        [entry] = scan(cluster(lab.node(port=free_port())), transport)
        assert isinstance(entry, NotSeen)
        assert isinstance(entry.error, HostError)
        assert entry.error.reason == "refused"


class TestAccepting:
    def test_lets_the_next_connection_in(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server(known=False, kinds=("ed25519", "rsa"))
        node = lab.node(server)
        done = accept(shown(cluster(node), transport), transport)
        assert len(done.written) == 2
        assert done.refused == ()
        fresh = SshTransport()
        fresh.open(node).close()
        fresh.close()
        assert {e.verdict.status for e in shown(cluster(node), transport)} == {"known"}

    def test_refuses_a_key_that_changed_and_takes_the_others(self, lab: Lab, transport: SshTransport) -> None:
        changed, new = lab.server(), lab.server(known=False)
        changed.swap_key()
        entries = shown(cluster(lab.node(changed, name="a"), lab.node(new, name="b")), transport)
        before = lab.known_hosts.read_text()
        done = accept(entries, transport, cluster="lab.yaml")
        assert [e.target.port for e in done.written] == [new.port]
        assert [e.reason for e in done.refused] == ["changed_key"]
        assert lab.known_hosts.read_text() == before + f"{new.known_name} {new.public_key()}\n"

    def test_takes_a_further_kind_from_a_host_that_proved_itself(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server(kinds=("ed25519", "ecdsa"))
        entries = shown(cluster(lab.node(server)), transport)
        assert {e.key.kind: e.verdict.status for e in entries} == {
            "ssh-ed25519": "known",
            "ecdsa-sha2-nistp256": "unknown",
        }
