"""When a view shows what was seen of the network: before the warnings of `resolve`, below the table of `ping`."""

from __future__ import annotations

from ncclrun.console.matrix import matrix_text
from ncclrun.console.pairs import Seen
from ncclrun.console.resolved import candidates_text, conclusion_text, resolved_text
from ncclrun.model.endevents import Ended
from ncclrun.model.events import Event, RunCreated
from ncclrun.model.netevents import Pinged, Written


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

        All has been heard then, and the warnings follow. Where no network was found it comes between the error and, at
        the end, what mends it.
        """
        last = isinstance(event, (Written, Ended))
        if self._silent or not last or not (self._seen.candidates or self._seen.linked):
            return ""
        self._silent = True
        text = resolved_text(self._seen, width)
        if width is None:
            return text.lstrip("\n")  # a file of its own
        return text + "\n" * self._seen.failed

    def below_ping(self, width: int | None) -> str:
        """The matrix and what it comes to, as lines; "" where nothing was probed. Without a network all addresses."""
        candidates = candidates_text(self._seen.candidates, width) if self._seen.failed else ""
        matrix = matrix_text(self._seen, width) if self._seen.linked else ""
        return matrix + "\n" * bool(candidates) + candidates + conclusion_text(self._seen, width)
