"""What the launcher itself has to say: short lines with a level, and how they look with and without colours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import wrap
from typing import Literal

from ncclrun.console.sanitize import RESET, sanitize

Level = Literal["info", "good", "warning", "error", "fix", "more"]

_HEADS: dict[Level, tuple[str, str]] = {
    "info": ("ncclrun: ", "\x1b[2m"),
    "good": ("ncclrun: ", "\x1b[32m"),
    "warning": ("warning: ", "\x1b[33m"),
    "error": ("error: ", "\x1b[1;31m"),
    "fix": ("  fix: ", "\x1b[1m"),
    "more": ("       ", ""),
}
_GAP = re.compile(r" {2,}(?=\S)")
_COMMAND = re.compile(r"(?<= {2})ncclrun( \S+)+")
UNBROKEN = "\0"
"""Stands for the spaces of a command while the line around it folds; sanitize leaves none in a text."""
COLUMNS, ROOM = 2, 0.7
"""An indented line with so many gaps is a row; its last column folds where it begins within so much of the width."""


@dataclass(frozen=True)
class Note:
    """One thing to say; ``text`` may have several lines. ``more`` goes on with the note before it."""

    level: Level
    text: str


def problem(level: Literal["error", "warning", "info"], text: str, fix: str) -> list[Note]:
    """What happened, and under it the step that mends it."""
    return [Note(level, text), *([Note("fix", fix)] if fix else [])]


def render(notes: list[Note], *, colors: bool, width: int | None = None) -> str:
    """The notes as lines, each with its line feed; lines after the first of a note stand below its text.

    Sentences are folded to ``width`` columns between words; a fix is not, nor a command that two spaces set off, since
    they are there to be copied.
    """
    return "".join(_lines(note, colors, width) for note in notes)


def _lines(note: Note, colors: bool, width: int | None) -> str:
    head, color = _HEADS[note.level]
    lines = sanitize(note.text, colors=False).split("\n")
    if width is not None and note.level not in ("fix", "more"):
        lines = [part for line in lines for part in _folded(line, max(20, width - len(head)))]
    text = f"\n{' ' * len(head)}".join(lines)
    return f"{color}{head}{RESET}{text}\n" if colors and color else f"{head}{text}\n"


def _folded(line: str, width: int) -> list[str]:
    """A line that fits stays as it is, with all its spaces; else what follows stands as far in as its beginning, or
    below the last column of a table's row."""
    if len(line) <= width:
        return [line]
    begun = len(line) - len(line.lstrip(" "))
    columns = [gap.end() for gap in _GAP.finditer(line, begun)]
    row = begun and len(columns) >= COLUMNS and columns[-1] <= width * ROOM
    indent = " " * (columns[-1] if row else begun)
    line = _COMMAND.sub(lambda command: command[0].replace(" ", UNBROKEN), line)
    parts = wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
    return [part.replace(UNBROKEN, " ") for part in parts]
