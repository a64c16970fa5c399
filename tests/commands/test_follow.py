"""The loop over a run's nodes, with sessions that answer by script."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ncclrun.commands import follow
from ncclrun.commands.control import Control
from ncclrun.commands.follow import Follower, Member
from ncclrun.commands.history import NoLogs
from ncclrun.diagnosis.ncclwatch import NcclWatch
from ncclrun.model.cluster import Launch, Network, Node, Ssh
from ncclrun.model.errors import HostError
from ncclrun.model.events import Event, Log, Stopping, Warn
from ncclrun.model.plan import Endpoint
from ncclrun.transport.session import Answer, Session


class Scripted:
    """As much of a session as a follower needs; ``broken``: the link has gone, and nobody was told yet."""

    def __init__(self, broken: bool = False, **refusals: str) -> None:
        self.broken = broken
        self.closed = threading.Event()
        self.hello = {"boot_id": "b"}
        self.refusals = refusals
        """Codes of refusals by request, each given once."""
        self.asked: list[str] = []
        self.followed: Callable[[], None] = lambda: None
        """Called when a request to follow is granted."""

    def ask(self, do: str, then: Callable[[Answer], None], **_: Any) -> None:
        self.asked.append(do)
        if do in self.refusals:
            then({"ok": False, "error": {"code": self.refusals.pop(do), "message": f"{do} is refused"}})
            return
        then({"ok": True})
        if do == "follow":
            self.followed()

    def post(self, do: str, **_: Any) -> None:
        if self.broken:
            raise HostError("lost", "the connection is gone")
        self.asked.append(do)

    def close(self) -> None:
        self.closed.set()


def member(rank: int, session: Scripted) -> Member:
    """A node that runs one worker."""
    node = Node(name=f"n{rank}", host=f"n{rank}", ssh=Ssh(), network=Network(), launch=Launch())
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
    monkeypatch.setattr(follow, "LEASE", 0.2)
    session = Scripted()
    alone = member(0, session)
    inbox: Any = queue.SimpleQueue()
    inbox.put((0, 0, {"ev": "gone", "reason": "lost"}, b""))

    def no_way(*_: Any) -> Session:
        raise HostError("changed_key", "the host key has changed")

    list(Follower("r", [alone], inbox, NoLogs(), Control(), no_way, token="t").events())
    assert alone.lost is not None
    assert alone.lost.startswith("unreachable for 0 s (the host key has changed")


def never(*_: Any) -> Session:
    raise AssertionError("nobody has to be connected to again")


def test_a_start_that_was_lost_on_its_way_finds_nothing_to_start_when_it_comes_late() -> None:
    session = Scripted(follow="not_started")
    alone = member(0, session)
    list(Follower("r", [alone], queue.SimpleQueue(), NoLogs(), Control(), never, token="t").events())
    assert session.asked == ["follow", "discard"]
    assert alone.refused == "follow is refused"
    ended = alone.ended("exec")
    assert (ended.refused, ended.unreached) == ("follow is refused", True)


def test_a_start_that_comes_while_it_is_taken_back_is_followed() -> None:
    session = Scripted(follow="not_started", discard="started")
    alone = member(0, session)
    inbox: Any = queue.SimpleQueue()
    session.followed = lambda: inbox.put((0, 0, {"ev": "end", "record": {"reason": "finished", "ranks": []}}, b""))
    list(Follower("r", [alone], inbox, NoLogs(), Control(), never, token="t").events())
    assert session.asked == ["follow", "discard", "follow"]
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
    monkeypatch.setattr(follow, "LEASE", 0.2)
    inbox: Any = queue.SimpleQueue()

    class Obedient(Scripted):
        def post(self, do: str, **_: Any) -> None:
            super().post(do)
            inbox.put((0, 0, {"ev": "end", "record": {"reason": "stopped", "ranks": []}}, b""))

    living = Obedient()
    members = [member(0, living), member(1, Scripted())]
    members[1].session = None

    def no_way(*_: Any) -> Session:
        raise HostError("timeout", "no answer")

    list(Follower("r", members, inbox, NoLogs(), Control(), no_way, token="t").events())
    assert members[1].lost == "unreachable for 0 s (no answer)"
    assert living.asked == ["follow", "stop"]


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
