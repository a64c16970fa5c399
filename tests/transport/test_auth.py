"""Logging in: keys, agents and passwords, never a prompt, and errors that tell what was tried."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ncclrun.model.errors import HostError
from ncclrun.transport.ssh import SshTransport
from tests.transport.servers import FakeServer, Lab, fake_server, make_key


@pytest.fixture
def agent(lab: Lab) -> Iterator[Path]:
    """The socket of an SSH agent without keys, of which nobody knows yet."""
    socket = lab.home / "agent"
    started = subprocess.run(["ssh-agent", "-s", "-a", socket], capture_output=True, text=True, check=True)
    yield socket
    os.kill(int(started.stdout.split("SSH_AGENT_PID=")[1].split(";")[0]), signal.SIGTERM)


def add(agent: Path, key: Path) -> None:
    """Gives the agent a key."""
    subprocess.run(
        ["ssh-add", "-q", key], env={**os.environ, "SSH_AUTH_SOCK": str(agent)}, check=True, capture_output=True
    )


class TestAKey:
    def test_of_the_default_name_is_found(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server()
        home = Path.home() / ".ssh"
        home.mkdir()
        lab.key.rename(home / "id_ed25519")
        transport.open(lab.node(server, identity_file=None)).close()
        assert server.log().count("Accepted publickey") == 1

    def test_that_is_refused_is_named_with_the_way_out(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server()
        other = make_key(lab.home / "other")
        with pytest.raises(HostError) as caught:
            transport.open(lab.node(server, identity_file=str(other)))
        assert caught.value.reason == "auth"
        assert str(other) in caught.value.message
        assert "allows: publickey" in caught.value.message
        assert "ncclrun keys lab.yaml --ask-pass" in caught.value.fix
        assert f"ssh-copy-id -p {server.port}" in caught.value.fix

    def test_that_is_refused_where_no_password_counts_needs_another_way(
        self, lab: Lab, transport: SshTransport
    ) -> None:
        with fake_server(lab, FakeServer("publickey")) as port, pytest.raises(HostError) as caught:
            transport.open(lab.node(port=port))
        assert "`identity_file`" in caught.value.fix
        assert "--ask-pass" not in caught.value.fix

    def test_that_is_refused_is_not_tried_again(self, lab: Lab, transport: SshTransport) -> None:
        server = lab.server()
        other = make_key(lab.home / "other")
        with pytest.raises(HostError):
            transport.open(lab.node(server, identity_file=str(other)))
        assert server.log().count("Connection from") == 2  # the probe of the test's own, and one login

    def test_that_is_not_there_is_said(self, lab: Lab, transport: SshTransport) -> None:
        with pytest.raises(HostError, match=r"/nowhere \(does not exist\)"):
            transport.open(lab.node(lab.server(), identity_file="/nowhere"))

    def test_that_is_encrypted_asks_for_ssh_add(self, lab: Lab, transport: SshTransport) -> None:
        key = make_key(lab.home / "locked", passphrase="a phrase")
        with pytest.raises(HostError, match="is encrypted and not in an SSH agent") as caught:
            transport.open(lab.node(lab.server(), identity_file=str(key)))
        assert caught.value.fix.startswith(f"ssh-add {key}")

    def test_may_be_held_by_an_agent(
        self, lab: Lab, transport: SshTransport, agent: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add(agent, lab.key)
        lab.key.unlink()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
        transport.open(lab.node(lab.server(), identity_file=None)).close()

    def test_may_be_held_by_the_agent_that_ssh_config_names(
        self, lab: Lab, transport: SshTransport, agent: Path
    ) -> None:
        add(agent, lab.key)
        lab.key.unlink()
        lab.config.write_text(f"IdentityAgent {agent}\n")
        transport.open(lab.node(lab.server())).close()

    def test_of_an_agent_may_be_named_by_its_public_half(
        self, lab: Lab, transport: SshTransport, agent: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(6):
            add(agent, make_key(lab.home / f"other{number}"))
        add(agent, lab.key)
        lab.key.unlink()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
        lab.config.write_text("IdentitiesOnly yes\n")
        transport.open(lab.node(lab.server(), identity_file=f"{lab.key}.pub")).close()

    def test_of_which_there_is_only_the_public_half_is_called_that(self, lab: Lab, transport: SshTransport) -> None:
        with pytest.raises(HostError, match="is a public key, whose private one no SSH agent holds"):
            transport.open(lab.node(lab.server(), identity_file=f"{lab.key}.pub"))

    def test_that_was_named_goes_before_the_agents(
        self, lab: Lab, transport: SshTransport, agent: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(7):
            add(agent, make_key(lab.home / f"other{number}"))
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
        transport.open(lab.node(lab.server())).close()

    def test_too_many_end_in_the_hint_to_name_one(
        self, lab: Lab, transport: SshTransport, agent: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(7):
            add(agent, make_key(lab.home / f"other{number}"))
        monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))
        with pytest.raises(HostError) as caught:
            transport.open(lab.node(lab.server(), identity_file=None))
        assert caught.value.reason == "auth"
        assert "MaxAuthTries" in caught.value.message
        assert "identity_file" in caught.value.fix

    def test_a_dead_agent_is_no_obstacle(
        self, lab: Lab, transport: SshTransport, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSH_AUTH_SOCK", "/nowhere")
        transport.open(lab.node(lab.server())).close()


class TestAPassword:
    def open(self, lab: Lab, port: int, password: str | None) -> None:
        transport = SshTransport(password)
        try:
            transport.open(lab.node(port=port, identity_file=None))
        finally:
            transport.close()

    def test_is_used_where_it_is_given(self, lab: Lab) -> None:
        interface = FakeServer("publickey,password")
        with fake_server(lab, interface) as port:
            self.open(lab, port, "secret")
        assert interface.asked == ["password"]

    def test_may_come_from_a_function(self, lab: Lab) -> None:
        transport = SshTransport(lambda: "secret")
        with fake_server(lab, FakeServer("password")) as port:
            transport.open(lab.node(port=port, identity_file=None))
            transport.close()

    def test_answers_the_one_prompt_of_keyboard_interactive(self, lab: Lab) -> None:
        interface = FakeServer("keyboard-interactive", prompts=[("Password: ", False)])
        with fake_server(lab, interface) as port:
            self.open(lab, port, "secret")
        assert interface.answers == [["secret"]]

    def test_that_is_wrong_is_sent_once(self, lab: Lab) -> None:
        interface = FakeServer("password,keyboard-interactive", prompts=[("Password: ", False)])
        with fake_server(lab, interface) as port, pytest.raises(HostError, match="tried: password;") as caught:
            self.open(lab, port, "wrong")
        assert caught.value.reason == "auth"
        assert interface.asked == ["password"]
        assert "wrong" not in caught.value.message + caught.value.fix
        assert "is the password that of" in caught.value.fix

    def test_may_be_any_bytes(self, lab: Lab) -> None:
        with fake_server(lab, FakeServer("password")) as port, pytest.raises(HostError, match="tried: password;"):
            self.open(lab, port, "\udcff")

    def test_that_is_not_given_is_not_asked_for(self, lab: Lab) -> None:
        interface = FakeServer("password,keyboard-interactive", prompts=[("Password: ", False)])
        with fake_server(lab, interface) as port, pytest.raises(HostError, match="allows: password, keyboard-interact"):
            self.open(lab, port, None)
        assert interface.asked == []

    @pytest.mark.parametrize(
        "prompts",
        [
            [("Verification code: ", False)],
            [("Password: ", False), ("PIN: ", False)],
            [("Your favourite colour? ", True)],
        ],
    )
    def test_is_no_answer_to_another_question(self, lab: Lab, prompts: list[tuple[str, bool]]) -> None:
        interface = FakeServer("keyboard-interactive", prompts=prompts)
        with fake_server(lab, interface) as port, pytest.raises(HostError) as caught:
            self.open(lab, port, "secret")
        assert caught.value.reason == "auth"
        assert prompts[-1][0].strip() in caught.value.message
        assert interface.answers == []

    def test_a_second_factor_after_the_key_is_refused_with_its_text(self, lab: Lab, transport: SshTransport) -> None:
        interface = FakeServer("publickey,second", prompts=[("Code from your phone: ", False)])
        with fake_server(lab, interface) as port, pytest.raises(HostError) as caught:
            transport.open(lab.node(port=port))
        assert "Code from your phone:" in caught.value.message
        assert interface.asked == ["publickey", "keyboard-interactive"]
        assert interface.answers == []

    def test_is_not_logged_or_printed(
        self, lab: Lab, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG")
        interface = FakeServer("keyboard-interactive", prompts=[("Verification code: ", False)])
        with fake_server(lab, interface) as port, pytest.raises(HostError):
            self.open(lab, port, "very secret")
        assert "very secret" not in caplog.text
        assert capfd.readouterr() == ("", "")
