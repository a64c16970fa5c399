"""Attempts of a run, with launches that end as it is written: what is tried again, with whom, and when it is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ncclrun.commands import retry
from ncclrun.commands.control import Control
from ncclrun.commands.history import RunDir
from ncclrun.commands.retry import Attempts, lost_nodes
from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.endevents import Cause, Ended, NodeSummary, Retrying
from ncclrun.model.errors import UsageError
from ncclrun.model.events import Event, Unreachable
from ncclrun.model.job import Attempt, JobSpec, Retry
from tests.planning.makers import cluster, node


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


JOB = JobSpec("script", "train.py", run_id="r", timeout=None)
GPUS = (node("gpu1"), node("gpu2"), node("gpu3"))
SPARE = (node("spare"),)


def row(name: str, state: str = "stopped", *, confirmed: bool = True, detail: str = "") -> NodeSummary:
    return NodeSummary(
        node=name,
        node_rank=0,
        host=name,
        ranks="0",
        state=state,
        exit="",
        seconds=1.0,
        confirmed=confirmed,
        detail=detail,
    )


def ended(code: int, reason: str, *rows: NodeSummary, seconds: float = 1.0, cause: Cause | None = None) -> Ended:
    return Ended(run_id="x", exit_code=code, reason=reason, seconds=seconds, nodes=rows, cause=cause)


FINE = ended(0, "finished")
LOST = ended(
    255, "lost", row("gpu1"), row("gpu2", "unknown", confirmed=False, detail="unreachable for 31 s"), row("gpu3")
)
CAUSE = Cause(node="gpu3", node_rank=2, host="gpu3", rank=5, how="exit code 7", exit_code=7)
FAILED = ended(7, "failed", row("gpu3", "failed"), cause=CAUSE)


class Launches:
    """Stands in for launches; each attempt tells the events of its turn, and the cluster and job it was made with."""

    met_leftovers = False

    def __init__(self, *turns: tuple[Event, ...]) -> None:
        self.turns = list(turns)
        self.made: list[tuple[ClusterSpec, JobSpec]] = []

    def __call__(self, cluster: ClusterSpec, job: JobSpec, *_: Any) -> Launches:
        self.made.append((cluster, job))
        return self

    def events(self) -> Iterator[Event]:
        yield from self.turns.pop(0)

    @property
    def nodes(self) -> list[list[str]]:
        return [[one.name for one in made.nodes] for made, _ in self.made]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PAUSE", 0.0)
    monkeypatch.setattr(retry, "AGAIN_PAUSE", 0.0)


def attempts(
    monkeypatch: pytest.MonkeyPatch,
    *turns: tuple[Event, ...],
    job: JobSpec = JOB,
    times: int = 2,
    control: Control | None = None,
    **wish: Any,
) -> tuple[Launches, list[Event]]:
    launches = Launches(*turns)
    monkeypatch.setattr(retry, "Launch", launches)
    transport: Any = None
    made = Attempts(cluster(*GPUS), SPARE, job, Retry(times, **wish), transport, control or Control(), {})
    return launches, list(made.events())


def test_a_lost_node_makes_a_further_attempt_under_an_id_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    launches, events = attempts(monkeypatch, (LOST,), (FINE,))
    assert launches.nodes == [["gpu1", "gpu2", "gpu3"], ["gpu1", "spare", "gpu3"]]
    assert [(job.run_id, job.attempt) for _, job in launches.made] == [("r", Attempt("r", 1)), ("r.2", Attempt("r", 2))]
    told, last = events
    assert isinstance(told, Retrying)
    assert (told.run_id, told.attempt, told.most, told.ended) == ("r.2", 2, 3, LOST)
    assert told.reason == "gpu2 replaced by spare (host lost: unreachable for 31 s)"
    assert last is FINE


def test_the_last_attempts_end_is_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    last = ended(255, "lost", row("gpu1", "rebooted"))
    launches, events = attempts(monkeypatch, (LOST,), (LOST,), (last,))
    assert len(launches.made) == 3
    assert events[-1] is last
    assert [type(event) for event in events] == [Retrying, Retrying, Ended]


@pytest.mark.parametrize(
    "end",
    [
        FINE,
        FAILED,
        ended(255, "failed", row("gpu1", "failed")),
        ended(124, "timeout"),
        ended(130, "stopped"),
        ended(123, "stalled"),
        ended(0, "detached"),
        ended(3, "nothing was started"),
        ended(2, "nothing was started"),
    ],
    ids=lambda end: f"{end.reason} {end.exit_code}",
)
def test_other_ends_are_the_runs_own(monkeypatch: pytest.MonkeyPatch, end: Ended) -> None:
    launches, events = attempts(monkeypatch, (end,))
    assert (len(launches.made), events) == (1, [end])


def test_a_host_that_is_waited_for_is_given_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "AGAIN_PAUSE", 0.2)
    two = ended(255, "lost", row("gpu1", "rebooted"), row("gpu3", "rebooted"))
    _, events = attempts(monkeypatch, (LOST,), (two,), (FINE,))
    told = [event for event in events if isinstance(event, Retrying)]
    assert [event.seconds for event in told] == [0.0, 0.2]
    assert told[1].reason == "gpu1 tried again (host rebooted); gpu3 tried again (host rebooted)"


def test_a_rank_that_failed_is_tried_again_on_the_same_nodes_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    launches, events = attempts(monkeypatch, (FAILED,), (FINE,), on_failure=True)
    assert launches.nodes == [["gpu1", "gpu2", "gpu3"]] * 2
    told = events[0]
    assert isinstance(told, Retrying)
    assert told.reason == "rank 5 on gpu3 failed (exit code 7)"


def test_a_host_that_is_out_of_reach_before_the_start_is_lost_too(monkeypatch: pytest.MonkeyPatch) -> None:
    away = Unreachable(node="gpu1", node_rank=0, host="gpu1", reason="timeout", message="no answer", fix="")
    launches, events = attempts(monkeypatch, (away, ended(255, "nothing was started")), (FINE,))
    assert launches.nodes[1] == ["spare", "gpu2", "gpu3"]
    assert events[0] is away
    assert isinstance(events[1], Retrying)
    assert events[1].reason == "gpu1 replaced by spare (unreachable: no answer)"


def test_a_node_on_which_something_may_still_live_is_not_taken_again() -> None:
    stuck = row("gpu3", confirmed=False, detail="1 still alive: 77 python")
    found = lost_nodes(
        ended(255, "lost", row("gpu1"), row("gpu2", "rebooted", detail="the host was rebooted"), stuck), {}
    )
    why = "not confirmed that nothing lives there: 1 still alive: 77 python"
    assert found == {"gpu2": "host rebooted", "gpu3": why}


def test_a_node_that_the_others_did_not_hear_is_not_counted_on_though_it_confirmed_its_end() -> None:
    why = "the data link is cut"
    cause = Cause(node="gpu2", node_rank=1, host="gpu2", rank=None, how="lost", exit_code=255, exception=why)
    assert lost_nodes(ended(255, "lost", row("gpu1"), row("gpu2"), cause=cause), {}) == {"gpu2": why}


def test_a_time_limit_is_for_all_attempts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    job = JobSpec("script", "t.py", run_id="r", timeout=10.0)
    first, second = ended(255, "lost", seconds=6.0), ended(255, "lost", seconds=5.0)
    launches, events = attempts(monkeypatch, (first,), (second,), job=job)
    assert [made.timeout for _, made in launches.made] == [10.0, 4.0]
    last = events[-1]
    assert isinstance(last, Ended)
    assert (last.exit_code, last.reason) == (124, "timeout")


def test_a_run_that_somebody_stops_while_it_waits_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PAUSE", 1000.0)
    launches = Launches((LOST,))
    monkeypatch.setattr(retry, "Launch", launches)
    transport: Any = None
    control = Control()
    made = Attempts(cluster(*GPUS), SPARE, JOB, Retry(2), transport, control, {})
    for event in made.events():
        last = event
        control.press()
    assert isinstance(last, Ended)
    assert (last.exit_code, len(launches.made)) == (130, 1)


def test_an_attempt_that_would_meet_a_run_of_its_name_is_refused_before_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    RunDir.create("r.3")
    with pytest.raises(UsageError, match=r"there is a run r\.3 already"):
        attempts(monkeypatch, (FINE,))


def test_a_run_id_without_room_for_a_number_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="can't be a run id"):
        attempts(monkeypatch, job=JobSpec("script", "t.py", run_id="x" * 63))
