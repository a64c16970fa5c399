"""nccl.conf as NCCL reads it: which files, in which order, and what each line of one becomes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ncclrun.model.settings import ConfFile, ConfRole, Home, Setting
from ncclrun.nccl.version import CR_IS_CUT_SINCE, HOME_BY_VARIABLE_SINCE, NAMED_CONF_SINCE, NEWEST, Version

Kind = Literal["setting", "comment", "ignored", "blank"]
Why = Literal["", "no_equals", "no_name", "nul"]

LONGEST = 1023
"""Bytes of a name, and of a value, that NCCL takes; what is behind them is lost."""
LONGEST_LINE = 4095
"""Bytes that the newer reader takes at once, the line feed among them."""
# The older reader (getline) takes any line whole.
_WHOLE = re.compile(rb"[^\n]*\n|[^\n]+")
_PIECES = re.compile(rb"[^\n]{0,%d}\n|[^\n]{1,%d}" % (LONGEST_LINE - 1, LONGEST_LINE))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfLine:
    """A line of a conf file, or a piece of one that is too long for NCCL: the ``raw`` of all together are the file."""

    number: int
    """Of the line in the file, from 1; pieces of one line have the same."""
    raw: bytes
    """With its line end."""
    kind: Kind
    """What NCCL makes of it; ``setting`` also where an earlier line hides it."""
    name: str = ""
    """Of a setting as NCCL takes it, blanks and all; bytes that are no UTF-8 are lone surrogates (``surrogateescape``).
    """
    value: str = ""
    """As ``name``."""
    why: Why = ""
    """Of an ignored line: it has no ``=``, or nothing before it, or a NUL stands before it."""
    hidden_by: int | None = None
    """The line that set this name before: this one does nothing then."""
    tail: bool = False
    """The rest of a line that is too long, which NCCL reads as a line of its own."""


def parse(data: bytes, version: Version) -> tuple[ConfLine, ...]:
    """The lines of a conf file as this version of NCCL takes them.

    Up to 2.23.4 NCCL makes of ``#NCCL_DEBUG=INFO`` a variable named ``#NCCL_DEBUG``: a comment for all that matters.
    """
    fgets = version >= CR_IS_CUT_SINCE
    lines: list[ConfLine] = []
    first: dict[str, int] = {}
    number, ended = 0, True
    for raw in (_PIECES if fgets else _WHOLE).findall(data):
        number += ended
        line = _line(number, raw, cr_is_cut=fgets, tail=not ended, first=first)
        if line.kind == "setting":
            first.setdefault(line.name, number)
        lines.append(line)
        ended = raw.endswith(b"\n")
    return tuple(lines)


def _line(number: int, raw: bytes, *, cr_is_cut: bool, tail: bool, first: dict[str, int]) -> ConfLine:
    def made(kind: Kind, *, name: str = "", value: str = "", why: Why = "") -> ConfLine:
        return ConfLine(
            number=number,
            raw=raw,
            kind=kind,
            name=name,
            value=value,
            why=why,
            hidden_by=first.get(name) if kind == "setting" else None,
            tail=tail,
        )

    # To C a line ends at a NUL, and only what then stands last can be its line feed or carriage return.
    text = raw.split(b"\0", 1)[0].removesuffix(b"\n")
    if cr_is_cut:
        text = text.removesuffix(b"\r")
    if text.startswith(b"#"):
        return made("comment")
    name, equals, value = text.partition(b"=")
    if not equals:
        if b"\0" in raw:
            return made("ignored", why="nul")
        return made("ignored", why="no_equals") if raw.strip() else made("blank")
    if not name:
        return made("ignored", why="no_name")
    return made("setting", name=_text(name), value=_text(value))


def _text(data: bytes) -> str:
    return data[:LONGEST].decode("utf-8", "surrogateescape")


def in_force(lines: Iterable[ConfLine], file: str = "") -> tuple[Setting, ...]:
    """What the lines of one file set, in their order, each name once; ``file`` is its path."""
    return tuple(
        Setting(line.name, line.value, file, line.number)
        for line in lines
        if line.kind == "setting" and line.hidden_by is None
    )


def read_files(files: Sequence[ConfFile], version: Version) -> tuple[ConfFile, ...]:
    """Those of a node's conf files that this version looks for, the one that hides the others first.

    Files that are not there are among them: a ``$NCCL_CONF_FILE`` that leads nowhere still keeps ~/.nccl.conf out.
    """
    named = version >= NAMED_CONF_SINCE and any("named" in file.roles for file in files)
    order: tuple[ConfRole, ...] = ("named" if named else homes(version)[0], "system")
    found = [file for role in order for file in files if role in file.roles]
    return tuple(dict.fromkeys(found))


def homes(version: Version | None) -> tuple[Home, Home]:
    """The home in which this version looks for .nccl.conf (None: as the newest), and the one in which others do."""
    by_variable = (version or NEWEST) >= HOME_BY_VARIABLE_SINCE
    return ("home", "passwd_home") if by_variable else ("passwd_home", "home")
