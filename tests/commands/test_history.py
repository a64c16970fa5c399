"""Runs as this machine remembers them: ids, directories, and logs that stay truthful on a full disk."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ncclrun.commands import history
from ncclrun.commands.history import (
    LogWriter,
    Place,
    RunDir,
    check_run_id,
    find_run,
    new_run_id,
    process_start,
    state_home,
)
from ncclrun.model.errors import NcclrunError, UsageError

OUT = Place(0, 0, "out")
ERR = Place(0, 0, "err")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def place_of(stream: str) -> Place:
    """Places on node 1, whose first rank is 4."""
    who, _, kind = stream.partition(".")
    return Place(1, None if who == "launcher" else 4 + int(who), kind)


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

    @pytest.mark.parametrize("text", ["", "{", "\xff"])
    def test_a_damaged_record_is_named(self, text: str) -> None:
        run = RunDir.create("r")
        (run.path / "run.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(NcclrunError, match=r"can't read .*run\.json"):
            run.read("run.json")

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

    def test_an_unknown_one_names_the_last_ones(self) -> None:
        for number in range(7):
            self.make(f"r{number}", number)
        with pytest.raises(UsageError, match="no run 'x'") as caught:
            find_run("x")
        assert caught.value.fix == "the last ones: r2, r3, r4, r5, r6"

    def test_none_yet_says_how_to_make_one(self) -> None:
        with pytest.raises(UsageError, match="no run was started") as caught:
            find_run(None)
        assert "ncclrun launch" in caught.value.fix

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


class TestLogWriter:
    """Bytes, order, offsets."""

    def test_streams_are_kept_apart_byte_for_byte(self) -> None:
        run = RunDir.create("r")
        writer = LogWriter(run)
        for place, data in [(OUT, b"a\xff"), (ERR, b"\0\r"), (OUT, b"\nb"), (Place(1, None, "out"), b"l")]:
            writer.append(place, 1.5, data)
        writer.close()
        files = {path.name: path.read_bytes() for path in run.logs.iterdir() if path.name != "order"}
        assert files == {"rank0.out": b"a\xff\nb", "rank0.err": b"\0\r", "launcher1.out": b"l"}

    def test_the_order_file_says_what_came_when_and_where(self) -> None:
        run = RunDir.create("r")
        writer = LogWriter(run)
        writer.append(OUT, 1.5, b"abc")
        writer.append(ERR, 2.25, b"x")
        writer.append(OUT, 3.0, b"d")
        writer.close()
        assert (run.logs / "order").read_text().splitlines() == [
            "1.500000 rank0.out 0 3",
            "2.250000 rank0.err 0 1",
            "3.000000 rank0.out 3 1",
        ]

    def test_offsets_are_by_the_nodes_names_for_its_streams(self) -> None:
        run = RunDir.create("r")
        writer = LogWriter(run)
        writer.append(Place(1, 5, "err"), 0.0, b"12345")
        writer.append(Place(1, None, "out"), 0.0, b"12")
        expected = dict.fromkeys(["launcher.err", "0.out", "0.err", "1.out"], 0) | {"1.err": 5, "launcher.out": 2}
        assert writer.offsets(place_of, 2) == expected
        writer.close()

    def test_a_later_one_goes_on_where_it_ended(self) -> None:
        run = RunDir.create("r")
        for data in (b"one", b"two"):
            writer = LogWriter(run)
            writer.append(Place(1, 4, "out"), 0.0, data)
            writer.close()
        assert (run.logs / "rank4.out").read_bytes() == b"onetwo"
        assert (run.logs / "order").read_text().splitlines()[1].endswith(" 3 3")

    def test_more_streams_than_files_may_be_open(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(history, "OPEN_FILES", 2)
        run = RunDir.create("r")
        writer = LogWriter(run)
        before = len(list(Path("/proc/self/fd").iterdir()))
        for data in (b"a", b"b"):
            for rank in range(5):
                writer.append(Place(0, rank, "out"), 0.0, data)
        assert len(list(Path("/proc/self/fd").iterdir())) == before + 2
        writer.close()
        assert [(run.logs / f"rank{rank}.out").read_bytes() for rank in range(5)] == [b"ab"] * 5

    def test_one_process_writes_and_the_next_may_when_it_is_gone(self) -> None:
        run = RunDir.create("r")
        writer = LogWriter(run)
        with pytest.raises(UsageError, match="another ncclrun follows run r") as refused:
            LogWriter(run)
        assert "ncclrun logs -f r" in refused.value.fix
        writer.close()
        LogWriter(run).close()

    def test_a_directory_that_can_not_be_written_is_an_error_for_people(self) -> None:
        run = RunDir.create("r")
        (run.logs / "order").mkdir()
        with pytest.raises(NcclrunError, match="can't write logs in"):
            LogWriter(run)


FULL_AT = 1000


@contextmanager
def nearly_full() -> Iterator[None]:
    """No file grows beyond 1000 bytes: a disk that gets full, without one.

    Only around what writes: pytest's own output may go to a file too.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_AT, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


class TestFullDisk:
    """It costs bytes, which are counted, and never the run; what is here stays a stream's beginning."""

    def test_what_does_not_fit_is_counted(self) -> None:
        run = RunDir.create("r")
        writer = LogWriter(run)
        with nearly_full():
            writer.append(OUT, 0.0, b"a" * 900)
            writer.append(OUT, 0.0, b"b" * 300)
            writer.append(ERR, 0.0, b"c" * 10)
        writer.close()
        assert writer.lost == 1200 - FULL_AT
        assert (run.logs / "rank0.out").read_bytes() == b"a" * 900 + b"b" * 100
        assert (run.logs / "rank0.err").read_bytes() == b"c" * 10

    def test_it_says_what_the_disk_said(self) -> None:
        writer = LogWriter(RunDir.create("r"))
        with nearly_full():
            writer.append(OUT, 0.0, b"a" * FULL_AT)
            writer.append(OUT, 0.0, b"b")
            writer.append(ERR, 0.0, b"c" * FULL_AT)
            writer.append(ERR, 0.0, b"c")
        writer.close()
        assert (writer.lost, writer.trouble) == (2, "File too large")

    def test_a_stream_with_a_gap_takes_no_more(self) -> None:
        run = RunDir.create("r")
        writer = LogWriter(run)
        with nearly_full():
            writer.append(Place(1, 4, "out"), 0.0, b"a" * (FULL_AT + 5))
        writer.append(Place(1, 4, "out"), 0.0, b"after the gap")
        assert writer.lost == 5 + len(b"after the gap")
        assert writer.offsets(place_of, 1)["0.out"] == FULL_AT
        writer.close()

    def test_a_later_writer_fills_the_gap(self) -> None:
        run = RunDir.create("r")
        writer = LogWriter(run)
        with nearly_full():
            writer.append(OUT, 0.0, b"a" * (FULL_AT + 5))
        writer.close()
        writer = LogWriter(run)
        writer.append(OUT, 0.0, b"b" * 5)
        writer.close()
        assert (run.logs / "rank0.out").read_bytes() == b"a" * FULL_AT + b"b" * 5

    def test_the_order_file_keeps_whole_lines_only(self) -> None:
        run = RunDir.create("r")
        writer = LogWriter(run)
        with nearly_full():
            for rank in range(100):  # far more lines than fit
                writer.append(Place(0, rank, "out"), 0.0, b"x")
        writer.append(Place(0, 0, "out"), 9.0, b"y")
        writer.close()
        order = (run.logs / "order").read_bytes()
        assert len(order) <= FULL_AT + 100
        assert order.endswith(b"\n9.000000 rank0.out 1 1\n")
        assert {len(line.split()) for line in order.splitlines()} == {4}
        assert writer.lost == 0
