"""What the cells of the page's heat map measure, and how bright that makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

from ncclrun.console.pairs import Pair
from ncclrun.console.words import milliseconds, moment, speed

BRIGHTEST = 9
"""Levels go from 0 (bad, dark) to this (good, bright)."""
SPAN = 100.0
"""A few times the fastest connection is noise: the darkest level is for at least so many times."""


@dataclass(frozen=True)
class Metric:
    """A quantity of a pair; ``low`` and ``high`` are the ends of its scale in words, dark and bright."""

    key: str
    label: str
    value: Callable[[Pair], float | None]
    text: Callable[[float], str]
    level: Callable[[float], int]
    low: str
    high: str
    more_is_better: bool


def metrics(pairs: Sequence[Pair]) -> list[Metric]:
    """Those that anything is known of, the most telling first: throughput, connect time, path MTU."""
    made = [
        _of_size("gbits", "throughput, Gbit/s", _gbits, speed, "Gbit/s", pairs),
        _of_time(pairs),
        _of_size("mtu", "path MTU, bytes", _mtu, lambda value: f"{value:.0f}", "bytes", pairs),
    ]
    return [metric for metric in made if metric is not None]


def _gbits(pair: Pair) -> float | None:
    return pair.gbits


def _seconds(pair: Pair) -> float | None:
    return pair.seconds


def _mtu(pair: Pair) -> float | None:
    return float(pair.path.mtu) if pair.path is not None and pair.path.mtu else None


def _of_size(
    key: str,
    label: str,
    value: Callable[[Pair], float | None],
    text: Callable[[float], str],
    unit: str,
    pairs: Sequence[Pair],
) -> Metric | None:
    """Its scale goes from nothing to the most."""
    known = [found for pair in pairs if (found := value(pair)) is not None]
    if not known:
        return None
    most = max(known) or 1.0

    def level(found: float) -> int:
        return _bounded(BRIGHTEST * found / most)

    return Metric(key, label, value, text, level, f"0 {unit}", f"{text(most)} {unit}", more_is_better=True)


def _of_time(pairs: Sequence[Pair]) -> Metric | None:
    """Its scale is logarithmic, from the slowest to the fastest."""
    known = [pair.seconds for pair in pairs if pair.seconds is not None]
    if not known:
        return None
    fastest = max(min(known), 1e-6)
    slowest = max(*known, SPAN * fastest)

    def level(found: float) -> int:
        return _bounded(BRIGHTEST * log(slowest / max(found, fastest)) / log(slowest / fastest))

    label, low, high = "connect time, ms", moment(slowest), moment(fastest)
    return Metric("seconds", label, _seconds, milliseconds, level, low, high, more_is_better=False)


def _bounded(level: float) -> int:
    return min(BRIGHTEST, max(0, round(level)))
