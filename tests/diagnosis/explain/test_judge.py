"""The end that a run's record knows, beside what its logs say."""

from __future__ import annotations

from ncclrun.diagnosis.explain.judge import Recorded, judge


def test_a_record_that_says_much_is_cut() -> None:
    told = judge([], Recorded(reason="failed", cause="rank 0 on a: " + "x" * 5000))
    assert told.recorded.startswith("failed: rank 0 on a: xxx")
    assert len(told.recorded) < 400
