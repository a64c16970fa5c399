"""The heartbeat of all sessions of this process: shows nodes that we live, and notices those that fell silent."""

from __future__ import annotations

import threading
import time
from typing import Protocol

BEAT_SECONDS = 5.0
SILENCE_SECONDS = 12.0
TICK_SECONDS = 0.5


class Watched(Protocol):
    """What a session has to offer for this."""

    @property
    def last_heard(self) -> float:
        """When the node last said something, monotonic."""

    @property
    def gone(self) -> bool:
        """Whether it has ended."""

    def beat(self) -> None:
        """Says that we live; may block while the link is stuck, but not after ``close``."""

    def close(self, reason: str = "closed", detail: str = "") -> None:
        """Ends it."""


class Silence:
    """Counts for how long a session was quiet while we were awake to hear it.

    Time in which this process did not run (a laptop asleep, Ctrl-Z) is nobody's silence: what a node said meanwhile
    may wait unread.
    """

    def __init__(self) -> None:
        self._heard = 0.0
        self.seconds = 0.0

    def tick(self, last_heard: float, elapsed: float) -> float:
        """Takes ``elapsed`` seconds since the last tick into account and returns the seconds of silence."""
        if last_heard != self._heard:
            self._heard, self.seconds = last_heard, 0.0
        else:
            self.seconds += min(elapsed, 2 * TICK_SECONDS)
        return self.seconds


class Pulse:
    """Two threads for all sessions: one beats, one listens, since a beat may hang on the very link that is dead.

    Both end when there is nothing to watch and come back with the next session.
    """

    def __init__(self) -> None:
        self._sessions: dict[Watched, Silence] = {}
        self._lock = threading.Lock()
        self._running = False

    def watch(self, session: Watched) -> None:
        """Takes a session in until it is gone."""
        with self._lock:
            self._sessions[session] = Silence()
            if self._running:
                return
            self._running = True
        stop = threading.Event()
        threading.Thread(target=self._listen, args=(stop,), name="ncclrun-listen", daemon=True).start()
        threading.Thread(target=self._beat, args=(stop,), name="ncclrun-beat", daemon=True).start()

    def _alive(self) -> list[tuple[Watched, Silence]]:
        """The sessions that live; empty once, when the threads are to end."""
        with self._lock:
            self._sessions = {s: silence for s, silence in self._sessions.items() if not s.gone}
            self._running = bool(self._sessions)
            return list(self._sessions.items())

    def _listen(self, stop: threading.Event) -> None:
        last = time.monotonic()
        while alive := self._alive():
            time.sleep(TICK_SECONDS)
            now = time.monotonic()
            elapsed, last = now - last, now
            for session, silence in alive:
                if silence.tick(session.last_heard, elapsed) >= SILENCE_SECONDS:
                    session.close("silent", f"nothing was heard for {SILENCE_SECONDS:.0f} s")
        stop.set()

    def _beat(self, stop: threading.Event) -> None:
        while not stop.wait(BEAT_SECONDS):
            with self._lock:
                sessions = list(self._sessions)
            for session in sessions:
                session.beat()


_PULSE = Pulse()


def watch(session: Watched) -> None:
    """Takes a session into the process's one pulse."""
    _PULSE.watch(session)
