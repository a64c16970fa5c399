"""Runs as this machine remembers them: ids, directories, their records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ncclrun.commands.history import (
    RunDir,
    check_run_id,
    find_run,
    new_run_id,
    process_start,
    state_home,
)
from ncclrun.model.endevents import Cause, Ended
from ncclrun.model.errors import NcclrunError, UsageError


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


class TestStateHome:
    """Where runs are kept."""

    def test_xdg_when_absolute(self, state: Path) -> None:
        assert state_home() == state / "ncclrun"

    @pytest.mark.parametrize("value", ["", "relative/path"])
    def test_else_below_home(self, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", value)
        monkeypatch.setenv("HOME", "/home/me")
        assert state_home() == Path("/home/me/.local/state/ncclrun")

    def test_a_user_without_a_home_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def nowhere() -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setenv("XDG_STATE_HOME", "")
        monkeypatch.setattr(Path, "home", nowhere)
        with pytest.raises(NcclrunError, match="no home directory"):
            state_home()


class TestRunId:
    """A name that can be a directory everywhere."""

    @pytest.mark.parametrize("run_id", ["a", "0", "run.1_b-2", "x" * 64, "a..b"])
    def test_good_ones_stay(self, run_id: str) -> None:
        assert check_run_id(run_id) == run_id

    @pytest.mark.parametrize(
        "run_id", ["", ".", "..", "../x", "a/b", "A", "-x", "_x", "x" * 65, "a\n", "a b", "ä", "١", "a\0"]
    )
    def test_others_are_refused(self, run_id: str) -> None:
        with pytest.raises(UsageError, match="can't be a run id"):
            check_run_id(run_id)

    def test_new_ones_are_good_and_differ(self) -> None:
        ids = {new_run_id() for _ in range(5)}
        assert len(ids) == 5
        assert all(check_run_id(run_id) for run_id in ids)


class TestRunDir:
    """One private directory a run."""

    def test_is_private_from_the_start(self) -> None:
        run = RunDir.create("r")
        run.write("run.json", {})
        modes = [path.stat().st_mode & 0o777 for path in (run.path, run.logs, run.path / "run.json")]
        assert modes == [0o700, 0o700, 0o600]

    def test_an_id_used_before_is_refused(self) -> None:
        RunDir.create("r")
        with pytest.raises(UsageError, match="there is a run r already"):
            RunDir.create("r")

    @pytest.mark.parametrize("blocked", ["ncclrun", "ncclrun/runs", "ncclrun/runs/r"])
    def test_a_file_in_the_way_is_no_run(self, state: Path, blocked: str) -> None:
        (state / blocked).parent.mkdir(parents=True, exist_ok=True)
        (state / blocked).write_text("")
        with pytest.raises(NcclrunError, match="can't make the run's directory") as caught:
            RunDir.create("r")
        assert not isinstance(caught.value, UsageError)
        assert "XDG_STATE_HOME" in caught.value.fix

    def test_records_come_back(self) -> None:
        run = RunDir.create("r")
        assert run.read("end.json") is None
        run.write("end.json", {"exit_code": 7, "name": "ä\udcff"})
        run.write("end.json", {"exit_code": 8, "name": "ä\udcff"})
        assert run.read("end.json") == {"exit_code": 8, "name": "ä\udcff"}
        assert {path.name for path in run.path.iterdir()} == {"logs", "end.json"}

    @pytest.mark.parametrize("text", ["", "{", "\xff", "[1]", "7"])
    def test_a_damaged_record_is_named_with_the_way_round_it(self, text: str) -> None:
        run = RunDir.create("r")
        (run.path / "run.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(NcclrunError, match=r"run\.json is damaged") as caught:
            run.read("run.json")
        assert "--cluster FILE" in caught.value.fix

    @pytest.mark.parametrize("record", [{}, {"complete": True}, {"exit_code": "0", "reason": "", "ended_at": 0}])
    def test_an_end_without_what_everybody_asks_of_it_is_damaged(self, record: dict[str, object]) -> None:
        run = RunDir.create("r")
        run.write("end.json", record)
        with pytest.raises(NcclrunError, match=r"end\.json is damaged") as caught:
            run.end()
        assert f"rm {run.path}/end.json;  ncclrun attach r" in caught.value.fix

    def test_a_damaged_end_keeps_nobody_from_another_run(self) -> None:
        for run_id in ("old", "going"):
            RunDir.create(run_id).write("run.json", {})
        (RunDir(state_home() / "runs" / "old").path / "end.json").write_text("")
        assert find_run(None, going=True).run_id == "going"

    def test_one_that_never_started_is_forgotten(self) -> None:
        run = RunDir.create("r")
        run.write("run.json", {})
        (run.logs / "order").write_text("")
        run.forget()
        assert not run.path.exists()
        assert RunDir.create("r").path == run.path

    def test_forgetting_leaves_what_a_node_keeps_in_it(self) -> None:
        run = RunDir.create("r")
        (run.path / "0-machine").mkdir()
        (run.path / "0-machine" / "state.json").write_text("{}")
        run.forget()
        assert (run.path / "0-machine" / "state.json").exists()

    def test_one_that_another_machine_started_is_taken_in_once(self) -> None:
        run = RunDir.adopt("r", {"token": "t"})
        (run.path / "0-machine").mkdir()  # a node's own part, on a machine that is one of the nodes
        assert RunDir.adopt("r", {"token": "t", "by": "anna"}).read("run.json") == {"token": "t"}
        assert find_run(None) == run
        assert run.logs.stat().st_mode & 0o777 == 0o700

    def test_one_of_a_name_that_another_run_has_here_is_not_taken_for_that(self) -> None:
        RunDir.adopt("r", {"token": "mine"})
        with pytest.raises(UsageError, match=r"another run r; .* anna@desk") as caught:
            RunDir.adopt("r", {"token": "theirs", "by": "anna@desk"})
        assert "XDG_STATE_HOME" in caught.value.fix

    def test_an_id_from_a_node_that_is_no_directory_name_is_refused(self) -> None:
        with pytest.raises(UsageError, match="can't be a run id"):
            RunDir.adopt("../x", {})

    def test_its_end_is_told_in_a_few_words(self) -> None:
        run = RunDir.create("r")
        cause = Cause(
            node="b", node_rank=1, host="b", rank=3, how="exit code 1", exit_code=1, exception="ValueError: no data"
        )
        run.write_end(
            Ended(run_id="r", exit_code=1, reason="failed", seconds=2.5, cause=cause), program="t.py", complete=True
        )
        end = run.read("end.json") or {}
        assert (end["cause"], end["program"], end["seconds"], end["exit_code"]) == (
            "rank 3 on b: exit code 1, ValueError: no data",
            "t.py",
            2.5,
            1,
        )


class TestFindRun:
    """The named run, or the newest."""

    @staticmethod
    def make(run_id: str, seconds: int) -> RunDir:
        run = RunDir.create(run_id)
        run.write("run.json", {})
        os.utime(run.path / "run.json", (seconds, seconds))
        return run

    def test_the_last_one_by_default(self) -> None:
        self.make("b", 100)
        newest = self.make("a", 200)
        self.make("c", 50)
        assert find_run(None) == newest

    def test_two_of_one_moment_are_told_apart_by_their_ids(self) -> None:
        for run_id in ("b", "c", "a"):
            self.make(run_id, 100)
        assert find_run(None).run_id == "c"

    def test_one_by_its_id(self) -> None:
        wanted = self.make("a", 100)
        self.make("b", 200)
        assert find_run("a") == wanted

    def test_of_several_attempts_the_name_means_the_last_one(self) -> None:
        first, second, other = self.make("a", 100), self.make("a.2", 200), self.make("a.x", 300)
        for run, name in ((first, "a"), (second, "a"), (other, None)):
            run.write("run.json", {"name": name})
        assert [find_run(run_id) for run_id in ("a", "a.1", "a.2", "a.x")] == [second, first, second, other]

    def test_an_unknown_one_names_the_last_ones(self) -> None:
        for number in range(7):
            self.make(f"r{number}", number)
        with pytest.raises(UsageError, match="no run 'x'") as caught:
            find_run("x")
        assert caught.value.fix.startswith("the last runs: r2, r3, r4, r5, r6, or add --cluster FILE")

    @pytest.mark.parametrize(
        ("typed", "meant"),
        [
            ("20260131", "20260131-142501-9f3c"),
            ("20260131-142501-9f3d", "20260131-142501-9f3c"),
            ("trainx", "train"),
        ],
    )
    def test_a_slip_of_the_pen_is_told_what_may_be_meant(self, typed: str, meant: str) -> None:
        for name in ("20260131-142501-9f3c", "train"):
            self.make(name, 1)
        with pytest.raises(UsageError) as caught:
            find_run(typed)
        assert caught.value.fix.startswith(f"did you mean {meant}?")

    def test_none_yet_says_how_to_make_one(self) -> None:
        with pytest.raises(UsageError, match="no run was started") as caught:
            find_run(None)
        assert "ncclrun launch" in caught.value.fix
        assert "--cluster FILE" in caught.value.fix  # this machine is perhaps not the one that it was started from

    def test_what_was_never_started_does_not_count(self) -> None:
        started = self.make("a", 100)
        RunDir.create("b")
        assert find_run(None) == started


class TestProcessStart:
    """With the process id, a process's identity."""

    def test_stays_while_the_process_lives(self) -> None:
        assert process_start(os.getpid()) == process_start(os.getpid()) is not None

    def test_none_without_a_process(self) -> None:
        assert process_start(2**22 + 1) is None
