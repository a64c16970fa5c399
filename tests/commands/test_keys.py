"""`ncclrun keys`: which public key, and that it arrives everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncclrun.commands.keys import install, public_key
from ncclrun.model.cluster import ClusterSpec, Launch, Nccl, Network, Node, Ssh
from ncclrun.model.errors import HostError, UsageError
from ncclrun.transport.fake import FakeNode, FakeTransport
from ncclrun.transport.ssh import SshTransport
from tests.transport.servers import Lab

LINE = "ssh-ed25519 AAAAC3Nz ada@laptop"


def node(name: str = "a", identity: Path | None = None) -> Node:
    ssh = Ssh(identity_file=str(identity) if identity else None)
    return Node(name=name, host=name, ssh=ssh, network=Network(), launch=Launch())


def cluster(*nodes: Node) -> ClusterSpec:
    return ClusterSpec(name="lab", source="lab.yaml", nccl=Nccl(), nodes=nodes)


class TestThePublicKey:
    @pytest.fixture(autouse=True)
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / ".ssh").mkdir()
        return tmp_path

    def test_stands_beside_the_identity_file(self, home: Path) -> None:
        (home / "lab.pub").write_text(f"# mine\n{LINE}\n")
        assert public_key(node(identity=home / "lab")) == LINE
        assert public_key(node(identity=home / "lab.pub")) == LINE

    def test_is_else_the_users_first(self, home: Path) -> None:
        (home / ".ssh" / "id_rsa.pub").write_text("ssh-rsa AAAA old\n")
        (home / ".ssh" / "id_ed25519.pub").write_text(LINE)
        assert public_key(node()) == LINE

    def test_that_is_missing_is_an_error_with_the_command_that_makes_it(self, home: Path) -> None:
        with pytest.raises(UsageError, match="no public key") as caught:
            public_key(node())
        assert caught.value.fix == f"ssh-keygen -t ed25519 -f {home}/.ssh/id_ed25519"

    def test_of_a_private_key_alone_can_be_made_from_it(self, home: Path) -> None:
        (home / "lab").write_text("private")
        with pytest.raises(UsageError) as caught:
            public_key(node(identity=home / "lab"))
        assert caught.value.fix == f"ssh-keygen -y -f {home}/lab > {home}/lab.pub"

    @pytest.mark.parametrize("content", ["", "-----BEGIN OPENSSH PRIVATE KEY-----\n", f"{LINE}\n{LINE}\n"])
    def test_is_never_something_else(self, home: Path, content: str) -> None:
        (home / "lab.pub").write_text(content)
        with pytest.raises(UsageError, match="not one public key"):
            public_key(node(identity=home / "lab"))


class TestInstalling:
    def test_asks_every_node_and_tells_each_outcome(self) -> None:
        new, old = FakeNode({"authorize": {"added": True}}), FakeNode({"authorize": {"added": False}})
        dead = HostError("refused", "c: refused")
        transport = FakeTransport({"a": new, "b": old, "c": dead})
        results = {r.node.name: r for r in install(cluster(node("a"), node("b"), node("c")), transport, key=LINE)}
        assert (results["a"].added, results["b"].added, results["c"].error) == (True, False, dead)
        assert [r["public_key"] for r in new.requests] == [LINE]

    def test_contacts_nobody_without_a_key(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        fake = FakeNode()
        with pytest.raises(UsageError):
            list(install(cluster(node("a")), FakeTransport({"a": fake})))
        assert fake.requests == []

    @pytest.mark.usefixtures("standin")
    def test_goes_over_ssh(self, lab: Lab, transport: SshTransport) -> None:
        [result] = install(cluster(lab.node(lab.server())), transport)
        assert result.error is None
        assert result.added
