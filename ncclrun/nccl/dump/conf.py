"""Conf files that a script writes: here-documents, `echo … >> /etc/nccl.conf`, and lines for a start-up file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ncclrun.nccl.dump.found import ConfLines

_HERE = re.compile(r"<<(?P<dash>-?)\s*(?P<quote>[\"'\\]?)(?P<end>\w+)(?:[\"'])?")
_INTO_CONF = re.compile(r"(?:>>?|\btee\b[^|;&]*?)\s*[\"']?[^\s\"'|;&<>]*(?:nccl\.conf|\$\{?NCCL_CONF_FILE\}?)\b")
_ECHO = re.compile(
    r"\b(?P<how>echo|printf)\s+(?:-[neE]+\s+)*(?P<text>\"(?:[^\"\\$`]|\\n)*\"|'[^']*'|[^\"'|;&<>$`\\#]*?)"
    r"\s*(?:1?>>?|\|\s*(?:sudo\s+(?:-\w+\s+)*)?tee\s+(?:-\w+\s+)*)\s*[\"']?(?P<path>[^\s\"'|;&<>]+)"
)
STARTUP = re.compile(r"(?:rc|profile|environment|\.env|\.sh|/env)$")
"""Files that a shell or a login reads."""


@dataclass(frozen=True, slots=True)
class Here:
    """A here-document: the numbers of its first line and of the one that ends it, from 1."""

    first: int
    end: int
    conf: bool
    """Whether it becomes a conf file."""
    match: re.Match[str]


def here_documents(lines: Sequence[str]) -> Iterator[Here]:
    """Those of a script, in their order; what stands in one that is no conf file may hold others."""
    number = 0
    while number < len(lines):
        number += 1
        line = lines[number - 1]
        here = _HERE.search(line) if "<<" in line else None
        if here is None:
            continue
        last = next((n for n in range(number, len(lines)) if lines[n].strip() == here["end"]), None)
        if last is None:
            continue
        conf = _INTO_CONF.search(line) is not None
        yield Here(number + 1, last + 1, conf, here)
        number = last + 1 if conf else number


def conf_lines(lines: Sequence[str], here: Here) -> ConfLines:
    """What a here-document writes into a conf file."""
    end = lines[here.end - 1]
    # In YAML everything stands deeper, the word that ends it, too.
    indent = 0 if here.match["dash"] else len(end) - len(end.lstrip())
    body = range(here.first, here.end)
    return ConfLines(tuple((n, lines[n - 1], _conf_line(lines[n - 1], indent, here.match)) for n in body))


def _conf_line(line: str, indent: int, here: re.Match[str]) -> str:
    """As it arrives in the file; a line that the shell fills in is not judged, so it becomes a comment."""
    line = line.lstrip("\t") if here["dash"] else line[indent:] if not line[:indent].strip() else line
    return "#" if not here["quote"] and re.search(r"[$`\\]", line) else line


def echoed(number: int, line: str) -> ConfLines | None:
    """What `echo` or `printf` adds to a conf file; None where it does not."""
    match = _ECHO.search(line)
    if match is None or not re.search(r"nccl\.conf$", match["path"]):
        return None
    return ConfLines(tuple((number, line, text) for text in _said(match["text"]).split("\\n") if text))


def for_startup(line: str) -> tuple[int, int] | None:
    """Where on a line the text stands that `echo` adds to a file of a shell; None where it does not."""
    match = _ECHO.search(line)
    if match is None or not STARTUP.search(match["path"]):
        return None
    quoted = match["text"][:1] in ("'", '"')
    return match.start("text") + quoted, match.end("text") - quoted


def _said(text: str) -> str:
    if text[:1] in ("'", '"'):
        return text[1:-1]
    return " ".join(text.split())
