"""A setting as it was found in a text that is no conf file, and the line with another value in its place."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Style = Literal["raw", "item", "shell", "yaml"]
"""How the value is written: as it is; as it is, in a list of YAML or JSON; as a shell's word; as a scalar of YAML."""


@dataclass(frozen=True, slots=True)
class Found:
    """A setting in a text, and where its value stands there."""

    name: str
    value: str
    style: Style
    line: int | None
    """From 1; None where the text has no lines."""
    text: str = ""
    """The line; "" where it can't be written anew: the value goes over several lines, or is quoted twice."""
    start: int = 0
    end: int = 0
    """Where the value stands in it, quotes and all; its name is in front of it, on this line or an earlier one."""
    certain: bool = True
    """False: a variable or a command stands in it, so only the shell knows the value."""
    spaced: bool = False
    """There are blanks around its ``=`` where a shell wants none."""
    meant: str = ""
    """The whole value, of which a shell takes but ``value``, since a blank stands in it; "" where it takes all."""
    unexported: bool = False
    """A variable of the shell's own: programs see it only where it is exported by another line."""

    def written(self, value: str) -> str:
        """Another value in the way in which this one is written."""
        quote = self.text[self.start : self.start + 1]
        if self.meant:
            return f'"{value}"'
        if quote in ("'", '"') and self.style in ("shell", "yaml") and not re.search(r"[\"'\\$`]", value):
            return f"{quote}{value}{quote}"
        if self.style == "shell":
            return shlex.quote(value)
        plain = self.style != "yaml" or re.fullmatch(r"[A-Za-z_/][\w./,^+-]*", value)
        return value if plain else f'"{value}"'


@dataclass(frozen=True, slots=True)
class ConfLines:
    """Lines of a conf file that a script or a YAML writes: their numbers, as they stand there, and as they will be."""

    lines: tuple[tuple[int, str, str], ...]


Entry = Found | ConfLines


def rewritten(changes: Sequence[tuple[Found, str, str]]) -> str:
    """A line with other names and values in the place of those that were found on it; "" where that can't be done."""
    text = changes[0][0].text
    if any(not found.text for found, _, _ in changes):
        return ""
    for found, name, value in sorted(changes, key=lambda change: -change[0].start):
        front = text[: found.start]
        head, there, behind = front.rpartition(found.name)
        if found.spaced:
            behind = behind.replace(" ", "").replace("\t", "")
        front = f"{head}{name}{behind}" if there else front
        same = value == found.value
        text = f"{front}{text[found.start : found.end] if same else found.written(value)}{text[found.end :]}"
    return text


def shifted(entry: Entry, lines: Sequence[str], first: int, indent: int) -> Entry:
    """What was found in a part of a text, where it stands in the whole of ``lines``.

    ``first`` is the number of the part's first line, from 1; ``indent`` columns were cut off each of its lines.
    """
    if isinstance(entry, ConfLines):
        return ConfLines(
            tuple((number + first - 1, lines[number + first - 2], conf) for number, _, conf in entry.lines)
        )
    if entry.line is None:
        return entry
    number = entry.line + first - 1
    if not entry.text:
        return replace(entry, line=number)
    cut = len(lines[number - 1]) - len(entry.text) if lines[number - 1].endswith(entry.text) else indent
    return replace(entry, line=number, text=lines[number - 1], start=entry.start + cut, end=entry.end + cut)
