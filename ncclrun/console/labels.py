"""The mark before each log line, `node rank | `: one width for all, one colour a node."""

from __future__ import annotations

from ncclrun.console.sanitize import RESET, one_line, sanitize
from ncclrun.model.events import Log, Planned, RunCreated

NODE_COLORS = (30, 133, 130, 28, 63, 161, 64, 98, 31, 163)
"""Of the 256 colours those that stand out at least 4:1 from black and from white, neighbours unlike each other."""
FEW_COLORS = (6, 5, 2, 4, 3)
MAX_NAME = 24


class Labels:
    """Makes labels; ``colors`` is how many the terminal has: 0, 8 or 256."""

    def __init__(self, colors: int = 0) -> None:
        self._colors = colors
        self._name = self._rank = 1
        self._made: dict[tuple[int, int | None], str] = {}

    @property
    def width(self) -> int:
        """Columns that a label takes."""
        return self._name + self._rank + len("  | ")

    def learn(self, event: RunCreated | Planned) -> None:
        """Takes the widths from what is known of the whole run, so that all lines stand below each other."""
        if isinstance(event, Planned):
            self._widen([str(node["node"]) for node in event.nodes], event.world_size - 1)
        else:
            self._widen(event.nodes, 0)

    def label(self, event: Log) -> str:
        """``node rank | `` in the node's colour; the launcher's own lines have ``-`` for a rank."""
        key = (event.node_rank, event.rank)
        label = self._made.get(key)
        if label is None:
            self._widen((event.node,), event.rank or 0)
            label = self._made[key] = self._make(event)
        return label

    def lines(self, event: Log) -> str:
        """The event's lines, labelled and harmless, each with its line feed."""
        label = self.label(event)
        text = sanitize(event.text, colors=self._colors > 0)
        return label + text.replace("\n", "\n" + label) + "\n"

    def _widen(self, names: list[str] | tuple[str, ...], last_rank: int) -> None:
        name = min(MAX_NAME, max(len(one_line(name)) for name in (*names, "-")))
        if name > self._name or len(str(last_rank)) > self._rank:
            self._name, self._rank = max(name, self._name), max(self._rank, len(str(last_rank)))
            self._made.clear()

    def _make(self, event: Log) -> str:
        name = one_line(event.node)
        if len(name) > MAX_NAME:
            name = name[: MAX_NAME - 1] + "…"
        rank = "-" if event.rank is None else str(event.rank)
        text = f"{name:<{self._name}} {rank:>{self._rank}} |"
        return f"{self._color(event.node_rank)}{text}{RESET} " if self._colors else text + " "

    def _color(self, node_rank: int) -> str:
        if self._colors >= 256:
            return f"\x1b[38;5;{NODE_COLORS[node_rank % len(NODE_COLORS)]}m"
        return f"\x1b[3{FEW_COLORS[node_rank % len(FEW_COLORS)]}m"
