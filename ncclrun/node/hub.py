"""Node 0's end of the lifeline: hears every other supervisor, and tells all when one of them does not go on."""

from __future__ import annotations

import errno
import selectors
import socket
from typing import Callable

from .lifeline import LINGER_SECONDS, Account, Beat, Lifeline, Stop, Terms, account, gone, silent, verdict
from .line import Broken, Line

# As in listener.py: strangers are few at a time, each for some seconds.
MOST_STRANGERS = 256
STRANGER_SECONDS = 10.0
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


class Peer:
    """Another node's supervisor as node 0 knows it."""

    def __init__(self) -> None:
        self.line: Line | None = None
        self.said: Account | None = None
        self.heard = 0.0
        self.gone = False

    @property
    def ended(self) -> bool:
        """Whether it has said its end."""
        return self.said is not None and self.said.state == "ended"

    def over(self, now: float, lease: float) -> bool:
        """Whether nothing more is to be awaited from it."""
        return self.ended or self.gone or now - self.heard > lease


class Hub(Lifeline):
    """The listening socket that `prepare` opened, and a line to each peer that called."""

    def __init__(self, selector: selectors.BaseSelector, sock: socket.socket, token: str, terms: Terms) -> None:
        self._selector = selector
        self._sock = sock
        self._token = token
        self._lease = terms.lease
        self._peers = {node_rank: Peer() for node_rank in range(1, len(terms.hosts))}
        # Callers, proven or not: the node_rank that they claim (-1: nothing said yet), and since when they are here.
        self._callers: dict[Line, tuple[int, float]] = {}
        self._beat = Beat()
        self._mine = Account("running", False, "")
        self._now = 0.0
        self._left_at: float | None = None
        self._order: Stop | None = None
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ, self._accept)

    # --- callers

    def _accept(self) -> None:
        try:
            sock, _ = self._sock.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                self._drop_stranger()
            return  # else the caller gave up
        sock.setblocking(False)
        line = Line(sock, self._token)
        self._callers[line] = (-1, self._now)
        self._selector.register(sock, selectors.EVENT_READ, self._reader(line))
        if len(self._callers) > len(self._peers) + MOST_STRANGERS:
            self._drop_stranger()

    def _reader(self, line: Line) -> Callable[[], None]:
        return lambda: self._read(line)

    def _drop_stranger(self) -> None:
        """The oldest of those who have proven nothing."""
        found = next((line for line in self._callers if not line.proven), None)
        if found is not None:
            self._forget(found)
            found.drop()

    def _forget(self, line: Line) -> int:
        """Takes a connection out of everything; whose it was."""
        self._selector.unregister(line.sock)
        node_rank, _ = self._callers.pop(line)
        peer = self._peers.get(node_rank)
        if peer is not None and peer.line is line:
            peer.line = None
        return node_rank

    def _read(self, line: Line) -> None:
        try:
            for text in line.lines():
                if line in self._callers:  # else what it said before was its end
                    self._take(line, text)
        except Broken as broken:
            was_current = any(peer.line is line for peer in self._peers.values())
            peer = self._peers.get(self._forget(line))
            # A supervisor that lives closes no line without having said `ended`.
            if broken.closed and was_current and peer is not None:
                peer.gone = True
            line.drop()

    def _take(self, line: Line, text: bytes) -> None:
        if not line.agreed:
            self._callers[line] = (line.answer(text), self._now)
            return
        value = line.open(text)
        peer = self._peers.get(self._callers[line][0])
        if peer is None:
            raise Broken
        try:
            peer.said = account(value)
        except (KeyError, TypeError):
            raise Broken from None
        peer.heard, peer.gone = self._now, False
        if peer.line is not line:
            if peer.line is not None:  # it called anew: the old connection had broken, and we had not noticed
                old = peer.line
                self._forget(old)
                old.drop()
            peer.line = line
            self._beat.at_once()
        if peer.ended:
            # Whose first words these are has no proof yet that who closes the line is a supervisor, which has heard it.
            line.say(self._mine.as_json())
            self._forget(line)
            line.close()

    # --- each turn

    def turn(self, mine: Account, now: float, controller_heard: float) -> Stop | None:
        """See Lifeline."""
        self._now = now
        for line, (_, since) in list(self._callers.items()):
            if not line.proven and now - since > STRANGER_SECONDS:
                self._forget(line)
                line.drop()
        self._tell(mine)
        return None if mine.stop is not None else self._judge(controller_heard)

    def _tell(self, mine: Account) -> None:
        self._mine = mine
        due = self._beat.due(mine, self._now)
        for peer in self._peers.values():
            if peer.line is not None:
                if due:
                    peer.line.say(mine.as_json())
                peer.line.flush()

    def _judge(self, controller_heard: float) -> Stop | None:
        for node_rank, peer in self._peers.items():
            found = verdict(node_rank, peer.said) or (gone(node_rank) if peer.gone else None)
            if found is not None:
                return found
            silence = self._now - peer.heard
            if not peer.ended and min(silence, self._now - controller_heard) > self._lease:
                return silent(node_rank, silence)
        return None

    def leave(self, mine: Account, now: float, controller_heard: float, *, released: bool = False) -> bool:
        """Node 0 may be through long before the others: it stays for them as long as they run.

        Those that were told to stop need nobody any more once they have heard it.
        """
        if self._left_at is None:
            self._left_at = now
        if self._order is None:
            self._order = mine.stop or self.turn(mine._replace(state="running"), now, controller_heard)
            self._left_at = now
        else:
            self._now = now
            self._tell(mine._replace(state="stopping", stop=self._order))
        told = self._order is not None and now - self._left_at > LINGER_SECONDS
        if not (told or released) and not all(peer.over(now, self._lease) for peer in self._peers.values()):
            return False
        for line in list(self._callers):
            if line.proven:
                line.say(mine._replace(stop=self._order).as_json())
            self._forget(line)
            line.close()
        return True

    def peers(self, now: float) -> dict[int, float | None]:
        """Seconds of silence of each node that was ever heard and is not gone; None for one that has ended."""
        known = {rank: peer for rank, peer in self._peers.items() if peer.said is not None and not peer.gone}
        return {rank: None if peer.ended else round(now - peer.heard, 1) for rank, peer in known.items()}
