"""What `clean` removes here, what it asks of the nodes, and what keeps a run; the history."""

from __future__ import annotations

import os
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

import pytest

from ncclrun.commands.clean import Clean, Wish
from ncclrun.commands.control import Control
from ncclrun.commands.history import RunDir, process_start
from ncclrun.commands.runs import history
from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import HostError, UsageError
from ncclrun.model.events import Event, Warn
from ncclrun.model.runevents import Cleaned, RecordedRun
from ncclrun.transport.fake import FakeNode, FakeTransport
from tests.commands.inventories import CLUSTER, end_record, make_record

DAY = 86400.0


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def ended(run_id: str, days: float) -> RunDir:
    run = make_record(run_id)
    end_record(run, days)
    return run


def nodes(**answer: Any) -> dict[str, FakeNode | HostError]:
    """Three that have removed nothing, unless ``answer`` says otherwise."""
    return {name: FakeNode({"clean": {"removed": [], "kept": [], "code": 0, **answer}}) for name in "abc"}


def asked(fakes: dict[str, FakeNode | HostError], name: str = "a") -> dict[str, Any]:
    """The last `clean` that a node was sent."""
    one = fakes[name]
    assert isinstance(one, FakeNode)
    return [request for request in one.requests if request["do"] == "clean"][-1]


def clean(
    wish: Wish, fakes: dict[str, FakeNode | HostError] | None = None, cluster: ClusterSpec | None = None
) -> list[Event]:
    """Shown, agreed to, done."""
    with Clean(wish, cluster, FakeTransport(nodes() if fakes is None else fakes), Control()) as command:
        shown = list(command.preview(dry_run=False))
        return shown if isinstance(shown[-1], Ended) else list(command.remove())


def here(events: list[Event]) -> Cleaned:
    return next(event for event in events if isinstance(event, Cleaned) and not event.node)


def end(events: list[Event]) -> Ended:
    assert isinstance(events[-1], Ended)
    return events[-1]


class TestCleaning:
    def test_takes_what_is_old_and_asks_its_nodes_for_exactly_that(self) -> None:
        old, new = ended("old", 20), ended("new", 3)
        fakes = nodes()
        found = clean(Wish(older_than=14 * DAY), fakes)
        assert [one.run_id for one in here(found).removed] == ["old"]
        assert (old.path.exists(), new.path.exists()) == (False, True)
        request = asked(fakes)
        assert (request["run_ids"], request["older_than"], request["dry_run"]) == (["old"], None, False)

    def test_a_dry_run_removes_nothing_here_and_asks_for_nothing_to_be_removed(self) -> None:
        old = ended("old", 20)
        fakes = nodes()
        with Clean(Wish(older_than=DAY), None, FakeTransport(fakes), Control()) as command:
            found = list(command.preview(dry_run=True))
        assert (old.path.exists(), asked(fakes)["dry_run"]) == (True, True)
        assert end(found).reason == "dry run: nothing was removed"

    def test_with_a_cluster_its_nodes_judge_by_age_and_size_themselves(self) -> None:
        fakes = nodes()
        clean(Wish(older_than=DAY, keep_size=9), fakes, CLUSTER)
        request = asked(fakes)
        assert (request["run_ids"], request["older_than"], request["keep_size"]) == (None, DAY, 9)

    def test_a_size_takes_the_oldest_first(self) -> None:
        for name, days in (("c", 1), ("a", 9), ("b", 5)):
            (ended(name, days).logs / "rank0.out").write_bytes(os.urandom(1 << 20))
        found = clean(Wish(keep_size=5 << 19))
        assert [one.run_id for one in here(found).removed] == ["a"]

    def test_what_lives_on_a_node_stays_here(self) -> None:
        run = ended("r", 20)
        fakes = nodes(kept=[{"run_id": "r", "node_rank": 1, "size": 5, "why": "2 of its processes live"}])
        found = clean(Wish(run_ids=("r",)), fakes)
        assert run.path.exists()
        assert here(found).kept[0].why.endswith("2 of its processes live")

    def test_a_run_is_remembered_until_all_its_nodes_were_heard(self) -> None:
        run = ended("r", 20)
        silent = {**nodes(), "b": HostError("timeout", "b: no answer")}
        found = clean(Wish(run_ids=("r",)), silent)
        assert (run.path.exists(), end(found).exit_code) == (True, 255)
        assert here(found).kept[0].why == "b not reached; --here removes what is kept here all the same"
        assert end(clean(Wish(run_ids=("r",), here=True), {})).exit_code == 0
        assert not run.path.exists()

    def test_a_run_whose_end_is_not_known_goes_only_by_name(self) -> None:
        run = make_record("r", started_at=0.0)
        assert "its end is not known here" in here(clean(Wish(older_than=DAY))).kept[0].why
        assert run.path.exists()
        clean(Wish(run_ids=("r",)))
        assert not run.path.exists()

    def test_a_run_that_an_ncclrun_follows_stays(self) -> None:
        started = make_record("r", pid=os.getpid(), pid_start_time=process_start(os.getpid()), started_at=0.0)
        assert "follows it here" in here(clean(Wish(run_ids=("r",)))).kept[0].why
        attached = ended("s", 20)
        with (attached.logs / "order").open("ab") as order:
            flock(order, LOCK_EX)
            assert here(clean(Wish(run_ids=("s",)))).kept[0].why == "an ncclrun follows it here"
        assert (started.path.exists(), attached.path.exists()) == (True, True)

    def test_a_nodes_own_part_in_the_same_place_is_left_to_it(self) -> None:
        run = ended("r", 20)
        part = run.path / "0-0a1b2c3d4e5f"
        part.mkdir()
        clean(Wish(run_ids=("r",)))
        assert [path.name for path in run.path.iterdir()] == [part.name]

    def test_a_name_that_is_no_run_is_a_slip_of_the_pen(self) -> None:
        with pytest.raises(UsageError, match="no run 'never'"):
            clean(Wish(run_ids=("never",)))

    def test_nothing_to_remove_is_an_end_without_a_question(self) -> None:
        assert end(clean(Wish(older_than=DAY), {})).reason == "nothing to remove"


class TestHistory:
    def test_open_runs_come_first_and_the_newest_last(self) -> None:
        end_record(make_record("a"), 2, seconds=12.5, cause="rank 3 on b: exit code 7", exit_code=7, reason="failed")
        make_record("b")
        make_record("c", pid=os.getpid(), pid_start_time=process_start(os.getpid()))
        ended("d", 1)
        found = [event for event in history() if isinstance(event, RecordedRun)]
        assert [(run.run_id, run.state) for run in found] == [
            ("b", "open"),
            ("c", "followed"),
            ("a", "ended"),
            ("d", "ended"),
        ]
        assert (found[2].seconds, found[2].cause, found[2].exit_code) == (12.5, "rank 3 on b: exit code 7", 7)
        assert found[0].nodes == ("a", "b", "c")

    def test_of_many_the_last_are_shown_and_the_others_counted(self) -> None:
        for at in range(23):
            ended(f"r{at:02}", 1)
        found = list(history())
        assert len(found) == 21
        assert end(found).reason == "3 older ones are not shown (--all)"
        assert len(list(history(everything=True))) == 24

    def test_a_damaged_record_hides_no_other(self) -> None:
        ended("good", 1)
        make_record("bad").write("run.json", {"nodes": 7})
        found = list(history())
        assert [event.run_id for event in found if isinstance(event, RecordedRun)] == ["good"]
        assert [event.fix.split()[0] for event in found if isinstance(event, Warn)] == ["rm"]

    def test_a_machine_without_runs_has_no_history(self) -> None:
        (only,) = history()
        assert isinstance(only, Ended)
        assert only.reason == "no run is recorded on this machine"
