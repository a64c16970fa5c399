"""Seconds in which this process ran: what came while it was halted waits unheard, and is nobody's silence."""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_STEP = 2.0
"""Seconds between two ticks from which on we did not run: a laptop asleep, Ctrl-Z."""


class Clock:
    """Goes on with each ``tick``, by MOST_STEP at most; ``monotonic`` is what it goes by."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last = monotonic()
        self.now = 0.0

    def tick(self) -> float:
        """Goes on; returns ``now``."""
        last, self._last = self._last, self._monotonic()
        self.now += min(MOST_STEP, self._last - last)
        return self.now
