"""What is wrong with nodes, told once where many have the same: the first in full, the others by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ncclrun.console.notes import Note, problem
from ncclrun.console.words import about
from ncclrun.model.settings import Level
from ncclrun.model.words import bare, listed

ADDRESS = re.compile(r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7})(?![\w:]|\.\d)")
"""IPv4 or IPv6, as it stands in a sentence."""
NAMED = 8
"""Names of the others."""


@dataclass(frozen=True)
class Finding:
    """A problem with what mends it; ``node`` is None where it is nobody's own."""

    level: Level
    node: str | None
    text: str
    fix: str
    host: str = ""
    hostname: str = ""

    @property
    def told(self) -> str:
        """With the node in front."""
        return about(self.node, self.text, self.host) if self.node else self.text

    @property
    def bare(self) -> str:
        """Without the node in front."""
        return bare(self.text, self.node or "", self.host)

    @property
    def kind(self) -> tuple[str, ...]:
        """Alike for nodes that differ by their names alone; of warnings and fixes by their addresses, too.

        Which address an error is about is never left out.
        """
        text = ADDRESS.sub("…", self._nameless(self.text)) if self.level != "error" else self._nameless(self.text)
        return self.level, text, ADDRESS.sub("…", self._nameless(self.fix))

    @property
    def addresses(self) -> list[str]:
        """That it and its fix name, in their order."""
        return [found[0] for found in ADDRESS.finditer(f"{self.text} {self.fix}")]

    def _nameless(self, text: str) -> str:
        own = "|".join(re.escape(name) for name in (self.node, self.host, self.hostname) if name)
        return re.sub(rf"(?<![\w.-])(?:{own})(?![\w-])", "…", text) if self.node else text


Folded = tuple[Finding, list[Finding]]
"""The first of its kind, with the names of all that have the very same, and those of other nodes that are like it."""


def fold(findings: Iterable[Finding]) -> list[Folded]:
    """The order is that of the first ones.

    Nodes with the very same are named in front: behind a fix they would read as if it were to be done on each.
    """
    kinds: dict[tuple[str, ...], list[Finding]] = {}
    worded: dict[tuple[str, ...], tuple[str, ...]] = {}
    for finding in dict.fromkeys(findings):
        # The very same words are the same, whichever of the nodes that they name has them.
        kind = worded.setdefault((finding.level, finding.text, finding.fix), finding.kind)
        kinds.setdefault(kind, []).append(finding)
    return [_joined(alike[0], [other for other in alike[1:] if other.node]) for alike in kinds.values()]


def _joined(first: Finding, others: list[Finding]) -> Folded:
    same = [other for other in others if (other.bare, other.fix) == (first.bare, first.fix)]
    if not first.node or not same:
        return first, others
    names = listed(list(dict.fromkeys([first.node, *(other.node or "" for other in same)])), NAMED)
    return replace(first, node=names, text=first.bare, host=""), [other for other in others if other not in same]


def notes(findings: Iterable[Finding]) -> list[Note]:
    """Problems and fixes to be told."""
    told: list[Note] = []
    for folded in fold(findings):
        told += problem(folded[0].level, folded[0].told, folded[0].fix)
        if others := same_on(folded):
            told.append(Note("more", others))
    return told


def same_on(folded: Folded) -> str:
    """``likewise on gpu2, gpu3 and 12 more``, with ``: their own address and name`` where each has its own to be
    written; "" for none."""
    first, others = folded
    nodes = listed([other.node for other in others if other.node], NAMED)
    if not nodes:
        return ""
    if all(other.addresses == first.addresses for other in others):
        return f"likewise on {nodes}"
    return f"likewise on {nodes}: {'their' if len(others) > 1 else 'its'} own address and name"
