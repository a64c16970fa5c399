"""Times, ages and sizes as typed."""

from __future__ import annotations

import pytest

from ncclrun.commands.amounts import age, duration, size
from ncclrun.model.errors import UsageError

DAY = 86400.0


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), ("1d", 86400)])
def test_a_time_is_read(text: str, seconds: float) -> None:
    assert duration("--stall", text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0m", "-1", "m", "10 min", "1e9", "inf", "10x"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--stall"):
        duration("--stall", text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("14d", 14 * DAY), ("36h", 1.5 * DAY), ("2w", 14 * DAY), ("0s", 0), ("1.5 h", 5400)]
)
def test_an_age_has_a_unit(text: str, seconds: float) -> None:
    assert age("--older-than", text) == seconds


@pytest.mark.parametrize(
    ("text", "count"),
    [("10G", 10**10), ("500MB", 5 * 10**8), ("2GiB", 2 << 30), ("7", 7), ("1.5k", 1500), ("3 Ti", 3 << 40)],
)
def test_a_size_may_have_a_unit(text: str, count: int) -> None:
    assert size("--keep-size", text) == count


@pytest.mark.parametrize("text", ["", "14", "-1d", "d", "1y", "inf", "1e9s", "1d2h"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--older-than"):
        age("--older-than", text)


@pytest.mark.parametrize("text", ["", "-1", "G", "10X", "nan", "1,5G"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--keep-size"):
        size("--keep-size", text)
