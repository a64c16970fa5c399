"""What is being waited for while the network is looked at, as one live line: calling, asking, probing, measuring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ncclrun.console.words import count, speed
from ncclrun.model.endevents import Ended
from ncclrun.model.events import Connected, Connecting, Event, Failure, RunCreated, Unreachable
from ncclrun.model.netevents import Linked, Measuring, Pinged, Probed, Probing, Resolved, Transferred
from ncclrun.model.words import listed

Stage = Literal["", "connecting", "asking", "probing", "confirming", "bandwidth"]

ALL_PAIRS = "all pairs"
"""The scheme that goes without saying."""


class NetworkStages:
    """Takes every event; of a launch, which has phases of its own, it only tells the probing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()
        self._stage: Stage = ""
        self._launch = False
        self._all: tuple[str, ...] = ()
        self._waiting: list[str] = []
        """Nodes that have not answered yet."""
        self._there: list[str] = []
        """Those that have."""
        self._probing: Probing | None = None
        self._tried: set[str] = set()
        """Nodes that are through with their attempts: each tells all of its own at once."""
        self._measuring: Measuring | None = None
        self._transfers: list[Transferred] = []

    def add(self, event: Event) -> None:
        """One event; most change nothing."""
        if isinstance(event, RunCreated):
            self._launch = True
        elif isinstance(event, Connecting):
            self._all, self._waiting = event.nodes, list(event.nodes)
            self._enter("connecting")
        elif isinstance(event, (Connected, Unreachable, Pinged)) and self._stage == "connecting":
            self._heard(event)
        elif isinstance(event, Probing):
            self._probing, self._tried = event, set()
            self._enter("probing")
        elif isinstance(event, Linked):
            self._tried.add(event.node)
        elif isinstance(event, Resolved) and not self._launch:
            self._enter("confirming")
        elif isinstance(event, Measuring):
            self._measuring = event
            self._enter("bandwidth")
        elif isinstance(event, Transferred):
            self._transfers.append(event)
        elif isinstance(event, (Probed, Pinged, Failure, Ended)):
            self._enter("")

    def live(self) -> str:
        """``trying 36 connections between 3 nodes (2 s): 1 of 3 nodes done``; "" for nothing.

        The time stands before what a narrow terminal may cut off.
        """
        head, more = {
            "": lambda: ("", ""),
            "connecting": self._connecting,
            "asking": lambda: (f"asking {count(len(self._there), 'node')} for interfaces, GPUs and Python", ""),
            "probing": self._trying,
            "confirming": lambda: ("confirming packet sizes, ports, names and NCCL's own answer", ""),
            "bandwidth": self._bandwidth,
        }[self._stage]()
        return f"{head} ({self._clock() - self._since:.0f} s){more}" if head else ""

    def _enter(self, stage: Stage) -> None:
        if stage != self._stage:
            self._stage, self._since = stage, self._clock()

    def _heard(self, event: Connected | Unreachable | Pinged) -> None:
        """A node that does not answer has a row of `ping`, or is unreachable."""
        if event.node in self._waiting:
            self._waiting.remove(event.node)
            if isinstance(event, Connected):
                self._there.append(event.node)
        if not self._waiting:
            self._enter("asking" if self._there else "")

    def _connecting(self) -> tuple[str, str]:
        done = len(self._all) - len(self._waiting)
        return f"connecting {done}/{len(self._all)}", f": waiting for {listed(self._waiting)}"

    def _trying(self) -> tuple[str, str]:
        if self._probing is None:
            return "", ""
        what = f"{count(self._probing.connections, 'connection')} between {count(self._probing.nodes, 'node')}"
        kind = [] if self._probing.scheme == ALL_PAIRS else [self._probing.scheme]
        done = [f"{len(self._tried)} of {count(self._probing.nodes, 'node')} done"] if self._tried else []
        more = "; ".join([*kind, *done])
        return f"trying {what}", f": {more}" if more else ""

    def _bandwidth(self) -> tuple[str, str]:
        """``bandwidth: round 3 of 7 (7 s), 12 pairs measured, slowest 0.94 Gbit/s: gpu1 -> gpu2``."""
        if self._measuring is None:
            return "", ""
        done = [(event.gbits, event) for event in self._transfers if event.gbits is not None]
        slowest = ""
        if done:
            gbits, event = min(done, key=lambda pair: pair[0])
            slowest = f", slowest {speed(gbits)} Gbit/s: {event.node} -> {event.peer}"
        measured = f", {count(len(self._transfers), 'pair')} measured" if self._transfers else ""
        return f"bandwidth: round {self._measuring.round} of {self._measuring.rounds}", f"{measured}{slowest}"
