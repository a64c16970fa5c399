"""The loop over a run's nodes, with sessions that answer by script."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ncclrun.commands import leases
from ncclrun.commands.control import Control
from ncclrun.commands.follow import GONE, Follower
from ncclrun.commands.history import RunDir
from ncclrun.commands.logfiles import LogWriter, NoLogs
from ncclrun.commands.member import Member
from ncclrun.diagnosis.lifeline import cut_off
from ncclrun.diagnosis.ncclwatch import NcclWatch
from ncclrun.diagnosis.outcome import first_failure
from ncclrun.model.cluster import Launch, Network, Node, Ssh
from ncclrun.model.errors import HostError
from ncclrun.model.events import Event, Log, RanksMoved, Stopping, Warn
from ncclrun.model.plan import Endpoint
from ncclrun.transport.session import Answer, Session


class Scripted:
    """As much of a session as a follower needs; ``broken``: the link has gone, and nobody was told yet."""

    def __init__(self, broken: bool = False, **refusals: str) -> None:
        self.broken = broken
        self.closed = threading.Event()
        self.hello = {"boot_id": "b"}
        self.last_heard = float("inf")
        self.refusals = refusals
        """Codes of refusals by request, each given once."""
        self.details: dict[str, Any] = {}
        """Of the refusals."""
        self.epoch = 0
        """The last that was claimed."""
        self.asked: list[str] = []
        self.orders: list[tuple[str, int | None]] = []
        """Claims and stops with the epoch that they came with."""
        self.lost: int | None = None
        """Of the last request."""
        self.killed: bool | None = None
        """Whether a sweep was asked to end what it finds."""
        self.followed: Callable[[], None] = lambda: None
        """Called when a request to follow is granted."""
        self.stopped: Callable[[], None] = lambda: None
        self.alive: list[dict[str, Any]] = []
        """What a sweep finds."""
        self.gone = True
        """Whether the supervisor goes when it is let go."""

    def call(self, do: str, **_: Any) -> dict[str, Any]:
        if self.broken:
            raise HostError("lost", "the connection is gone")
        self.asked.append(do)
        return {"gone": self.gone}

    def ask(self, do: str, then: Callable[[Answer], None], **args: Any) -> None:
        if self.broken:
            raise HostError("lost", "the connection is gone")
        self.asked.append(do)
        self.lost = args.get("lost")
        if do in ("claim", "stop"):
            self.orders.append((do, args["epoch"]))
        if do in self.refusals:
            error = {"code": self.refusals.pop(do), "message": f"{do} is refused", "details": self.details}
            then({"ok": False, "error": error})
            return
        if do == "claim":
            self.epoch = args["epoch"] or self.epoch + 1
        if do == "sweep":
            self.killed = args["kill"]
        then({"ok": True, "epoch": self.epoch, "alive": self.alive})
        if do == "follow":
            self.followed()
        if do == "stop":
            self.stopped()

    def close(self) -> None:
        self.closed.set()


def member(rank: int, session: Scripted) -> Member:
    """A node that runs one worker."""
    node = Node(name=f"n{rank}", host=f"n{rank}", ssh=Ssh(), network=Network(), launch=Launch(lease=0))
    kept: Any = session
    opened: Session = kept
    return Member(node, rank, first_rank=rank, nproc=1, grace=1, boot_id="b", clock_offset=0, session=opened)


def test_a_link_that_breaks_under_a_stop_keeps_the_stop_from_nobody_else() -> None:
    sessions = [Scripted(), Scripted(broken=True), Scripted()]
    members = [member(rank, session) for rank, session in enumerate(sessions)]

    def no_way(*_: Any) -> Session:
        raise HostError("timeout", "no answer")

    follower = Follower("r", members, queue.SimpleQueue(), NoLogs(), Control(), no_way, token="t")
    (told,) = follower.stop_all("a rank failed", "term")
    assert isinstance(told, Stopping)
    assert told.nodes == ("n0", "n1", "n2")
    assert [session.asked for session in sessions] == [["stop"], [], ["stop"]]
    assert [m.asked for m in members] == ["term"] * 3


def test_a_host_that_is_given_up_is_told_with_what_kept_us_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ncclrun.commands.member.LEASE", 0.2)
    session = Scripted()
    alone = member(0, session)
    inbox: Any = queue.SimpleQueue()
    inbox.put((0, 0, {"ev": "gone", "reason": "lost"}, b""))

    def no_way(*_: Any) -> Session:
        raise HostError("changed_key", "n0: the host key has changed")

    list(Follower("r", [alone], inbox, NoLogs(), Control(), no_way, token="t").events())
    assert alone.lost is not None
    assert alone.lost.startswith("unreachable for 0 s (the host key has changed")


def never(*_: Any) -> Session:
    raise AssertionError("nobody has to be connected to again")


def test_a_start_that_was_lost_on_its_way_finds_nothing_to_start_when_it_comes_late() -> None:
    session = Scripted(follow="not_started")
    alone = member(0, session)
    list(Follower("r", [alone], queue.SimpleQueue(), NoLogs(), Control(), never, token="t").events())
    assert session.asked == ["follow", "discard", "release"]
    assert alone.refused == "follow is refused"
    ended = alone.ended("exec")
    assert (ended.refused, ended.unreached) == ("follow is refused", True)


def test_a_start_that_comes_while_it_is_taken_back_is_followed() -> None:
    session = Scripted(follow="not_started", discard="started")
    alone = member(0, session)
    inbox: Any = queue.SimpleQueue()
    session.followed = lambda: inbox.put((0, 0, {"ev": "end", "record": {"reason": "finished", "ranks": []}}, b""))
    list(Follower("r", [alone], inbox, NoLogs(), Control(), never, token="t").events())
    assert session.asked == ["follow", "discard", "follow", "release"]
    assert alone.refused is None
    assert alone.record is not None


def test_a_link_that_was_found_for_one_that_broke_again_meanwhile_is_not_taken() -> None:
    """What comes through it bears the older link's number, and would go unheard for ever."""
    alone = member(0, Scripted())
    inbox: Any = queue.SimpleQueue()
    inbox.put((0, 0, {"ev": "gone", "reason": "lost"}, b""))
    late, fresh = Scripted(), Scripted()
    tries = iter((late, fresh))
    second_try = threading.Event()

    def connect(node: Node, sink: Callable[..., None]) -> Any:
        session = next(tries)
        if session is late:
            inbox.put((0, 1, {"ev": "gone", "reason": "lost"}, b""))
            second_try.wait(10)
        else:
            second_try.set()
            late.closed.wait(10)
        session.followed = lambda: sink(node, {"ev": "end", "record": {"reason": "finished", "ranks": []}}, b"")
        return session

    list(Follower("r", [alone], inbox, NoLogs(), Control(), connect, token="t", timeout=20).events())
    assert late.closed.is_set()
    assert not fresh.closed.is_set()
    assert alone.record is not None
    assert alone.asked is None


def test_a_run_that_is_taken_up_without_one_node_waits_for_it_and_then_stops_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ncclrun.commands.member.LEASE", 0.2)
    inbox: Any = queue.SimpleQueue()

    living = Scripted()
    living.stopped = lambda: inbox.put((0, 0, {"ev": "end", "record": {"reason": "stopped", "ranks": []}}, b""))
    members = [member(0, living), member(1, Scripted())]
    members[1].session = None

    def no_way(*_: Any) -> Session:
        raise HostError("timeout", "no answer")

    list(Follower("r", members, inbox, NoLogs(), Control(), no_way, token="t").events())
    assert members[1].lost == "unreachable for 0 s (no answer)"
    assert living.asked == ["follow", "stop", "release"]


def test_a_kill_that_comes_while_a_run_settles_goes_over_the_stop_before_it() -> None:
    session = Scripted()
    follower = Follower(
        "r", [member(0, session)], queue.SimpleQueue(), NoLogs(), Control(), never, token="t", settle=1000
    )
    for reason, how in (("a rank failed", "term"), ("interrupted", "kill"), ("another failed", "term")):
        assert list(follower.stop_all(reason, "kill" if how == "kill" else "term")) == []
    follower._settled = 0.0
    (told,) = follower._watch_held()
    assert isinstance(told, Stopping)
    assert (told.reason, told.how, session.asked) == ("interrupted", "kill", ["stop"])


def followed(*logs: tuple[str, bytes]) -> list[Event]:
    """Whole lines and warnings of a node that is to use eth1 10.0.0.1 and says this."""
    inbox: Any = queue.SimpleQueue()
    offsets: dict[str, int] = {}
    for stream, body in logs:
        offset = offsets.get(stream, 0)
        inbox.put((0, 0, {"ev": "log", "stream": stream, "offset": offset, "time": 1.0}, body))
        offsets[stream] = offset + len(body)
    inbox.put((0, 0, {"ev": "end", "record": {"reason": "finished", "ranks": []}}, b""))
    watch = NcclWatch({0: Endpoint("eth1", "10.0.0.1", "")})
    follower = Follower("r", [member(0, Scripted())], inbox, NoLogs(), Control(), never, token="t", watch=watch)
    told = [event for event in follower.events() if isinstance(event, Log | Warn)]
    return [event for event in told if isinstance(event, Warn) or not event.partial]


def test_what_a_node_does_not_have_any_more_is_told_and_no_line_is_made_of_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = RunDir.create("r")
    writer = LogWriter(run)
    inbox: Any = queue.SimpleQueue()
    head = {"ev": "log", "stream": "0.out", "time": 1.0}
    for offset, missing, body in ((0, 0, b"one\nha"), (9006, 9000, b"rest\n"), (6, 0, b"again"), (9011, 0, b"on\n")):
        inbox.put((0, 0, {**head, "offset": offset, "missing": missing}, body))
    inbox.put((0, 0, {"ev": "end", "record": {"reason": "finished", "ranks": []}}, b""))
    follower = Follower("r", [member(0, Scripted())], inbox, writer, Control(), never, token="t")
    told = [
        event
        for event in follower.events()
        if isinstance(event, Warn) or (isinstance(event, Log) and not event.partial)
    ]
    writer.close()
    texts = [event.text for event in told]
    assert texts[0:2] + texts[3:] == ["one", "ha", "rest", "on"]
    assert texts[2].startswith("8.8 KiB of rank 0's stdout are not kept")
    assert (run.logs / "rank0.out").read_bytes() == b"one\nha" + bytes(9000) + b"rest\non\n"


def test_a_worker_whose_nccl_takes_another_network_is_told_of_behind_its_line_and_once() -> None:
    line = b"gpu1:7:7 [0] NCCL INFO Bootstrap: Using eth0:172.20.0.5<0>\n"
    log, warning, *rest = followed(("0.out", b"hello\n" + line[:30]), ("0.out", line[30:]), ("0.out", line))[1:]
    assert isinstance(log, Log)
    assert log.text == line.decode().rstrip()
    assert isinstance(warning, Warn)
    assert (warning.node, warning.text.partition(":")[0]) == (
        "n0",
        "NCCL uses eth0 (172.20.0.5) here, the plan has eth1 (10.0.0.1)",
    )
    assert not any(isinstance(event, Warn) for event in rest)


@pytest.mark.parametrize(
    ("stream", "line"),
    [
        ("0.err", b"gpu1:7:7 [0] NCCL INFO Bootstrap: Using eth1:10.0.0.1<0>\n"),
        ("launcher.out", b"gpu1:7:7 [0] NCCL INFO Bootstrap: Using eth0:172.20.0.5<0>\n"),
    ],
)
def test_nothing_is_told_of_a_network_as_planned_or_of_what_is_no_workers_word(stream: str, line: bytes) -> None:
    (log,) = followed((stream, line))
    assert isinstance(log, Log)


FINISHED = {"ev": "end", "record": {"reason": "finished", "ranks": []}}
STOPPED = {"ev": "end", "record": {"reason": "stopped", "ranks": []}}
THEIRS = {"epoch": 7, "by": "ann", "host": "desk", "since": 1.7e9}


def test_supervisors_are_let_go_once_all_have_ended_and_one_that_stays_is_told() -> None:
    sessions = [Scripted(), Scripted(), Scripted()]
    inbox: Any = queue.SimpleQueue()

    def ends(rank: int) -> None:
        inbox.put((rank, 0, {"ev": "end", "record": {"reason": "finished", "ranks": []}}, b""))
        sessions[rank].gone = rank != 1
        sessions[rank].broken = rank == 2

    for rank, session in enumerate(sessions):
        session.followed = partial(ends, rank)
    follower = Follower(
        "r", [member(n, one) for n, one in enumerate(sessions)], inbox, NoLogs(), Control(), never, token="t"
    )
    told = [event for event in follower.events() if isinstance(event, Warn)]
    assert [(warning.node, warning.fix) for warning in told] == [("n1", "ncclrun status r")]
    assert [one.asked for one in sessions] == [["follow", "release"], ["follow", "release"], ["follow"]]


class TestWhoGivesOrders:
    """A claim on node 0 gives the number, the others get the same; a later claim of another ends our say."""

    @staticmethod
    def taken_up(sessions: list[Scripted], control: Control, **options: Any) -> tuple[Follower, Any]:
        inbox: Any = queue.SimpleQueue()
        members = [member(rank, session) for rank, session in enumerate(sessions)]
        return Follower("r", members, inbox, NoLogs(), control, never, token="t", **options), inbox

    def test_one_that_takes_a_run_up_claims_it_everywhere_with_one_number_and_orders_with_it(self) -> None:
        sessions = [Scripted(), Scripted(), Scripted()]
        sessions[0].epoch = 4
        control = Control()
        follower, inbox = self.taken_up(sessions, control, claims=True)
        for rank, session in enumerate(sessions):
            session.stopped = partial(inbox.put, (rank, 0, STOPPED, b""))
        control.press()
        list(follower.events())
        assert [session.orders for session in sessions] == [
            [("claim", None), ("stop", 5)],
            [("claim", 5), ("stop", 5)],
            [("claim", 5), ("stop", 5)],
        ]

    def test_who_started_it_needs_no_claim(self) -> None:
        session = Scripted()
        control = Control()
        follower, inbox = self.taken_up([session], control)
        session.stopped = partial(inbox.put, (0, 0, STOPPED, b""))
        control.press()
        list(follower.events())
        assert session.orders == [("stop", 0)]

    def test_the_number_comes_from_the_next_node_where_the_first_is_lost_before_it_said_one(self) -> None:
        sessions = [Scripted(), Scripted()]
        follower, inbox = self.taken_up(sessions, Control(), claims=True)
        follower.members[0].session = None
        follower.members[0].lost = "gone"
        inbox.put((1, 0, FINISHED, b""))
        list(follower.events())
        assert [session.orders for session in sessions] == [[], [("claim", None)]]

    def test_a_node_that_can_not_keep_a_claim_is_stopped_all_the_same(self) -> None:
        sessions = [Scripted(claim="internal"), Scripted(claim="internal")]
        control = Control()
        follower, inbox = self.taken_up(sessions, control, claims=True)
        for rank, session in enumerate(sessions):
            session.stopped = partial(inbox.put, (rank, 0, STOPPED, b""))
        control.press()
        list(follower.events())
        assert [session.orders for session in sessions] == [[("claim", None), ("stop", 0)]] * 2

    def test_one_whose_run_another_took_over_says_who_and_stops_nobody_and_reads_on(self) -> None:
        sessions = [Scripted(stop="superseded"), Scripted(stop="superseded")]
        for session in sessions:
            session.details = THEIRS
        follower, inbox = self.taken_up(sessions, Control(), timeout=0.01)
        told: list[Event] = []
        for event in follower.events():
            told.append(event)
            if isinstance(event, Warn):
                for rank in (0, 1):
                    inbox.put((rank, 0, FINISHED, b""))
        (warning,) = (event for event in told if isinstance(event, Warn))
        assert warning.text.startswith("ann@desk has taken the run over at ")
        assert [one.asked for one in follower.members] == [None, None]
        assert follower.stopped_by == ""
        assert all(one.record for one in follower.members)
        assert [session.orders for session in sessions] == [[("stop", 0)]] * 2

    def test_the_users_own_stop_goes_over_the_claim_of_another(self) -> None:
        session = Scripted(stop="superseded")
        session.details = THEIRS
        control = Control()
        follower, inbox = self.taken_up([session], control)
        session.stopped = partial(inbox.put, (0, 0, STOPPED, b""))
        control.press()
        list(follower.events())
        assert session.orders == [("stop", 0), ("claim", 8), ("stop", 8)]

    def test_one_that_was_told_of_another_before_claims_anew_when_the_user_stops(self) -> None:
        session = Scripted(stop="superseded")
        session.details = THEIRS
        control = Control()
        follower, inbox = self.taken_up([session], control, timeout=0.01)
        session.stopped = partial(inbox.put, (0, 0, STOPPED, b""))
        for event in follower.events():
            if isinstance(event, Warn):
                control.press()
        assert session.orders == [("stop", 0), ("claim", 8), ("stop", 8)]


class TestUnreachableFromHereAlone:
    """What the other nodes hear is not lost."""

    @staticmethod
    def events(monkeypatch: pytest.MonkeyPatch, peers: dict[str, float | None]) -> tuple[list[Event], Scripted]:
        """Node 1 is out of our reach, and node 0 says this of it, and nothing any more once we were warned."""
        monkeypatch.setattr("ncclrun.commands.member.LEASE", 0.5)
        inbox: Any = queue.SimpleQueue()
        living = Scripted()
        living.stopped = lambda: inbox.put((0, 0, STOPPED, b""))
        members = [member(0, living), member(1, Scripted())]
        members[1].session = None

        def no_way(*_: Any) -> Session:
            raise HostError("timeout", "no answer")

        inbox.put((0, 0, {"ev": "state", "state": "running", "time": 1.0, "reason": "", "peers": peers}, b""))
        told = []
        for event in Follower("r", members, inbox, NoLogs(), Control(), no_way, token="t").events():
            told.append(event)
            if isinstance(event, Warn):
                inbox.put((0, 0, {"ev": "state", "state": "running", "time": 2.0, "reason": "", "peers": {}}, b""))
        return told, living

    @pytest.mark.parametrize("silent", [0.2, None], ids=["heard a moment ago", "has said its end"])
    def test_it_is_told_and_the_run_goes_on(self, monkeypatch: pytest.MonkeyPatch, silent: float | None) -> None:
        told, living = self.events(monkeypatch, {"1": silent})
        kinds = [type(event) for event in told if isinstance(event, Warn | Stopping)]
        assert kinds == [Warn, Stopping]  # stopped only when the peers did not hear it any more
        (warning,) = (event for event in told if isinstance(event, Warn))
        assert warning.node == "n1"
        assert "the other nodes hear it: the run goes on" in warning.text
        assert living.asked == ["follow", "stop", "release"]

    def test_what_they_do_not_hear_either_is_lost(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told, _ = self.events(monkeypatch, {"1": 0.6})
        assert [type(event) for event in told if isinstance(event, Warn | Stopping)] == [Stopping]


@pytest.mark.parametrize("settle", [0.0, 0.5], ids=["who started it", "who has just taken it up"])
def test_one_that_the_others_do_not_hear_stops_the_run_for_all_and_the_nodes_are_told_whose_fault(
    monkeypatch: pytest.MonkeyPatch, settle: float
) -> None:
    monkeypatch.setattr("ncclrun.commands.member.LEASE", 5.0)
    inbox: Any = queue.SimpleQueue()
    sessions = [Scripted(), Scripted()]
    for rank, session in enumerate(sessions):
        session.stopped = partial(inbox.put, (rank, 0, STOPPED, b""))
    members = [member(rank, session) for rank, session in enumerate(sessions)]
    for rank, (peers, halted) in enumerate((({"1": 6.5}, False), ({"0": 0.2}, True))):
        state = {"ev": "state", "state": "running", "reason": "", "peers": peers, "halted": halted}
        inbox.put((rank, 0, state, b""))
    told = list(Follower("r", members, inbox, NoLogs(), Control(), never, token="t", settle=settle).events())
    (stopping,) = (event for event in told if isinstance(event, Stopping))
    assert stopping.reason.startswith("n1 is lost: its supervisor is halted by a signal (process state T)")
    assert stopping.nodes == ("n0", "n1")
    assert [session.lost for session in sessions] == [1, 1]


@pytest.mark.parametrize(
    ("quiet_for", "why"),
    [
        (1.0, "its supervisor hangs: its host answers ncclrun, but the other nodes do not hear it"),
        (5.0, "the other nodes do not hear it, and its host does not answer ncclrun"),
    ],
    ids=["a supervisor", "a host"],
)
def test_what_hangs_is_told_by_who_was_heard_lately(quiet_for: float, why: str) -> None:
    sessions = [Scripted(), Scripted()]
    sessions[1].last_heard = time.monotonic() - quiet_for
    members = [member(rank, session) for rank, session in enumerate(sessions)]
    members[0].hears = {1: 6.5}
    found = cut_off([one.teller() for one in members], 5.0)
    assert found is not None
    assert (found.node_rank, found.why) == (1, why)


def two_whose_links_break(monkeypatch: pytest.MonkeyPatch, lease: float, deaf: float) -> tuple[list[Member], Any]:
    """Members and the inbox in which both are gone; ``deaf``: seconds until it is not our own network any more."""
    monkeypatch.setattr("ncclrun.commands.member.LEASE", lease)
    monkeypatch.setattr(leases, "DEAF", deaf)
    inbox: Any = queue.SimpleQueue()
    members = [member(0, Scripted()), member(1, Scripted())]
    for rank in (0, 1):
        inbox.put((rank, 0, {"ev": "gone", "reason": "lost"}, b""))
    return members, inbox


def test_while_none_of_several_nodes_answers_nobody_is_lost_and_then_each_has_its_lease_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    members, inbox = two_whose_links_break(monkeypatch, lease=1.0, deaf=60.0)
    told_deaf = threading.Event()

    def connect(node: Node, sink: Callable[..., None]) -> Any:
        if not told_deaf.wait(10):
            raise HostError("timeout", "no answer")
        session = Scripted()
        session.followed = lambda: sink(node, FINISHED, b"")
        return session

    told: list[Event] = []
    for event in Follower("r", members, inbox, NoLogs(), Control(), connect, token="t").events():
        told.append(event)
        if isinstance(event, Warn):
            told_deaf.set()
    (warning,) = (event for event in told if isinstance(event, Warn))
    assert warning.text.startswith("no node answers since ")
    assert not any(isinstance(event, Stopping) for event in told)
    assert all(one.record for one in members)


def test_nodes_that_never_answer_again_are_lost_after_all(monkeypatch: pytest.MonkeyPatch) -> None:
    members, inbox = two_whose_links_break(monkeypatch, lease=0.2, deaf=0.5)

    def no_way(*_: Any) -> Session:
        raise HostError("timeout", "no answer")

    list(Follower("r", members, inbox, NoLogs(), Control(), no_way, token="t").events())
    assert [(one.lost or "")[:16] for one in members] == ["unreachable for "] * 2


class TestLeaving:
    """`launch --detach` leaves a run that has begun well."""

    @staticmethod
    def left(record: dict[str, Any] | None) -> tuple[Control, list[Event]]:
        inbox: Any = queue.SimpleQueue()
        sessions = [Scripted(), Scripted()]
        for rank, session in enumerate(sessions):
            session.stopped = partial(inbox.put, (rank, 0, STOPPED, b""))
        if record is not None:
            inbox.put((0, 0, {"ev": "end", "record": record}, b""))
        control = Control()
        members = [member(rank, session) for rank, session in enumerate(sessions)]
        follower = Follower("r", members, inbox, NoLogs(), control, never, token="t", leave_after=0.3)
        return control, list(follower.events())

    def test_it_is_left_after_that_time(self) -> None:
        control, told = self.left(None)
        assert control.detach
        assert not any(isinstance(event, Stopping) for event in told)

    def test_a_node_that_has_done_its_part_already_keeps_nobody(self) -> None:
        control, told = self.left({"reason": "finished", "ranks": []})
        assert control.detach
        assert not any(isinstance(event, Stopping) for event in told)

    def test_one_that_fails_at_once_is_seen_to_its_end(self) -> None:
        control, told = self.left({"reason": "failed", "ranks": []})
        assert not control.detach
        assert any(isinstance(event, Stopping) for event in told)


class TestRanks:
    """Which ranks a node's workers have is for torchrun to say; what was printed under a name keeps it."""

    @staticmethod
    def told(*frames: tuple[dict[str, Any], bytes]) -> tuple[Member, list[Event]]:
        inbox: Any = queue.SimpleQueue()
        for header, body in (*frames, ({"ev": "end", "record": {"reason": "finished", "ranks": []}}, b"")):
            inbox.put((0, 0, header, body))
        alone = member(0, Scripted())
        follower = Follower("r", [alone], inbox, NoLogs(), Control(), never, token="t")
        return alone, list(follower.events())

    @staticmethod
    def state(first_rank: int | None) -> tuple[dict[str, Any], bytes]:
        return {"ev": "state", "state": "running", "reason": "", "first_rank": first_rank}, b""

    LINE = ({"ev": "log", "stream": "0.out", "offset": 0, "time": 1.0}, b"hello\n")

    def test_others_than_planned_are_told_and_shown(self) -> None:
        alone, events = self.told(self.state(None), self.state(3), self.LINE)
        assert alone.first_rank == 3
        (moved,) = (event for event in events if isinstance(event, RanksMoved))
        assert (moved.node, moved.node_rank, moved.first_rank) == ("n0", 0, 3)
        assert [event.rank for event in events if isinstance(event, Log)] == [3]

    def test_as_planned_there_is_nothing_to_say(self) -> None:
        _, events = self.told(self.state(0), self.LINE)
        assert not any(isinstance(event, RanksMoved | Warn) for event in events)

    def test_ranks_that_move_later_are_a_warning_once(self) -> None:
        alone, events = self.told(self.state(0), self.LINE, self.state(3), self.state(3))
        assert alone.first_rank == 0
        (warning,) = (event for event in events if isinstance(event, Warn))
        assert "torchrun has numbered its workers anew, from 3 on" in warning.text


@pytest.mark.parametrize(("reason", "lost"), [("failed", None), ("lost", "the host was rebooted")])
def test_a_host_that_was_restarted_is_lost_only_if_the_run_had_not_ended_there(reason: str, lost: str | None) -> None:
    inbox: Any = queue.SimpleQueue()
    session = Scripted()
    session.followed = lambda: inbox.put((0, 0, {"ev": "end", "record": {"reason": reason, "ranks": []}}, b""))
    alone = member(0, session)
    alone.rebooted = True
    list(Follower("r", [alone], inbox, NoLogs(), Control(), never, token="t").events())
    assert (alone.lost, alone.record is None) == (lost, lost is not None)


def test_a_node_that_can_write_no_end_is_not_waited_for() -> None:
    inbox: Any = queue.SimpleQueue()
    session = Scripted()
    trouble = {"ev": "trouble", "ok": False, "error": {"code": "io_error", "message": "no space left"}}
    session.followed = lambda: inbox.put((0, 0, trouble, b""))
    alone = member(0, session)
    list(Follower("r", [alone], inbox, NoLogs(), Control(), never, token="t").events())
    assert alone.lost == "its end can't be written: no space left"


class TestAHostThatKnowsNothingOfTheRun:
    """Its directory was removed there, and its supervisor is dead."""

    def met(self, *alive: dict[str, Any], stop: bool = False) -> tuple[Member, Scripted]:
        session = Scripted(follow="unknown_run")
        session.alive = list(alive)
        alone = member(0, session)
        follower = Follower("r", [alone], queue.SimpleQueue(), NoLogs(), Control(), never, token="t", settle=0.1)
        if stop:
            list(follower.stop_for_user("ncclrun stop", "term"))
        list(follower.events())
        return alone, session

    def test_and_has_no_process_of_it_is_confirmed_to_be_rid_of_it(self) -> None:
        alone, session = self.met()
        assert session.killed is False
        (row,) = first_failure([alone.ended("exec")]).nodes
        assert (row.state, row.confirmed, row.detail) == ("gone", True, GONE)

    def test_and_has_processes_of_it_is_not(self) -> None:
        alone, _ = self.met({"pid": 7, "command": "python t.py"})
        (row,) = first_failure([alone.ended("exec")]).nodes
        assert (row.state, row.confirmed) == ("unknown", False)
        assert "7 python t.py" in row.detail

    def test_is_rid_of_them_when_the_run_is_to_be_stopped(self) -> None:
        _, session = self.met(stop=True)
        assert session.killed is True
