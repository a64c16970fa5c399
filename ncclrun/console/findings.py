"""What is wrong with nodes, told once where many have the same: the first in full, the others by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ncclrun.console.notes import Note, problem
from ncclrun.console.words import about, names

FEW = 3
"""So many nodes with the same each have their own words: the fix has their own addresses."""
NAMED = 8
"""Names of the others."""


@dataclass(frozen=True)
class Finding:
    """A problem with what mends it; ``node`` is None where it is nobody's own."""

    level: Literal["error", "warning"]
    node: str | None
    text: str
    fix: str
    host: str = ""

    @property
    def told(self) -> str:
        """With the node in front."""
        return about(self.node, self.text, self.host) if self.node else self.text

    @property
    def kind(self) -> tuple[str, str]:
        """Alike for nodes whose words differ by their names alone."""
        if not self.node:
            return self.level, self.text
        own = "|".join(re.escape(name) for name in (self.node, self.host) if name)
        return self.level, re.sub(rf"(?<![\w.-])(?:{own})(?![\w-])", "…", self.text)


def fold(findings: Iterable[Finding]) -> list[tuple[Finding, list[str]]]:
    """Each with the names of those nodes that have the same; the order is that of the first ones."""
    kinds: dict[tuple[str, str], list[Finding]] = {}
    for finding in dict.fromkeys(findings):
        kinds.setdefault(finding.kind, []).append(finding)
    folded: list[tuple[Finding, list[str]]] = []
    for alike in kinds.values():
        if len(alike) > FEW:
            folded.append((alike[0], [finding.node for finding in alike[1:] if finding.node]))
        else:
            folded += [(finding, []) for finding in alike]
    return folded


def notes(findings: Iterable[Finding]) -> list[Note]:
    """Problems and fixes to be told."""
    told: list[Note] = []
    for finding, others in fold(findings):
        told += problem(finding.level, finding.told, finding.fix)
        if others:
            told.append(Note("more", same_on(others)))
    return told


def same_on(others: list[str]) -> str:
    """``the same on gpu2, gpu3, gpu4, gpu5 and 12 more``."""
    return f"the same on {names(others, NAMED)}"
