"""A log on its node keeps its end at stable offsets, and who reads gets no byte that was not written."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ncclrun.node import follow, kernel, logfile
from ncclrun.node.logfile import LogFile

MIB = 1 << 20
LINE = 16


def text(start: int, end: int) -> bytes:
    """What every test writes, by offset: numbered lines."""
    lines = b"".join(b"%015d\n" % number for number in range(start // LINE, end // LINE + 1))
    return lines[start % LINE :][: end - start]


def write(log: LogFile, start: int, end: int, piece: int = 64 << 10) -> None:
    for place in range(start, end, piece):
        log.append(text(place, min(end, place + piece)))


def on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_within_the_limit_everything_stays(tmp_path: Path) -> None:
    log = LogFile(tmp_path, "0.out", MIB)
    write(log, 0, MIB)
    assert (tmp_path / "0.out.log").read_bytes() == text(0, MIB)
    assert (log.lost, log.dropped) == (0, 0)


def test_the_end_stays_at_its_offsets_and_the_disk_gets_the_beginning_back(tmp_path: Path) -> None:
    log = LogFile(tmp_path, "0.out", MIB)
    write(log, 0, 20 * MIB)
    file = tmp_path / "0.out.log"
    assert file.stat().st_size == 20 * MIB
    assert on_disk(file) <= MIB + MIB // logfile.STEPS + 2 * logfile.BLOCK
    assert file.read_bytes()[log.dropped :] == text(log.dropped, 20 * MIB)
    assert 18 * MIB < log.dropped <= 19 * MIB
    assert log.lost == 0


def test_a_reader_goes_on_where_the_rest_begins_and_knows_how_much_is_missing(tmp_path: Path) -> None:
    log = LogFile(tmp_path, "0.out", MIB)
    write(log, 0, 100)
    reader = follow.Log(tmp_path, "0.out", 0)
    assert reader.next(MIB) == text(0, 100)
    write(log, 100, 5 * MIB)
    data = reader.next(MIB)
    first = reader.offset - len(data)
    assert (reader.missing, first) == (log.dropped - 100, log.dropped)
    assert data == text(first, first + MIB)
    assert reader.has_more()
    reader.close()


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_at_the_border_no_byte_is_missing_that_is_there(tmp_path: Path, offset: int) -> None:
    log = LogFile(tmp_path, "0.out", MIB)
    write(log, 0, 5 * MIB)
    reader = follow.Log(tmp_path, "0.out", log.dropped + offset)
    data = reader.next(1000)
    assert data == text(log.dropped + max(0, offset), log.dropped + max(0, offset) + 1000)
    assert reader.missing == max(0, -offset)
    reader.close()


def test_what_is_cut_while_it_is_read_is_not_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogFile(tmp_path, "0.out", MIB)
    write(log, 0, MIB)
    reader = follow.Log(tmp_path, "0.out", 0)
    pread, late = os.pread, ["the writer comes first once"]

    def slow(fd: int, size: int, offset: int) -> bytes:
        if size == 1000 and late:
            late.clear()
            write(log, MIB, 5 * MIB)
        return pread(fd, size, offset)

    monkeypatch.setattr(os, "pread", slow)
    assert reader.next(1000) == text(log.dropped, log.dropped + 1000)
    assert reader.missing == log.dropped > 0
    reader.close()


def test_a_reader_that_races_with_the_writer_gets_nothing_but_what_was_written(tmp_path: Path) -> None:
    end = 48 * MIB
    log = LogFile(tmp_path, "0.out", MIB)
    reader = follow.Log(tmp_path, "0.out", 0)
    writer = threading.Thread(target=write, args=(log, 0, end))
    writer.start()
    got = 0
    while reader.offset < end:
        data = reader.next(100_000)
        assert data == text(reader.offset - len(data), reader.offset)
        got += len(data)
    writer.join()
    assert got + reader.missing == end
    assert reader.missing <= log.dropped
    reader.close()


def test_the_last_lines_are_not_looked_for_in_what_is_gone(tmp_path: Path) -> None:
    log = LogFile(tmp_path, "0.out", MIB)
    write(log, 0, 5 * MIB)
    reader = follow.Log(tmp_path, "0.out", 0)
    reader.go_back(2)
    assert reader.next(MIB) == text(5 * MIB - 2 * LINE, 5 * MIB)
    reader.go_back(10 * MIB)
    assert reader.offset == log.dropped
    reader.close()


def test_the_index_shrinks_too_and_still_knows_the_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfile, "INDEX_SECONDS", 0.0)
    log = LogFile(tmp_path, "0.out", MIB)
    write(log, 0, 10 * MIB, piece=256)
    index = tmp_path / "0.out.idx"
    assert index.stat().st_size > 10 * MIB // 256 * 16
    assert on_disk(index) < index.stat().st_size // 4
    fd = os.open(index, os.O_RDONLY)
    times = [logfile.time_of(fd, place) for place in range(log.dropped, 10 * MIB, 10_007)]
    os.close(fd)
    assert times[0] > 0
    assert times == sorted(times)


def test_a_removed_log_costs_what_was_in_it_and_readers_are_told(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = LogFile(tmp_path / "logs", "0.out", MIB)
    write(log, 0, 5 * MIB)
    dropped = log.dropped
    shutil.rmtree(tmp_path / "logs")
    (tmp_path / "logs").mkdir()
    log.reopen(tmp_path / "logs")
    assert (log.lost, log.dropped) == (5 * MIB - dropped, dropped)
    reader = follow.Log(tmp_path / "logs", "0.out", 7)
    assert not reader.has_more()
    write(log, 5 * MIB, 5 * MIB + 100)
    assert reader.next(MIB) == text(5 * MIB, 5 * MIB + 100)
    assert reader.missing == 5 * MIB - 7
    reader.close()


def test_a_log_that_is_still_there_loses_nothing_when_it_is_opened_again(tmp_path: Path) -> None:
    log = LogFile(tmp_path, "0.out", MIB)
    write(log, 0, 5 * MIB)
    (tmp_path / "0.out.idx").unlink()
    log.reopen(tmp_path)
    assert log.lost == 0
    reader = follow.Log(tmp_path, "0.out", 0)
    assert reader.next(100) == text(log.dropped, log.dropped + 100)
    reader.close()


@pytest.fixture
def no_holes(tmp_path: Path) -> Iterator[Path]:
    """A file system that can't give parts of a file back."""
    if os.getuid() != 0:
        pytest.skip("mounting needs root")
    subprocess.run(["mount", "-t", "ramfs", "none", str(tmp_path)], check=True)
    try:
        with (tmp_path / "file").open("wb") as file, pytest.raises(OSError, match="not supported"):
            kernel.punch_hole(file.fileno(), 0, 4096)
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_where_no_hole_can_be_made_the_beginning_stays_and_the_rest_is_counted(no_holes: Path) -> None:
    log = LogFile(no_holes, "0.out", MIB)
    write(log, 0, 3 * MIB)
    kept = (no_holes / "0.out.log").read_bytes()
    assert kept == text(0, len(kept))
    assert MIB < len(kept) <= MIB + MIB // logfile.STEPS + logfile.BLOCK
    assert (log.lost, log.dropped) == (3 * MIB - len(kept), 0)
    assert "can't give back the beginning: Operation not supported" in log.why
    reader = follow.Log(no_holes, "0.out", 0)
    assert (reader.next(100), reader.missing) == (text(0, 100), 0)
    reader.close()
