"""Settings in what people have instead of a conf file: dumps of an environment, shell scripts, YAML, Dockerfiles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ncclrun.nccl.dump.conf import here_documents
from ncclrun.nccl.dump.found import ConfLines, Entry, Found, shifted
from ncclrun.nccl.dump.lines import read_lines
from ncclrun.nccl.dump.yaml import read_yaml
from ncclrun.nccl.patterns import FAMILY, NAME

_OF_AN_ENVIRONMENT = re.compile(r"^(?:PATH|HOME|PWD|SHELL|USER|HOSTNAME|LOGNAME|SHLVL)=(?![\"']|.*\$)", re.MULTILINE)
_OF_A_SCRIPT = re.compile(
    rf"^\s*(?:#|(?:export|declare|typeset|set|ENV|setenv)\s|-\s|[\"']?{NAME}[\"']?:)", re.MULTILINE
)
_UNSET = re.compile(r"(?:^|[;&|{(]|\b(?:then|do|else))[ \t]*(?:unset|export[ \t]+-n)[ \t]+(?P<names>[^;&|#\n]*)")
_RAW = re.compile(rf"(?P<name>{FAMILY})=(?P<value>.*)", re.DOTALL)
_FENCE = re.compile(r"(?P<indent>[ \t>]*)(?P<sign>```+|~~~+)(?P<rest>[^`]*)")
_PROGRAM = re.compile(
    r"^(?:#!|import |from [\w.]+ import|def |class |set -|FROM |apiVersion:|(?:export|ENV)\s+\w+=|function \w)",
    re.MULTILINE,
)
"""What begins no line of a document."""


@dataclass(frozen=True, slots=True)
class Dump:
    """What a text sets."""

    settings: tuple[Found, ...]
    confs: tuple[ConfLines, ...] = ()
    """Conf files that it writes."""


def is_environment(text: str) -> bool:
    """Whether this is what `env` prints: variables that every process has, and nothing that only scripts have."""
    return bool(_OF_AN_ENVIRONMENT.search(text)) and not _OF_A_SCRIPT.search(text)


def read(text: str) -> Dump:
    """All settings of NCCL's, Gloo's and torch's families, and the conf files that are written there."""
    if re.search(FAMILY, text) is None:
        return Dump(())
    if "\0" in text:  # /proc/PID/environ
        entries = [(_RAW.fullmatch(entry), entry) for entry in text.split("\0")]
        return Dump(
            tuple(
                Found(m["name"], m["value"], "raw", None, entry, m.start("value"), len(entry))
                for m, entry in entries
                if m
            )
        )
    text = text.replace("\r\n", "\n")
    if is_environment(text):
        return Dump(tuple(_raw(text.split("\n"))))
    found = list(_read(text))
    return Dump(
        tuple(entry for entry in found if isinstance(entry, Found)),
        tuple(entry for entry in found if isinstance(entry, ConfLines)),
    )


def _raw(lines: Sequence[str]) -> Iterator[Found]:
    for number, line in enumerate(lines, 1):
        if match := _RAW.fullmatch(line):
            yield Found(match["name"], match["value"], "raw", number, line, *match.span("value"))


def _read(text: str) -> Iterator[Entry]:
    """A text of any kind, or what stands in a block of one."""
    lines = text.split("\n")
    blocks = _fenced(lines)
    if blocks:
        for first, last, indent in blocks:
            part = "\n".join(line[indent:] for line in lines[first - 1 : last])
            for entry in _read(part):
                yield shifted(entry, lines, first, indent)
        return
    found = read_yaml(text, lines, _read)
    yield from _script(lines) if found is None else found


def _script(lines: list[str]) -> Iterator[Entry]:
    """Line by line, but for the YAML that here-documents hold, as `kubectl apply -f - <<EOF` has it."""
    rest = list(lines)
    for here in here_documents(lines):
        body = rest[here.first - 1 : here.end - 1]
        found = None if here.conf else read_yaml("\n".join(body), body, _read)
        if found is not None:
            yield from (shifted(entry, lines, here.first, 0) for entry in found)
            rest[here.first - 1 : here.end - 1] = [""] * len(body)
    unset = {name: n for n, line in enumerate(rest, 1) for m in _UNSET.finditer(line) for name in m["names"].split()}
    for entry in read_lines(rest):
        # What is taken back on a later line is not what a job is started with.
        if not isinstance(entry, Found) or (entry.line or 0) >= unset.get(entry.name, 0):
            yield entry


def _fenced(lines: Sequence[str]) -> list[tuple[int, int, int]]:
    """The blocks of code of a document: first and last line, from 1, and how deep they stand. [] where it is none."""
    blocks, open_, outside = [], None, []
    for number, line in enumerate(lines, 1):
        fence = _FENCE.fullmatch(line)
        if open_ is None and fence:
            open_ = (number, fence["sign"], len(fence["indent"]))
        elif open_ is None:
            outside.append(line)
        elif fence and fence["sign"].startswith(open_[1]) and not fence["rest"].strip():
            blocks.append((open_[0] + 1, number - 1, open_[2]))
            open_ = None
    return [] if _PROGRAM.search("\n".join(["", *outside])) else [block for block in blocks if block[1] >= block[0]]
