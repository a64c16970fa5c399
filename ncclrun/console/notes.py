"""What the launcher itself has to say: short lines with a level, and how they look with and without colours."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Note:
    """One thing to say; ``text`` may have several lines. ``more`` goes on with the note before it."""

    level: Level
    text: str


def problem(level: Literal["error", "warning"], text: str, fix: str) -> list[Note]:
    """What happened, and under it the step that mends it."""
    return [Note(level, text), *([Note("fix", fix)] if fix else [])]


def render(notes: list[Note], *, colors: bool) -> str:
    """The notes as lines, each with its line feed; lines after the first of a note stand below its text."""
    return "".join(_lines(note, colors) for note in notes)


def _lines(note: Note, colors: bool) -> str:
    head, color = _HEADS[note.level]
    text = sanitize(note.text, colors=False).replace("\n", "\n" + " " * len(head))
    return f"{color}{head}{RESET}{text}\n" if colors and color else f"{head}{text}\n"
