"""Histories as they happened, replayed: one cause, its exit code, and what followed from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ncclrun.diagnosis.outcome import first_failure, ranges
from ncclrun.model.outcome import NodeEnd, Outcome

RESET = (
    "Traceback (most recent call last):\n  File\nRuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.2]:1\n"
)
BOOM = "Traceback (most recent call last):\n  File\nValueError: boom\n"
TERMINATED = "Traceback (most recent call last):\n  File\na.b.SignalException: Process 99 got signal: 15\n"
REPORTS = Path(__file__).with_name("torchrun_reports")


def rank(local: int, code: int | None = 0, *, at: float = 10, **more: Any) -> dict[str, Any]:
    """One worker's end; a negative code is a signal."""
    signal = -code if code is not None and code < 0 else None
    known = {"pid": 100 + local, "code": None if signal else code, "signal": signal, "started_at": 1, "ended_at": at}
    return {"local_rank": local, **known, "stopped": False, "error": None, "tail": "", **more}


def node(number: int, *ranks: dict[str, Any], reason: str = "failed", offset: float = 0, **more: Any) -> NodeEnd:
    """Node ``number`` of two workers each, with the end record that its supervisor would write."""
    failed = any(r["code"] or r["signal"] for r in ranks)
    record = {
        "reason": reason,
        "started_at": 1 + offset,
        "ended_at": 20 + offset,
        "launcher": {"pid": 99, "code": 1 if failed else 0, "signal": None},
        "ranks": [{**r, "ended_at": r["ended_at"] + offset} for r in ranks],
        "launcher_tail": "",
        "stop": None,
        "survivors": [],
        "lost_bytes": {},
        "oom_kills": 0,
        **more,
    }
    return end(number, record=record, clock_offset=offset)


def end(number: int, **more: Any) -> NodeEnd:
    return NodeEnd(node="abc"[number], node_rank=number, host=f"gpu{number}", first_rank=2 * number, nproc=2, **more)


def told(outcome: Outcome) -> tuple[int, int | None, str]:
    """Exit code, rank and manner of the cause."""
    assert outcome.cause is not None
    return outcome.exit_code, outcome.cause.rank, outcome.cause.how


class TestTheCause:
    def test_is_none_when_all_went_well(self) -> None:
        outcome = first_failure(
            [node(0, rank(0), rank(1), reason="finished"), node(1, rank(0, at=2), reason="finished")]
        )
        assert (outcome.exit_code, outcome.reason, outcome.cause, outcome.victims) == (0, "finished", None, ())
        assert [row.exit for row in outcome.nodes] == ["0", "0"]
        assert all(row.confirmed for row in outcome.nodes)

    def test_is_the_exit_code_though_its_victims_were_reported_earlier(self) -> None:
        victims = node(0, rank(0, 1, at=9, tail=RESET), rank(1, -15, at=9.2))
        cause = node(2, rank(0, -15, at=10.1, stopped=True), rank(1, 7, at=10))
        outcome = first_failure([victims, cause])
        assert told(outcome) == (7, 5, "exit code 7")
        assert outcome.victims[0] == "rank 1 on a stopped"
        assert outcome.victims[1].startswith("rank 0 on a failed (RuntimeError: Connection closed")
        assert [row.state for row in outcome.nodes] == ["stopped", "failed"]

    def test_is_the_earlier_of_two_alike_though_a_clock_is_hours_off(self) -> None:
        early = node(0, rank(0, 3, at=10), offset=7200)
        late = node(1, rank(0, 4, at=11), offset=-7200)
        outcome = first_failure([late, early])
        assert told(outcome) == (3, 0, "exit code 3")
        assert outcome.cause is not None
        assert outcome.cause.time == pytest.approx(10)

    def test_names_the_exception_and_the_last_lines(self) -> None:
        outcome = first_failure([node(0, rank(0, 1, tail=BOOM), rank(1, -15, at=11))])
        assert outcome.cause is not None
        assert outcome.cause.exception == "ValueError: boom"
        assert outcome.cause.tail[-1] == "ValueError: boom"

    def test_takes_torchs_error_file_before_stderr(self) -> None:
        error = {"message": {"message": "ValueError: from the file", "extraInfo": {}}}
        outcome = first_failure([node(0, rank(0, 1, tail=BOOM, error=error))])
        assert outcome.cause is not None
        assert outcome.cause.exception == "ValueError: from the file"

    def test_may_be_the_only_one_though_it_speaks_of_a_peer(self) -> None:
        outcome = first_failure([node(0, rank(0, 1, tail=RESET, at=9)), node(1, rank(0, 1, tail=RESET, at=8))])
        assert told(outcome) == (1, 2, "exit code 1")

    def test_may_end_only_after_it_was_asked_to_stop(self) -> None:
        slow = node(1, rank(0, 1, tail=BOOM, at=12, stopped=True), stop={"asked_at": 11, "how": "term"})
        outcome = first_failure([node(0, rank(0, 1, tail=RESET, at=10)), slow])
        assert outcome.cause is not None
        assert outcome.cause.exception == "ValueError: boom"


class TestASignal:
    def test_makes_128_and_its_number(self) -> None:
        outcome = first_failure([node(0, rank(0, -11), rank(1, -15, at=10.5)), node(1, rank(0, 1, at=9, tail=RESET))])
        assert told(outcome) == (139, 0, "signal 11 (SIGSEGV)")
        assert outcome.cause is not None
        assert "PYTHONFAULTHANDLER" in outcome.cause.hint

    def test_of_the_memory_killer_says_so(self) -> None:
        ends = [node(0, rank(0, -9), rank(1, -15, at=11), oom_kills=1), node(1, rank(0, 1, at=9, tail=RESET))]
        outcome = first_failure(ends)
        assert told(outcome) == (137, 0, "signal 9 (SIGKILL), out of memory")

    def test_yields_to_an_exception_of_another(self) -> None:
        outcome = first_failure([node(0, rank(0, -6, at=9)), node(1, rank(0, 1, at=10, tail=BOOM))])
        assert told(outcome) == (1, 2, "exit code 1")

    def test_that_torchrun_sent_to_a_sibling_is_no_cause(self) -> None:
        outcome = first_failure([node(0, rank(0, -15, at=10), rank(1, 1, at=10, tail=RESET))])
        assert told(outcome) == (1, 1, "exit code 1")

    def test_that_nobody_of_us_sent_is_one(self) -> None:
        outcome = first_failure([node(0, rank(0, -15, at=10), rank(1, -15, at=10.2)), node(1, rank(0, 1, tail=RESET))])
        assert told(outcome) == (143, 0, "signal 15 (SIGTERM)")


class TestALostHost:
    def test_is_the_cause_of_its_peers_errors(self) -> None:
        lost = end(1, lost="silent for 12 s", lost_at=22)
        outcome = first_failure([node(0, rank(0, 1, at=10, tail=RESET), rank(1, -15, at=10.5)), lost])
        assert told(outcome) == (255, None, "host lost")
        assert outcome.reason == "lost"
        row = outcome.nodes[1]
        assert (row.state, row.confirmed, row.detail) == ("unknown", False, "silent for 12 s")

    def test_yields_to_an_exception(self) -> None:
        outcome = first_failure([node(0, rank(0, 1, tail=BOOM)), end(1, lost="silent", lost_at=5)])
        assert told(outcome) == (1, 0, "exit code 1")

    def test_may_be_a_supervisor_that_died(self) -> None:
        outcome = first_failure([node(0, reason="lost", launcher=None), node(1, rank(0, 1, at=9, tail=RESET))])
        assert told(outcome) == (255, None, "supervisor lost")
        assert outcome.nodes[0].confirmed

    def test_may_be_a_node_that_the_others_did_not_hear(self) -> None:
        def stopped_for(origin: int) -> dict[str, Any]:
            stop = {**STOP, "lost": True, "origin": origin, "reason": f"node {origin} is silent"}
            return {"reason": "stopped", "stop": stop}

        cut_off = [
            node(number, rank(0, -15, at=11, stopped=True), **stopped_for(origin))
            for number, origin in enumerate([1, 0, 0])
        ]
        outcome = first_failure(cut_off)
        assert told(outcome) == (255, None, "lost to the other nodes")
        assert outcome.cause is not None
        assert (outcome.cause.node, outcome.cause.exception) == ("a", "node 0 is silent")
        assert outcome.victims == ("rank 0 on a stopped", "rank 2 on b stopped", "rank 4 on c stopped")
        assert [row.state for row in outcome.nodes] == ["stopped"] * 3
        # What is known of it itself tells more.
        outcome = first_failure([end(0, lost="the host was rebooted", lost_at=30), *cut_off[1:]])
        assert told(outcome) == (255, None, "host lost")

    def test_may_be_what_a_lost_node_had_told_the_others(self) -> None:
        stop = {**STOP, "lost": False, "origin": 0, "reason": "rank 1 failed (exit code 7)"}
        stopped = node(1, rank(0, -15, at=11, stopped=True), reason="stopped", stop=stop)
        outcome = first_failure([end(0, lost="unreachable for 30 s", lost_at=30), stopped])
        assert told(outcome) == (7, 1, "exit code 7")
        assert outcome.victims == ("a lost (unreachable for 30 s)", "rank 2 on b stopped")


class TestTheLauncher:
    def test_killed_from_outside_is_the_cause(self) -> None:
        killed = node(0, rank(0, -15, at=10), rank(1, -9, at=12), launcher={"pid": 99, "code": None, "signal": 9})
        outcome = first_failure([killed, node(1, rank(0, 1, at=9, tail=RESET))])
        assert told(outcome) == (137, None, "torchrun: signal 9 (SIGKILL)")

    def test_that_failed_before_any_worker_shows_its_own_words(self) -> None:
        tail = (REPORTS / "bad.txt").read_text(encoding="utf-8")
        outcome = first_failure([node(0, launcher={"pid": 9, "code": 2, "signal": None}, launcher_tail=tail)])
        assert told(outcome) == (2, None, "torchrun: exit code 2")
        assert outcome.cause is not None
        assert outcome.cause.exception.endswith("unrecognized arguments: --bad-option")

    def test_tells_what_the_node_could_not_see(self) -> None:
        tail = (REPORTS / "exit7.txt").read_text(encoding="utf-8")
        ends = [node(1, rank(0, None), rank(1, None), launcher={"code": 1, "signal": None}, launcher_tail=tail)]
        outcome = first_failure(ends)
        assert told(outcome) == (7, 3, "exit code 7")
        assert outcome.victims == ("rank 2 on b stopped",)

    def test_that_lost_its_store_is_a_consequence(self) -> None:
        tail = "Traceback (most recent call last):\n  File\ntorch.distributed.DistNetworkError: Broken pipe\n"
        ends = [node(0, rank(0, -11, at=10)), node(1, rank(0, -15, at=9), launcher_tail=tail)]
        assert told(first_failure(ends)) == (139, 0, "signal 11 (SIGSEGV)")

    def test_counts_also_where_a_stop_came_before_the_node_had_cleared_up(self) -> None:
        killed = {"pid": 99, "code": None, "signal": 9, "stopped": False}
        outcome = first_failure([node(0, rank(0, -15, at=10), launcher=killed, stop=STOP)])
        assert told(outcome) == (137, None, "torchrun: signal 9 (SIGKILL)")

    def test_that_had_no_time_left_after_its_worker_is_no_cause(self) -> None:
        tail = (REPORTS / "exit7.txt").read_text(encoding="utf-8")
        killed = {"pid": 99, "code": None, "signal": 9, "stopped": True}
        outcome = first_failure([node(0, rank(0, -9, at=10), rank(1, -15, at=11), launcher=killed, launcher_tail=tail)])
        assert told(outcome) == (137, 0, "signal 9 (SIGKILL)")

    @pytest.mark.parametrize("worker", [rank(0, -15, at=9), rank(0, 1, at=9, tail=BOOM), rank(0, at=9)])
    @pytest.mark.parametrize("own", [(1, None, False), (None, 9, True)], ids=["in time", "until its grace was over"])
    def test_terminated_by_somebody_is_the_cause_however_its_workers_take_it(
        self, worker: dict[str, Any], own: tuple[int | None, int | None, bool]
    ) -> None:
        launcher = {"pid": 99, **dict(zip(("code", "signal", "stopped"), own, strict=True)), "terminated": False}
        ends = [node(0, worker, launcher=launcher, launcher_tail=TERMINATED), node(1, rank(0, 1, at=8, tail=RESET))]
        outcome = first_failure(ends)
        assert told(outcome) == (143, None, "torchrun: signal 15 (SIGTERM)")
        assert outcome.cause is not None
        assert "did not send it" in outcome.cause.hint

    def test_that_we_have_terminated_is_none(self) -> None:
        launcher = {"pid": 99, "code": 1, "signal": None, "stopped": True, "terminated": True}
        ends = [node(0, rank(0, -15, stopped=True), launcher=launcher, launcher_tail=TERMINATED), node(1, rank(0, 7))]
        assert told(first_failure(ends)) == (7, 2, "exit code 7")

    def test_may_not_exist(self) -> None:
        outcome = first_failure([node(0, rank(0, 7, at=10), rank(1, -15, at=10.2, stopped=True), launcher=None)])
        assert told(outcome) == (7, 0, "exit code 7")


STOP = {"asked_at": 10, "how": "term"}


class TestAStop:
    @pytest.mark.parametrize(("by", "code"), [("user", 130), ("timeout", 124)])
    def test_has_its_own_exit_code(self, by: Any, code: int) -> None:
        ends = [
            node(0, rank(0, -15, at=11, stopped=True), reason="stopped", stop=STOP),
            node(1, rank(0, 1, at=10.5, tail=RESET), reason="stopped", stop={"asked_at": 11, "how": "term"}),
        ]
        outcome = first_failure(ends, stopped_by=by)
        assert (outcome.exit_code, outcome.cause) == (code, None)
        assert [row.state for row in outcome.nodes] == ["stopped", "stopped"]

    def test_does_not_hide_what_had_failed_before(self) -> None:
        ends = [node(0, rank(0, 7, at=9), stop=STOP), node(1, rank(0, -15, at=11, stopped=True), stop=STOP)]
        assert told(first_failure(ends, stopped_by="user")) == (7, 0, "exit code 7")

    def test_by_somebody_else_is_told_from_a_success(self) -> None:
        ends = [node(0, rank(0, -15, at=11, stopped=True), reason="stopped", stop=STOP)]
        outcome = first_failure(ends)
        assert (outcome.exit_code, outcome.reason) == (130, "stopped")

    def test_shows_what_would_not_die(self) -> None:
        survivors = [{"pid": 5, "command": "python", "state": "D"}]
        ends = [node(0, rank(0, -15, at=11, stopped=True), reason="stopped", stop=STOP, survivors=survivors)]
        (row,) = first_failure(ends, stopped_by="user").nodes
        assert (row.confirmed, row.detail) == (False, "1 still alive: 5 python")


def test_a_node_that_refused_to_start_makes_3() -> None:
    outcome = first_failure([node(0, rank(0, -15, stopped=True), reason="stopped"), end(1, refused="no space left")])
    assert told(outcome) == (3, None, "refused to start")
    assert (outcome.nodes[1].state, outcome.nodes[1].confirmed) == ("not started", True)


def test_a_node_that_the_start_never_reached_makes_255() -> None:
    others = node(0, rank(0, -15, stopped=True), reason="stopped")
    outcome = first_failure([others, end(1, refused="not started", unreached=True)])
    assert told(outcome) == (255, None, "lost its link before the start")
    assert (outcome.reason, outcome.nodes[1].state, outcome.nodes[1].confirmed) == ("lost", "not started", True)


@pytest.mark.parametrize(("numbers", "text"), [([0, 1, 2, 3, 6], "0-3,6"), ([5], "5"), ([2, 1], "1-2"), ([], "")])
def test_ranges_are_short(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text
