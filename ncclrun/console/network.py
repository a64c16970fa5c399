"""When a view shows what was seen of the network: before the warnings of `resolve`, below the table of `ping`."""

from __future__ import annotations

from ncclrun.console.matrix import matrix_text
from ncclrun.console.pairs import Seen
from ncclrun.console.resolved import conclusion_text, resolved_text
from ncclrun.model.events import Ended, Event, Failure, Pinged, RunCreated, Warn, Written


class NetworkBoard:
    """Takes every event of a command."""

    def __init__(self) -> None:
        self._seen = Seen()
        self._silent = False
        """`launch` says it in a line, `ping` at its end."""

    def add(self, event: Event) -> None:
        """One event; most say nothing of the network."""
        if isinstance(event, (RunCreated, Pinged)):
            self._silent = True
        self._seen.add(event)

    def due(self, event: Event, width: int | None) -> str:
        """What `resolve` has to show before this event is; "" otherwise, and the second time.

        Where no choice came about the error tells the candidates; who reaches whom then follows at the end.
        """
        last = isinstance(event, (Failure, Written, Ended)) or (isinstance(event, Warn) and bool(self._seen.resolved))
        known = self._seen.candidates or (self._seen.linked and isinstance(event, Ended))
        if self._silent or not last or not known:
            return ""
        self._silent = True
        return resolved_text(self._seen, width)

    def below_ping(self, width: int | None) -> str:
        """The matrix and what it comes to, as lines; "" where nothing was probed."""
        if not self._seen.linked:
            return ""
        return matrix_text(self._seen, width) + conclusion_text(self._seen, width)
