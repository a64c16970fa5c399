"""The lifeline of every node but node 0: says how it goes here, and hears what all must do."""

from __future__ import annotations

import selectors
import socket

from .addresses import as_seen_from, endpoint
from .lifeline import (
    DROP_SECONDS,
    LINGER_SECONDS,
    REDIAL_SECONDS,
    Account,
    Beat,
    Lifeline,
    Stop,
    Terms,
    account,
    gone,
    verdict,
)
from .line import Broken, Line


class Caller(Lifeline):
    """The one line to node 0, made anew whenever it breaks."""

    def __init__(self, selector: selectors.BaseSelector, token: str, node_rank: int, terms: Terms) -> None:
        self._selector = selector
        self._token = token
        self._node_rank = node_rank
        self._terms = terms
        self._line: Line | None = None
        self._line_heard = 0.0
        self._dial_at = 0.0
        self._hub: Account | None = None
        self._heard = self._now = 0.0
        self._gone = self._acknowledged = False
        self._given = ""
        self._beat = Beat()
        self._left_at: float | None = None

    # --- the line

    def _dial(self) -> None:
        self._dial_at = self._now + REDIAL_SECONDS
        terms = self._terms
        address = as_seen_from(terms.source or None, terms.address) or terms.address
        family, target = endpoint(address, terms.port)
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            if terms.source:
                sock.bind(endpoint(terms.source, 0)[1])
            sock.connect_ex(target)
        except OSError:
            sock.close()  # the address is not there at the moment; we try again
            return
        self._line, self._line_heard = Line(sock, self._token), self._now
        self._selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, self._ready)

    def _ready(self) -> None:
        """Connected or refused, and later whenever something comes."""
        line = self._line
        if line is None:
            return
        try:
            if self._selector.get_key(line.sock).events & selectors.EVENT_WRITE:
                self._selector.modify(line.sock, selectors.EVENT_READ, self._ready)
                line.call(self._node_rank)
            for text in line.lines():
                self._take(line, text)
        except Broken as broken:
            self._hang_up()
            if broken.closed and line.proven:
                # A supervisor that lives closes the line when it has heard of our end, or said its own.
                self._acknowledged = self._left_at is not None
                self._gone = not self._acknowledged and not self._released
            line.drop()

    def _take(self, line: Line, text: bytes) -> None:
        if not line.agreed:
            line.take_challenge(text)
            self._beat.at_once()
        else:
            try:
                self._hub = account(line.open(text))
            except (KeyError, TypeError):
                raise Broken from None
            self._heard, self._gone = self._now, False
        self._line_heard = self._now

    def _hang_up(self) -> None:
        if self._line is not None:
            self._selector.unregister(self._line.sock)
            self._line = None

    @property
    def _released(self) -> bool:
        """Node 0 has ended and said so: nobody is there any more."""
        return self._hub is not None and self._hub.state == "ended"

    # --- each turn

    def turn(self, mine: Account, now: float, controller_heard: float) -> Stop | None:
        """See Lifeline."""
        self._talk(mine, now)
        hub = self._hub
        if hub is not None and hub.stop is not None and self._given not in (hub.stop.how, "kill"):
            self._given = hub.stop.how
            return hub.stop
        if mine.state != "running":
            return None
        if self._gone:
            return gone(0)
        if self._released:
            return verdict(0, hub)
        silence = now - self._heard
        if min(silence, now - controller_heard) > self._terms.lease:
            reason = f"no word from it and from no controller for {min(silence, now - controller_heard):.0f} s"
            return Stop("term", None, reason, 0, lost=True)
        return None

    def _talk(self, mine: Account, now: float) -> None:
        self._now = now
        if self._line is not None and now - self._line_heard > DROP_SECONDS:
            line = self._line
            self._hang_up()
            line.drop()
        if self._line is None and now >= self._dial_at and not self._released:
            self._dial()
        if self._line is not None and self._line.agreed and self._beat.due(mine, now):
            self._line.say(mine.as_json())
        elif self._line is not None and self._line.agreed:
            self._line.flush()

    def leave(self, mine: Account, now: float, controller_heard: float, *, released: bool = False) -> bool:
        """Says that we have ended until node 0 has heard it, for some seconds; others may go on for hours."""
        if self._left_at is None:
            self._left_at = now
        self._talk(mine, now)
        heard = self._acknowledged or self._gone or self._released
        return heard or released or now - self._left_at > LINGER_SECONDS

    def peers(self, now: float) -> dict[int, float | None]:
        """Node 0 alone, once it was heard and while it is not gone."""
        if self._hub is None or self._gone:
            return {}
        return {0: None if self._released else round(now - self._heard, 1)}
