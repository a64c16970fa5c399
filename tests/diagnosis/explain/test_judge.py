"""The end that a run's record knows, beside what its logs say."""

from __future__ import annotations

from ncclrun.diagnosis.explain.judge import Recorded, judge
from tests.diagnosis.explain.logs import scan


def test_a_record_that_says_much_is_cut() -> None:
    told = judge([], Recorded(reason="failed", cause="rank 0 on a: " + "x" * 5000))
    assert told.recorded.startswith("failed: rank 0 on a: xxx")
    assert len(told.recorded) < 400


def test_in_a_run_what_the_same_rank_quoted_and_went_on_from_is_not_what_ended_it() -> None:
    quoted = "sample: gpu1:1:1 [0] NCCL INFO connect to 172.17.0.1<5> returned Connection refused, retrying (9/34)"
    steps = "\n".join(f"step {step} loss 0.5" for step in range(3))
    raised = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: bad batch\n'
    log = scan(f"{steps}\n{quoted}\nsample: OSError: No space left on device\n{steps}\n{raised}", rank=1)
    diagnosis = judge([log], Recorded(run_id="r", reason="failed", cause="rank 1: exit code 1", rank=1))
    assert diagnosis.found is not None
    assert (diagnosis.found.id, diagnosis.others) == ("program", ())
