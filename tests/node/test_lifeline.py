"""The supervisors' own link, over real sockets and a clock of the test's: who is believed, what silence does."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Iterator
from unittest import mock

import pytest
from pydantic import ValidationError

from ncclrun.model.cluster import Launch
from ncclrun.node import awake
from ncclrun.node.caller import Caller
from ncclrun.node.hub import Hub
from ncclrun.node.lifeline import BEAT_SECONDS, LINGER_SECONDS, Account, Lifeline, Stop, Terms, terms
from ncclrun.node.line import Broken, Line
from ncclrun.node.listener import open_port
from ncclrun.node.refusal import Refusal

TOKEN = "the-token-of-this-run"
LEASE = 30.0
RUNNING = Account("running", False, "")
FAILED = Account("stopping", True, "rank 5 failed (exit code 1)")
FINISHED = Account("ended", False, "")


class Net:
    """Node 0 and its callers on one selector; each node's account and what it was told to do are the test's to see."""

    def __init__(self, count: int = 3) -> None:
        self.selector = selectors.DefaultSelector()
        self.now = 0.0
        self.controller = 0.0
        port = open_port("127.0.0.1", 0)
        number = port.getsockname()[1]
        self.terms = Terms("127.0.0.1", number, LEASE, "127.0.0.1", [f"gpu{n}" for n in range(count)])
        self.ends: dict[int, Lifeline] = {0: Hub(self.selector, port, TOKEN, self.terms)}
        self.ends |= {rank: Caller(self.selector, TOKEN, rank, self.terms) for rank in range(1, count)}
        self.said = dict.fromkeys(self.ends, RUNNING)
        self.told: dict[int, list[Stop]] = {rank: [] for rank in self.ends}
        self.left: set[int] = set()

    def turn(self) -> None:
        """One turn of every supervisor's loop: what came is read, then each says and judges."""
        for key, _ in self.selector.select(0.002):
            if self.selector.get_map().get(key.fd) is key:
                key.data()
        for rank, end in self.ends.items():
            mine = self.said[rank]
            if mine.state == "ended":
                if rank not in self.left and end.leave(mine, self.now, self.controller):
                    self.left.add(rank)
            elif (stop := end.turn(mine, self.now, self.controller)) is not None:
                self.told[rank].append(stop)
                self.said[rank] = Account("stopping", mine.failed, mine.reason or stop.reason, None if rank else stop)

    def until(self, true: Callable[[], object]) -> None:
        """Turns until it is so, the clock going on by a fifth of a second each time."""
        for _ in range(400):
            if true():
                return
            self.now += 0.2
            self.turn()
        raise AssertionError("it did not come about")

    def linked(self) -> None:
        """Until node 0 hears all."""
        self.until(lambda: set(self.heard()) == set(self.ends) - {0})

    def heard(self) -> dict[int, float | None]:
        """What node 0 knows of the others' silence."""
        return self.ends[0].peers(self.now) or {}

    def line_of(self, rank: int) -> Line:
        """A caller's connection."""
        caller = self.ends[rank]
        assert isinstance(caller, Caller)
        assert caller._line is not None
        return caller._line

    def die(self, rank: int) -> None:
        """A supervisor's end without a word: the kernel closes its sockets."""
        line = self.line_of(rank)
        line.lines()  # what is left unread makes it a reset
        self.selector.unregister(line.sock)
        line.sock.close()
        del self.ends[rank]

    def close(self) -> None:
        """All sockets."""
        for key in list(self.selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self.selector.close()


@pytest.fixture
def net() -> Iterator[Net]:
    """Three nodes that hear each other."""
    net = Net()
    net.linked()
    yield net
    net.close()


def test_a_failure_reaches_every_other_node_with_its_origin(net: Net) -> None:
    net.said[2] = FAILED
    net.until(lambda: net.told[1])
    assert net.told[0] == net.told[1] == [Stop("term", None, FAILED.reason, 2)]
    before = net.now
    net.said[1] = net.said[1]._replace(state="ended")
    net.until(lambda: 1 in net.left)
    assert net.now - before < LINGER_SECONDS


def test_a_stop_that_a_controller_gave_to_another_node_first_is_no_fault_of_that_node(net: Net) -> None:
    asked = Stop("term", None, "the data link is cut", 1, lost=True)
    net.said[2] = Account("stopping", False, asked.reason, asked)
    net.until(lambda: net.told[0])
    assert net.told[0] == [asked]


def test_a_kill_goes_over_a_stop_and_each_is_told_once(net: Net) -> None:
    net.said[0] = Account("stopping", False, "a stop was asked for", Stop("term", 7.0, "a stop was asked for", None))
    net.until(lambda: net.told[1] and net.told[2])
    net.said[0] = net.said[0]._replace(stop=Stop("kill", 0.0, "a stop was asked for", None))
    net.until(lambda: len(net.told[1]) + len(net.told[2]) >= 4)
    net.until(lambda: net.now > 20)
    assert [stop.how for stop in net.told[1]] == ["term", "kill"]
    assert net.told[1][0].grace == 7.0


def test_a_supervisor_that_dies_is_known_to_be_gone_at_once(net: Net) -> None:
    net.die(2)
    before = net.now
    net.until(lambda: net.told[1])
    assert net.told[0] == [Stop("term", None, "its supervisor is gone", 2, lost=True)]
    assert net.now - before < LEASE / 2


def test_node_0s_death_is_known_at_once_too(net: Net) -> None:
    hub = net.ends.pop(0)
    assert isinstance(hub, Hub)
    for line in list(hub._callers):
        hub._forget(line)
        line.sock.close()
    net.until(lambda: net.told[1] and net.told[2])
    assert net.told[1] == [Stop("term", None, "its supervisor is gone", 0, lost=True)]


def test_a_line_that_is_reset_comes_again_and_nothing_stops(net: Net) -> None:
    old = net.line_of(1)
    net.selector.unregister(old.sock)
    old.drop()
    caller = net.ends[1]
    assert isinstance(caller, Caller)
    caller._line = None
    net.until(lambda: (caller._line is not None and caller._line.proven) and (net.heard()[1] or 0) < 1)
    net.until(lambda: net.now > 2 * LEASE)
    assert net.told == {0: [], 1: [], 2: []}


class TestSilence:
    def quiet(self, net: Net, seconds: float) -> None:
        """Node 2 hangs: its sockets stay open."""
        del net.ends[2]
        until = net.now + seconds
        net.until(lambda: net.now > until)

    def test_longer_than_the_lease_stops_all(self, net: Net) -> None:
        self.quiet(net, LEASE + 2)
        (stop,) = net.told[0]
        assert (stop.origin, stop.lost) == (2, True)
        assert stop.reason.startswith("silent for 30 s (since ")
        assert stop.reason.endswith(" UTC), and no ncclrun is there")
        assert net.told[1] == [stop]

    def test_is_left_to_a_controller_that_is_there(self, net: Net) -> None:
        net.controller = 1e9
        self.quiet(net, LEASE + 2)
        assert net.told[0] == net.told[1] == []

    def test_within_the_lease_is_nothing(self, net: Net) -> None:
        self.quiet(net, LEASE - 3)
        assert net.told[0] == net.told[1] == []
        assert (net.heard()[2] or 0) > LEASE - 5

    def test_of_node_0_has_each_node_stop_itself(self, net: Net) -> None:
        del net.ends[0]
        net.until(lambda: net.told[1] and net.told[2])
        assert net.told[1][0].origin == 0
        assert net.told[1][0].reason == "no word from it and from no controller for 30 s"

    def test_from_the_very_start_counts_too(self) -> None:
        net = Net()
        del net.ends[0]
        net.until(lambda: net.told[1])
        assert net.now > LEASE
        net.close()


class TestAnEnd:
    def test_that_is_good_stops_nobody_and_is_heard_before_one_leaves(self, net: Net) -> None:
        net.said[1] = FINISHED
        net.until(lambda: 1 in net.left)
        net.until(lambda: net.now > LEASE * 1.2)
        assert net.told == {0: [], 1: [], 2: []}
        assert net.heard() == {1: None, 2: pytest.approx(0, abs=3)}

    def test_of_node_0_waits_for_the_others_and_tells_of_a_failure_meanwhile(self, net: Net) -> None:
        net.said[0] = FINISHED
        net.until(lambda: net.now > LEASE * 1.2)
        assert net.left == set()
        net.said[2] = FAILED
        net.until(lambda: net.told[1])
        net.said[1] = net.said[2] = FAILED._replace(state="ended")
        net.until(lambda: net.left == {0, 1, 2})
        assert net.told[1] == [Stop("term", None, FAILED.reason, 2)]

    def test_before_the_first_word_was_heard_is_acknowledged_too(self) -> None:
        net = Net()
        net.said[1] = FINISHED
        net.until(lambda: 1 in net.left)
        assert net.now < LINGER_SECONDS
        net.close()

    @pytest.mark.parametrize("rank", [0, 1])
    def test_that_a_controller_has_heard_needs_nobody_else_to_hear_it(self, net: Net, rank: int) -> None:
        del net.ends[2 if rank == 0 else 0]  # it hangs: by itself one would wait for it
        assert not net.ends[rank].leave(FINISHED, net.now, net.controller)
        assert net.ends[rank].leave(FINISHED, net.now, net.controller, released=True)

    def test_of_all_is_over_at_once(self, net: Net) -> None:
        before = net.now
        net.said = dict.fromkeys(net.said, FINISHED)
        net.until(lambda: net.left == {0, 1, 2})
        assert net.now - before < LINGER_SECONDS


class TestAStranger:
    def test_without_the_token_says_nothing_that_counts(self, net: Net) -> None:
        stranger = Line(socket.create_connection(("127.0.0.1", net.terms.port)), "another token")
        stranger.call(2)
        net.until(lambda: net.now > 3)
        stranger.sock.settimeout(5)
        stranger.take_challenge(stranger.lines()[0])
        stranger.say(FAILED.as_json())
        net.until(lambda: net.now > 5)
        with pytest.raises(Broken):
            stranger.lines()
        stranger.close()
        assert net.told == {0: [], 1: [], 2: []}

    def test_who_repeats_a_line_is_not_believed(self) -> None:
        ours, theirs = socket.socketpair()
        caller, node0 = Line(ours, TOKEN), Line(theirs, TOKEN)
        caller.call(3)
        assert node0.answer(node0.lines()[0]) == 3
        caller.take_challenge(caller.lines()[0])
        caller.say({"a": 1})
        (line,) = node0.lines()
        assert node0.open(line) == {"a": 1}
        with pytest.raises(Broken):
            node0.open(line)
        caller.close()
        node0.close()

    def test_who_changes_a_line_is_not_believed(self) -> None:
        ours, theirs = socket.socketpair()
        caller, node0 = Line(ours, TOKEN), Line(theirs, TOKEN)
        caller.call(3)
        node0.answer(node0.lines()[0])
        caller.take_challenge(caller.lines()[0])
        node0.say(RUNNING.as_json())
        (line,) = caller.lines()
        with pytest.raises(Broken):
            caller.open(line.replace(b"running", b"stopping"))
        caller.close()
        node0.close()

    @pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\n\r\n", b"life x y\n", b"\xff" * 20000, b"\n"])
    def test_who_speaks_something_else_is_hung_up_on(self, net: Net, noise: bytes) -> None:
        with socket.create_connection(("127.0.0.1", net.terms.port)) as stranger:
            stranger.sendall(noise)
            net.until(lambda: net.now > 15)
            stranger.settimeout(5)
            with pytest.raises(ConnectionResetError):
                while stranger.recv(100):
                    pass
        assert net.told == {0: [], 1: [], 2: []}


def test_a_clock_that_slept_holds_it_against_nobody() -> None:
    with mock.patch("time.monotonic", side_effect=[100.0, 101.0, 1101.0, 1102.0]):
        clock = awake.Clock()
        assert [clock.tick() for _ in range(3)] == [1.0, 1.0 + awake.MOST_STEP, 2.0 + awake.MOST_STEP]


def test_one_that_slept_has_slept_less_than_the_least_lease_after_the_last_beat() -> None:
    Launch(lease=3)
    with pytest.raises(ValidationError):
        Launch(lease=2.9)
    assert awake.MOST_STEP + BEAT_SECONDS < 3


class TestARequest:
    ASKED = {"address": "10.0.0.1", "port": 20001, "lease": 30, "source": "10.0.0.2", "hosts": ["a", "b"]}  # noqa: RUF012  # read only

    def test_for_one_node_or_without_a_lease_is_for_none(self) -> None:
        assert terms({}) is None
        assert terms({"lifeline": {**self.ASKED, "hosts": ["a"]}}) is None
        assert terms({"lifeline": {**self.ASKED, "lease": 0}}) is None
        assert terms({"lifeline": self.ASKED}) == Terms("10.0.0.1", 20001, 30.0, "10.0.0.2", ["a", "b"])

    def test_of_the_wrong_form_is_refused(self) -> None:
        with pytest.raises(Refusal, match="lifeline must be"):
            terms({"lifeline": {"address": "10.0.0.1"}})
