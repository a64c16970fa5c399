"""The clock that stands still while we do."""

from __future__ import annotations

from ncclrun.commands.awake import MOST_STEP, Clock


def test_hours_asleep_are_a_moment() -> None:
    times = iter([100.0, 100.5, 7300.5, 7301.0])
    clock = Clock(lambda: next(times))
    assert [clock.tick(), clock.tick(), clock.tick()] == [0.5, 0.5 + MOST_STEP, 1.0 + MOST_STEP]
