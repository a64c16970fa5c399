"""A run's logs on this machine: byte for byte, by one writer, and truthful on a full disk."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ncclrun.commands import logfiles
from ncclrun.commands.history import RunDir
from ncclrun.commands.logfiles import LogWriter, Place, ReadAlong
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

    def test_what_is_missing_is_a_hole_that_takes_no_room_and_no_offset(self) -> None:
        run = RunDir.create("r")
        writer = LogWriter(run)
        writer.append(OUT, 1.0, b"abc")
        writer.skip(OUT, 2.0, 1 << 30)
        writer.append(OUT, 3.0, b"d")
        writer.close()
        file = run.logs / "rank0.out"
        assert file.stat().st_size == 4 + (1 << 30)
        assert file.stat().st_blocks * 512 < 1 << 20
        assert (run.logs / "order").read_text().splitlines() == [
            "1.000000 rank0.out 0 3",
            f"2.000000 rank0.out 3 {1 << 30} missing",
            f"3.000000 rank0.out {3 + (1 << 30)} 1",
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
        monkeypatch.setattr(logfiles, "OPEN_FILES", 2)
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

    def test_who_reads_along_begins_where_the_writer_is_and_writes_nothing(self) -> None:
        run = RunDir.create("r")
        writer = LogWriter(run)
        writer.append(Place(1, 5, "err"), 0.0, b"12345")
        reader = ReadAlong(run)
        reader.append(Place(1, 5, "err"), 0.0, b"678")
        assert reader.offsets(place_of, 2)["1.err"] == 5
        assert (run.logs / "rank5.err").read_bytes() == b"12345"
        writer.close()

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

    def test_what_is_missing_is_told_or_the_stream_ends(self) -> None:
        run = RunDir.create("r")
        writer = LogWriter(run)
        with nearly_full():
            for rank in range(100):  # the order file is full now
                writer.append(Place(0, rank, "out"), 0.0, b"x")
            writer.skip(OUT, 0.0, 5)
        writer.append(OUT, 9.0, b"y")
        writer.close()
        assert (run.logs / "rank0.out").read_bytes() == b"x"
        assert b"missing" not in (run.logs / "order").read_bytes()
        assert writer.lost == 1

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
