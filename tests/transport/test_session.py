"""The conversation with a node: the start over strange shells, requests, events, and every way in which it can end."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ncclrun.model.cluster import Launch, Network, Node, Ssh
from ncclrun.model.errors import HostError, NodeRefused
from ncclrun.node.wire import encode
from ncclrun.transport import pulse
from ncclrun.transport.fake import FakeChannel, FakeNode
from ncclrun.transport.local import LocalTransport
from ncclrun.transport.session import Session
from ncclrun.transport.ssh import SshTransport
from tests.transport.servers import Lab

pytestmark = pytest.mark.usefixtures("standin")

SOME_NODE = Node(name="n", host="localhost", ssh=Ssh(), network=Network(), launch=Launch())


class Inbox:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[tuple[dict[str, Any], bytes]] = queue.SimpleQueue()

    def __call__(self, node: Node, header: dict[str, Any], body: bytes) -> None:
        self.events.put((header, body))

    def next(self, seconds: float = 30.0) -> tuple[dict[str, Any], bytes]:
        """The next event."""
        return self.events.get(timeout=seconds)


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def here(inbox: Inbox) -> Iterator[Session]:
    """A session with this machine."""
    transport = LocalTransport()
    yield Session.open(SOME_NODE, transport.open(SOME_NODE), inbox)
    transport.close()


class TestARequest:
    def test_is_answered(self, here: Session) -> None:
        assert here.call("echo", text="grüße\n$(x)\ud800")["said"] == "grüße\n$(x)\ud800"
        assert here.hello["protocol"] == 1

    def test_may_be_under_way_with_others(self, here: Session) -> None:
        with ThreadPoolExecutor(8) as pool:
            said = list(pool.map(lambda i: here.call("echo", text=i)["said"], range(200)))
        assert said == list(range(200))

    def test_that_is_refused_raises_the_nodes_words(self, here: Session) -> None:
        with pytest.raises(NodeRefused, match="what is dance") as caught:
            here.call("dance")
        assert (caught.value.code, caught.value.fix) == ("unknown", "ask less")

    def test_without_an_answer_in_time_is_a_timeout(self, here: Session) -> None:
        with pytest.raises(HostError, match="no answer to `hush`") as caught:
            here.call("hush", timeout=0.1, seconds=1)
        assert caught.value.reason == "timeout"
        assert here.call("echo", text="still here")["said"] == "still here"

    def test_after_the_end_says_lost(self, here: Session) -> None:
        here.close()
        with pytest.raises(HostError, match="closed here") as caught:
            here.call("echo", text="")
        assert caught.value.reason == "lost"

    def test_that_ends_the_node_says_lost_at_once(self, here: Session, inbox: Inbox) -> None:
        with pytest.raises(HostError) as caught:
            here.call("exit", timeout=60)
        assert caught.value.reason == "lost"
        event, _ = inbox.next()
        assert (event["ev"], event["reason"]) == ("gone", "lost")
        assert event["detail"] == "the node part ended with status 5: something broke"
        with pytest.raises(
            HostError, match="the connection is gone: the node part ended with status 5: something broke"
        ):
            here.call("echo", text="")


class TestASession:
    def test_passes_events_on_in_order(self, here: Session, inbox: Inbox) -> None:
        here.call("events", count=50)
        for number in range(50):
            assert inbox.next() == ({"ev": "log", "offset": number}, b"x" * number)

    def test_tells_the_clocks_difference(self, here: Session) -> None:
        offset, trip = here.clock()
        assert abs(offset - 100) <= trip / 2 + 0.1
        assert trip > 0

    def test_sends_code_in_pieces(self, here: Session) -> None:
        pieces = [b"a" * 700_000, b"", b"b"]
        here.send_code(iter(pieces), "0" * 64)
        assert here.call("put", body=b"", sha256="0" * 64, last=True)["stored"] == 700_001

    def test_ends_with_one_gone(self, here: Session, inbox: Inbox) -> None:
        here.close()
        here.close()
        assert inbox.next()[0] == {"ev": "gone", "reason": "closed", "detail": ""}
        assert inbox.events.empty()

    def test_ends_when_what_comes_is_no_frame(self, here: Session, inbox: Inbox) -> None:
        here.post("nonsense")
        event, _ = inbox.next()
        assert event["reason"] == "lost"
        assert "no frame" in event["detail"]


class TestTheStart:
    @pytest.fixture
    def node_behind(self, lab: Lab) -> Any:
        """Makes a node whose sshd runs a command of the test's in place of what it is asked for."""
        return lambda command, **ssh: lab.node(lab.server(options=[f"ForceCommand {command}"]), **ssh)

    def start(self, transport: SshTransport, node: Node, timeout: float = 30) -> Session:
        return Session.open(node, transport.open(node), Inbox(), timeout)

    def test_works_over_ssh(self, lab: Lab, transport: SshTransport) -> None:
        session = self.start(transport, lab.node(lab.server()))
        assert session.call("echo", text="x")["said"] == "x"
        session.close()

    @pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish", "csh", "tcsh"])
    def test_works_under_any_login_shell(self, transport: SshTransport, node_behind: Any, shell: str) -> None:
        if not (path := shutil.which(shell)):
            pytest.skip(f"{shell} is not installed")
        session = self.start(transport, node_behind(f'exec {path} -c "$SSH_ORIGINAL_COMMAND"'))
        assert session.call("echo", text=shell)["said"] == shell
        session.close()

    def test_skips_what_a_talkative_shell_prints(self, transport: SshTransport, node_behind: Any) -> None:
        noise = "seq 20000; printf 'ncclrun: shell\\377 ready? Welcome'; seq 100 >&2"
        session = self.start(transport, node_behind(f'{noise}; eval "$SSH_ORIGINAL_COMMAND"'))
        assert session.call("echo", text="x")["said"] == "x"
        session.close()

    @pytest.mark.parametrize(
        ("command", "printed"),
        [
            ("/usr/sbin/nologin", "This account is currently not available"),
            ("echo backup done", "backup done"),
            ("rbash -c 'exec /bin/sh'", "restricted"),
        ],
    )
    def test_without_a_shell_says_what_was_printed(
        self, transport: SshTransport, node_behind: Any, command: str, printed: str
    ) -> None:
        with pytest.raises(HostError) as caught:
            self.start(transport, node_behind(command))
        assert caught.value.reason == "shell"
        assert printed in caught.value.message
        assert "login shell" in caught.value.fix

    def test_that_hangs_ends_in_time(self, transport: SshTransport, node_behind: Any) -> None:
        with pytest.raises(HostError) as caught:
            self.start(transport, node_behind("echo please wait; exec sleep 1000"), timeout=1)
        assert caught.value.reason == "timeout"
        assert "please wait" in caught.value.message

    def test_against_an_echo_is_no_session(self, transport: SshTransport, node_behind: Any) -> None:
        with pytest.raises(HostError) as caught:
            self.start(transport, node_behind("cat"), timeout=1)
        assert caught.value.reason == "timeout"

    @pytest.mark.parametrize(
        ("answer", "reason", "text"),
        [
            (b"no-python python3 /opt/x\n", "no_python", "tried: python3 /opt/x"),
            (b"sorry\n", "protocol", "'sorry' instead of frames"),
            (b"frames\n" + encode({"ev": "hello", "protocol": 99}), "protocol", "speaks protocol 99, and we speak 1"),
            (b"frames\n" + b"\xff" * 64, "protocol", "no frame"),
        ],
    )
    def test_with_another_answer_says_which(self, answer: bytes, reason: str, text: str) -> None:
        class Odd(FakeChannel):
            def _boot(self) -> None:
                self.push(self._input.partition(b"\n")[0] + b" " + answer)

        with pytest.raises(HostError) as caught:
            Session.open(SOME_NODE, Odd(FakeNode()), Inbox())
        assert caught.value.reason == reason
        assert text in caught.value.message


class TestALinkThatBreaks:
    def test_is_noticed_when_the_server_is_stopped(
        self, lab: Lab, transport: SshTransport, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pulse, "BEAT_SECONDS", 0.2)
        monkeypatch.setattr(pulse, "SILENCE_SECONDS", 2.0)
        monkeypatch.setattr(pulse, "_PULSE", pulse.Pulse())
        server, inbox = lab.server(), Inbox()
        node = lab.node(server)
        session = Session.open(node, transport.open(node), inbox)
        time.sleep(3)
        assert not session.gone
        stopped = server.sessions()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(HostError, match="nothing was heard") as caught:
                session.call("echo", timeout=60, text="x")
            assert caught.value.fix.startswith(f"see whether it is up and answers:  ssh {node.host} ")
            assert inbox.next()[0]["reason"] == "silent"
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)

    def test_by_the_end_of_the_server_is_lost(self, lab: Lab, transport: SshTransport) -> None:
        server, inbox = lab.server(), Inbox()
        node = lab.node(server)
        session = Session.open(node, transport.open(node), inbox)
        server.stop()
        assert inbox.next()[0]["reason"] == "lost"
        with pytest.raises(HostError):
            session.post("echo", text="x")
