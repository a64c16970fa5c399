"""A clock that stands still while we do: silence is what *we* heard nothing in, not what we slept through."""

from __future__ import annotations

import time

# Less than the least lease (3 s), by as much as lies between two beats: what came meanwhile is read as of before.
MOST_STEP = 1.5


class Clock:
    """Monotonic seconds in which this process really ran, if `tick` is called at least every second.

    A process that was stopped, or whose machine was suspended, finds that at most MOST_STEP seconds have gone by, so it
    first hears what has come meanwhile, and judges nobody by its own absence.
    """

    def __init__(self) -> None:
        self._last = time.monotonic()
        self.now = 0.0

    def tick(self) -> float:
        """Goes on; returns ``now``."""
        last, self._last = self._last, time.monotonic()
        self.now += min(MOST_STEP, self._last - last)
        return self.now
