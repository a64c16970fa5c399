"""A terminal with a footer: whole lines scroll by above, a few live lines stay below and are redrawn around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len, set_cell_size

from ncclrun.console.output import Output

FRAME = 0.1
"""Seconds between two redraws."""
HELD = 64 << 10
"""Characters that are held back for the next redraw, at most."""
MARGIN = 3
"""Columns left free at the right, so that a ``^C`` echoed behind the footer does not fold its last line."""


class Screen:
    """Not thread-safe; ``size`` gives columns and rows as they are now, ``clock`` seconds that never go back.

    Without a footer everything is written at once. With one, what is written waits for the next frame (at most
    ``FRAME`` seconds; somebody has to call ``tick``), so that a flood of short lines makes no flood of redraws.
    """

    def __init__(self, output: Output, size: Callable[[], tuple[int, int]], clock: Callable[[], float]) -> None:
        self._output = output
        self._size = size
        self._clock = clock
        self._pending: list[str] = []
        self._held = 0
        self._wanted: list[str] = []
        self._changed = False
        self._drawn: list[int] = []
        """Display widths of the footer's lines that stand on the terminal."""
        self._next = 0.0

    @property
    def columns(self) -> int:
        """Width of the terminal now."""
        return self._size()[0]

    def room(self) -> int:
        """How many lines a footer may have now."""
        return max(1, self._size()[1] - 2)

    def write(self, text: str) -> None:
        """Whole lines, each with its line feed, that scroll by."""
        self._pending.append(text)
        self._held += len(text)
        if not (self._wanted or self._drawn) or self._held > HELD or self._clock() >= self._next:
            self.draw()

    def footer(self, lines: Sequence[str]) -> None:
        """The live lines from now on, each no wider than ``columns - MARGIN`` (see ``clip``)."""
        if list(lines) != self._wanted:
            self._wanted, self._changed = list(lines), True
            self.tick()

    def tick(self) -> None:
        """Draws what waits, if its time has come."""
        if (self._changed or self._pending) and self._clock() >= self._next:
            self.draw()

    def draw(self) -> None:
        """Everything in one write: the old footer away, the held lines, the footer."""
        lines = self._wanted[: self.room()]
        text = self._erase() + "".join(self._pending) + "\n".join(lines)
        self._pending.clear()
        self._held, self._changed = 0, False
        self._drawn = [cell_len(_bare(line)) for line in lines]
        self._next = self._clock() + FRAME
        self._output.write(text)

    def close(self) -> None:
        """Writes what is held and takes the footer away."""
        self._wanted = []
        self.draw()

    def _erase(self) -> str:
        """Back to the footer's first column and row; a terminal that became narrower has folded its lines.

        Each line by itself first: tmux moves what is erased with the whole screen into its history.
        """
        if not self._drawn:
            return ""
        columns = max(1, self.columns)
        rows = sum(max(1, -(-width // columns)) for width in self._drawn)
        return "\r\x1b[K" + "\x1b[A\x1b[K" * (rows - 1) + "\x1b[J"


def clip(text: str, columns: int) -> str:
    """``text`` cut to that many columns of display, wide characters counted as they are; it has no colours."""
    text = text[: 4 * columns]  # what follows can't show, and may be long
    if cell_len(text) <= columns:
        return text
    return set_cell_size(text, max(0, columns - 1)) + "…" if columns > 0 else ""


def _bare(line: str) -> str:
    """The line without its SGR sequences."""
    return "".join(part.partition("m")[2] if at else part for at, part in enumerate(line.split("\x1b[")))
