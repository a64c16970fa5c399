"""How a run ends on a node: SIGCONT, SIGTERM once, the grace, then SIGKILL until two scans are empty."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Callable

from . import cgroup, processes

# What is left when the launcher has ended gets this long after SIGTERM: it has nobody to wait for any more.
LEFTOVER_SECONDS = 5.0
# A process that sleeps in the kernel dies when it wakes, or never: after this it is reported as a survivor.
KILL_SECONDS = 10.0
SCAN_SECONDS = 0.05
EMPTY_SCANS = 2


class Ending:
    """The stages of an end, driven by the supervisor's loop: running, terminating, clearing, killing, over.

    terminating: what we started was asked to end. clearing: it has ended, and what it left was asked to end.
    """

    def __init__(self, cookie: str, started: Callable[[], list[processes.Process]], group: Path | None = None) -> None:
        self._cookie = cookie
        self._group = group
        self._started = started
        self._empty = 0
        self._killing_until = 0.0
        self.deadline = float("inf")
        self.stage = "running"
        self.terminated = False
        """Whether what was started got a SIGTERM from us: without it, one that it speaks of was somebody else's."""
        self.survivors: list[processes.Process] = []

    def members(self) -> list[processes.Process]:
        """Everything of this run that lives on this node."""
        return processes.members(self._cookie.__eq__, os.getpid(), cgroup.members(self._group))

    @property
    def over(self) -> bool:
        """Nothing lives, or what lives can't be killed (`survivors`)."""
        return self.stage == "over"

    @property
    def stopping(self) -> bool:
        """We have asked the run's processes to end."""
        return self.stage != "running"

    def ask(self, grace: float) -> None:
        """SIGTERM to what was started, unless that was done; a shorter grace than the one that runs counts."""
        self.deadline = min(self.deadline, time.monotonic() + grace)
        if self.stage == "running":
            self.stage = "terminating"
            self.terminated = True
            processes.send_all((p for p in self.members() if p.state in "Tt"), signal.SIGCONT)
            processes.send_all(self._started(), signal.SIGTERM)

    def expect(self, grace: float) -> None:
        """What was started is about to end by itself: no signal, but no more than the grace either."""
        self.deadline = min(self.deadline, time.monotonic() + grace)
        if self.stage == "running":
            self.stage = "terminating"

    def kill(self) -> None:
        """No grace any more."""
        if self.stage not in ("killing", "over"):
            self.stage = "killing"
            self._empty = 0
            self._killing_until = time.monotonic() + KILL_SECONDS

    def clear(self) -> None:
        """What was started has ended: whatever it left is to end too."""
        if self.stage not in ("running", "terminating"):
            return
        self.stage = "clearing"
        self.deadline = min(self.deadline, time.monotonic() + LEFTOVER_SECONDS)
        left = self.members()
        processes.send_all((p for p in left if p.state in "Tt"), signal.SIGCONT)
        processes.send_all(left, signal.SIGTERM)

    def tick(self) -> None:
        """Goes on to the next stage when it is time; to be called at `wait` intervals."""
        if self.stage in ("terminating", "clearing") and time.monotonic() >= self.deadline:
            self.kill()
        if self.stage not in ("clearing", "killing"):
            return
        alive = self.members()
        self._empty = 0 if alive else self._empty + 1
        if self._empty == EMPTY_SCANS:
            self.stage = "over"
        elif self.stage == "killing":
            cgroup.kill(self._group)
            processes.send_all(alive, signal.SIGKILL)
            if alive and time.monotonic() > self._killing_until:
                self.survivors = alive
                self.stage = "over"

    def wait(self) -> float:
        """Seconds until `tick` has something to do."""
        if self.stage in ("clearing", "killing"):
            return SCAN_SECONDS
        return max(0.0, self.deadline - time.monotonic())
