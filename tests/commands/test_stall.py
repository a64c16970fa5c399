"""When silence is silence, who is asked about it, and what is told of the answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ncclrun.commands.launch import Launch
from ncclrun.commands.member import Member
from ncclrun.commands.options import stall_options
from ncclrun.commands.stall import ANSWER_SECONDS, StallWatch
from ncclrun.console.notes import render
from ncclrun.console.stall import stall_notes
from ncclrun.model import cluster
from ncclrun.model.errors import HostError, UsageError
from ncclrun.model.job import JobSpec, Stall
from ncclrun.model.stallevents import Stalled
from ncclrun.transport.session import Answer

FRAME = {"function": "waits", "file": "/x/train.py", "line": 7}
RANK = {
    "local_rank": 0,
    "pid": 5,
    "how": "faulthandler",
    "stacks": [{"thread": "0x1", "name": "", "main": True, "frames": [FRAME]}],
    "state": "S",
    "wchan": "",
    "error": "",
}


class Asked:
    """A session that keeps who is to be told the answer; ``broken``: the link has gone."""

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.waiting: list[Callable[[Answer], None]] = []

    def ask(self, do: str, then: Callable[[Answer], None], **_: Any) -> None:
        assert do == "stacks"
        if self.broken:
            raise HostError("lost", "gone")
        self.waiting.append(then)


class Run:
    """Two nodes, a watch, and a clock that the test moves."""

    def __init__(self, directory: Path, *sessions: Asked, after: float = 10) -> None:
        self.now = 1000.0
        self.sessions = sessions or (Asked(), Asked())
        self.members = [self.member(rank, session) for rank, session in enumerate(self.sessions)]
        self.watch = StallWatch(Stall(after), "r", directory, clock=lambda: self.now)

    def member(self, rank: int, session: Any) -> Member:
        node = cluster.Node(
            name=f"n{rank}", host=f"n{rank}", ssh=cluster.Ssh(), network=cluster.Network(), launch=cluster.Launch()
        )
        return Member(node, rank, first_rank=rank, nproc=1, grace=1, boot_id="b", clock_offset=0, session=session)

    def passes(self, seconds: float, step: float = 0.5) -> Stalled | None:
        """Time goes by, looked at as often as the loop does."""
        end = self.now + seconds
        while self.now < end:
            self.now += step
            if (stalled := self.watch.look(self.members)) is not None:
                return stalled
        return None

    @property
    def asked(self) -> list[int]:
        """How often each node was asked."""
        return [len(session.waiting) for session in self.sessions]

    def answer(self, rank: int, answer: Answer = None, number: int = -1) -> None:
        self.sessions[rank].waiting[number](answer or {"ok": True, "ranks": [RANK]})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_after_the_silence_all_nodes_are_asked_once_and_what_they_say_is_told_and_kept(run: Run) -> None:
    run.passes(9.5)
    assert run.asked == [0, 0]
    run.passes(2)
    assert run.asked == [1, 1]
    run.answer(0)
    assert run.passes(1) is None
    run.answer(1)
    stalled = run.passes(1)
    assert stalled is not None
    assert stalled.verdict == "all 2 ranks are in the same place, waits (/x/train.py:7)"
    assert (stalled.seconds, stalled.silent) == (10, ())
    text = Path(stalled.file).read_text()
    assert text.startswith(stalled.verdict)
    assert "rank 1 on n1: pid 5, state S (by faulthandler)\n  MainThread, innermost call first:\n    waits (" in text
    assert run.passes(60) is None
    assert run.asked == [1, 1]


def test_after_new_output_a_new_silence_is_told_again(run: Run) -> None:
    run.passes(11)
    for rank in range(2):
        run.answer(rank)
    assert run.passes(1) is not None
    run.watch.heard()
    run.passes(11)
    assert run.asked == [2, 2]


def test_output_that_comes_while_the_nodes_look_takes_it_all_back(run: Run) -> None:
    run.passes(11)
    run.answer(0)
    run.watch.heard()
    run.answer(1)
    assert run.passes(9) is None
    run.passes(2)
    run.answer(0)
    run.answer(1, number=0)  # late, to the first question: it counts for nothing
    assert run.passes(1) is None


def test_time_in_which_nobody_listened_is_no_silence(run: Run) -> None:
    run.passes(600, step=300)  # this machine slept
    assert run.asked == [0, 0]
    run.members[1].session = None  # a link is cut
    run.passes(60)
    assert run.asked == [0, 0]


def test_a_run_that_is_being_stopped_or_has_ended_is_not_asked(run: Run) -> None:
    run.members[0].asked = "term"
    run.passes(60)
    run.members[0].asked = None
    for member in run.members:
        member.workers_over = True
    run.passes(60)
    assert run.asked == [0, 0]


def test_a_node_that_does_not_tell_is_named_and_holds_up_nobody(tmp_path: Path) -> None:
    run = Run(tmp_path, Asked(), Asked(broken=True), Asked())
    run.passes(11)
    run.answer(0)
    run.answer(2, {"ok": False, "error": {"code": "timeout", "message": "too long"}})
    stalled = run.passes(ANSWER_SECONDS + 1)
    assert stalled is not None
    assert stalled.silent == ("n1", "n2")
    assert stalled.verdict == "rank 0 on n0 is in waits (/x/train.py:7)"
    assert "n1, n2 did not tell: unknown" in render(stall_notes(stalled), colors=False)


def test_where_the_disk_takes_no_file_it_is_told_all_the_same(tmp_path: Path) -> None:
    run = Run(tmp_path / "not there", Asked())
    run.passes(11)
    run.answer(0)
    stalled = run.passes(1)
    assert stalled is not None
    assert stalled.file == ""
    assert "not kept" in render(stall_notes(stalled), colors=False)


def test_people_read_the_verdict_the_frames_of_who_differs_and_what_mends_it(tmp_path: Path) -> None:
    run = Run(tmp_path, Asked(), Asked(), Asked())
    run.passes(11)
    run.answer(0)
    run.answer(1, {"ok": True, "ranks": [{**RANK, "pid": 77, "state": "T"}]})
    run.answer(2)
    stalled = run.passes(1)
    assert stalled is not None
    assert render(stall_notes(stalled), colors=False).splitlines() == [
        "warning: no output from any rank for 10 s: 2 ranks are in waits (/x/train.py:7); "
        "rank 1 on n1 differs: is stopped by a signal (state T), in waits (/x/train.py:7)",
        "       rank 1 on n1:",
        "         waits (/x/train.py:7)",
        f"       all stacks: {stalled.file}",
        "  fix: kill -CONT 77   (on n1)",
    ]


def test_the_action_belongs_to_a_time() -> None:
    assert stall_options(None, "report") is None
    assert stall_options("1m", "stop") == Stall(60, stop=True)
    for after, action in ((None, "stop"), ("1m", "sing")):
        with pytest.raises(UsageError):
            stall_options(after, action)


def test_a_run_that_is_left_to_its_nodes_can_be_armed_but_not_stopped_for_its_silence() -> None:
    nothing: Any = None
    job = JobSpec(kind="command", program="true", stall=Stall(60, stop=True))
    with pytest.raises(UsageError, match="--stall-action stop"):
        Launch(nothing, job, nothing, nothing, {}, detach=True)
