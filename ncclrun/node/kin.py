"""A supervisor's side of the lifeline: the clock that it judges by, and when its controller was heard."""

from __future__ import annotations

import contextlib

from . import awake, lifeline, rundir


class Kin:
    """The other nodes of the run, if there is a ``line`` to them."""

    def __init__(self, run: rundir.RunDir) -> None:
        self.line: lifeline.Lifeline | None = None
        self._run = run
        self._clock = awake.Clock()
        self._controller_heard = 0.0
        self._peers: set[int] = set()
        self._peers_at = 0.0

    def hear_controller(self) -> None:
        """It said something; be it only that it is there."""
        self._controller_heard = self._clock.now

    def turn(self, mine: lifeline.Account) -> lifeline.Stop | None:
        """To be called at each turn of the loop: says ``mine``, and returns what all are to do, if that is new."""
        now = self._clock.tick()
        if self.line is None:
            return None
        order = self.line.turn(mine, now, self._controller_heard)
        self._keep_peers(self.line, now)
        return order

    def leave(self, mine: lifeline.Account, *, released: bool) -> bool:
        """To be called after the end, until it is True: no other supervisor needs this one (see Lifeline)."""
        now = self._clock.tick()
        if self.line is None or self.line.leave(mine, now, self._controller_heard, released=released):
            return True
        self._keep_peers(self.line, self._clock.now)
        return False

    def _keep_peers(self, line: lifeline.Lifeline, now: float) -> None:
        peers = line.peers(now)
        if peers is not None and (now >= self._peers_at or peers.keys() != self._peers):
            silent = any(seconds is not None and seconds > lifeline.SILENT_SECONDS for seconds in peers.values())
            pause = lifeline.BEAT_SECONDS if silent else lifeline.PEERS_SECONDS
            self._peers_at, self._peers = now + pause, set(peers)
            with contextlib.suppress(OSError):  # a full disk: the next ones may fit
                self._run.write_peers(peers)
