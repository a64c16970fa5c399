"""torchrun's reports, as torch wrote them, are read to the code, the signal and the first worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncclrun.diagnosis.torchrun import parse_torchrun_report

REPORTS = Path(__file__).with_name("torchrun_reports")


def report(name: str) -> str:
    return (REPORTS / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("exit7", [(1, 7, None, True), (0, None, 15, False)]),
        ("segv", [(0, None, 11, True), (1, None, 15, False)]),
        ("rec", [(1, 1, None, True), (0, None, 15, False)]),
        ("nofile", [(0, 2, None, True), (1, 2, None, False)]),
        ("bad", []),
    ],
)
def test_a_report_names_every_failed_worker_the_first_one_first(
    name: str, expected: list[tuple[int, int | None, int | None, bool]]
) -> None:
    found = parse_torchrun_report(report(name))
    assert [(f.local_rank, f.code, f.signal, f.root) for f in found] == expected


def test_the_form_of_torch_1_13_names_no_signal() -> None:
    text = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2023-02-03_10:11:12
  host      : gpu1
  rank      : 5 (local_rank: 1)
  exitcode  : -9 (pid: 4242)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 4242
============================================================"""
    (found,) = parse_torchrun_report(text)
    assert (found.local_rank, found.pid, found.code, found.signal, found.root) == (1, 4242, None, 9, True)


def test_a_report_that_was_cut_off_is_read_from_the_log_line() -> None:
    text = report("exit7").split("Traceback")[0]
    (found,) = parse_torchrun_report(text)
    assert (found.local_rank, found.code, found.root) == (1, 7, True)


def test_of_two_reports_the_last_counts() -> None:
    (first, *_) = parse_torchrun_report(report("exit7") + report("segv"))
    assert (first.local_rank, first.signal) == (0, 11)


def test_what_is_no_report_gives_nothing() -> None:
    assert parse_torchrun_report("Root Cause (first observed failure):\n[0]: nonsense") == ()
