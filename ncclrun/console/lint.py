"""`nccl lint` for people and for programs: the line, what NCCL sees of it, and the line as it should be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby
from textwrap import wrap

from ncclrun.commands.lint import SHELL, Linted
from ncclrun.console.notes import Note, render
from ncclrun.console.sanitize import RESET, one_line
from ncclrun.console.words import count
from ncclrun.model.secrets import finding_shown, text_shown
from ncclrun.model.settings import Level, SettingFinding
from ncclrun.model.words import listed

LEVELS: tuple[Level, ...] = ("error", "warning", "info")
_COLORS: dict[Level, str] = {"error": "\x1b[1;31m", "warning": "\x1b[33m", "info": "\x1b[2m"}
_BOLD = "\x1b[1m"
LONGEST_LINE = 160
"""Characters of a line that are shown."""
INDENT = " " * 5
NARROWEST = 40


def as_json(texts: Sequence[Linted]) -> str:
    """One list of all findings, without anything that no UTF-8 can hold."""
    findings = [_placed(finding_shown(finding), text) for text in texts for finding in text.findings]
    rows = [{key: _clean(value) for key, value in asdict(finding).items()} for finding in findings]
    return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"


def _placed(finding: SettingFinding, text: Linted) -> SettingFinding:
    """With the node in front of the file."""
    return replace(finding, file=f"{text.node}:{finding.file}" if text.node and finding.file else text.place)


def _clean(value: object) -> object:
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if isinstance(value, str) else value


def as_text(texts: Sequence[Linted], *, colors: bool, width: int | None = None) -> str:
    """Findings by text and line, then how many there are; sentences are folded to ``width`` columns between words."""
    alike: dict[Linted, list[str]] = {}
    for text in texts:
        alike.setdefault(replace(text, node=""), []).append(text.node)
    parts = [_of_text(text, nodes, colors, width) for text, nodes in alike.items()]
    return "".join(parts) + render([_verdict(texts)], colors=colors, width=width)


def _of_text(text: Linted, nodes: list[str], colors: bool, width: int | None) -> str:
    """``nodes``: those that have this very text; [""] for one of this machine."""
    if not text.findings and not text.written:
        return ""
    named = ": ".join(filter(None, (listed([node for node in nodes if node]), text.file)))
    parts = [_painted(one_line(named), _BOLD, colors) + "\n"]
    if text.written:
        parts.append(f"  put right; as it was it is kept in {one_line(text.backup)}\n")
    for line, group in groupby(text.findings, lambda finding: (finding.line, _of(finding))):
        parts.append(_of_line(text, line[0], list(group), colors, width))
    return "".join(parts)


def _of(finding: SettingFinding) -> str:
    """Where there are no lines, findings of one variable belong together."""
    return finding.name if finding.line is None else ""


def _of_line(text: Linted, number: int | None, group: list[SettingFinding], colors: bool, width: int | None) -> str:
    shown = [finding_shown(finding) for finding in group]
    secret = any(old.value != new.value for old, new in zip(group, shown, strict=True))
    first = shown[0]
    setting = f"{first.name}={first.value}" if first.value else first.name
    if number is None:
        parts = [f"  {one_line(setting)}\n" if first.name else ""]
    else:
        there = not secret and number <= len(text.lines)
        line = text_shown(text.lines[number - 1].rstrip("\r")) if there else setting
        parts = [f"  {number}: {_cut(one_line(line))}\n"]
    for finding in shown:
        head, *rest = _folded(f"{finding.level}: {one_line(finding.sees)} [{finding.id}]", width)
        level = _painted(finding.level, _COLORS[finding.level], colors)
        parts.append(
            "\n".join([f"{INDENT}{level}{head.removeprefix(finding.level)}", *(INDENT + r for r in rest)]) + "\n"
        )
    for fix in dict.fromkeys(finding.fix for finding in shown if finding.fix):
        head, *rest = [one_line(line) for line in fix.split("\n")]
        parts.append(
            f"     {_painted('fix', _BOLD, colors)}: {head}\n" + "".join(f"          {line}\n" for line in rest)
        )
    return "".join(parts)


def _folded(text: str, width: int | None) -> list[str]:
    """On lines that stand below each other, two columns in; words stay whole."""
    if width is None:
        return [text]
    room = max(NARROWEST, width) - len(INDENT)
    return wrap(text, room, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"


def _painted(text: str, color: str, colors: bool) -> str:
    return f"{color}{text}{RESET}" if colors else text


def _verdict(texts: Sequence[Linted]) -> Note:
    numbers = Counter(finding.level for text in texts for finding in text.findings)
    where = _where(texts)
    if not numbers:
        return Note("good", f"no finding in {where}")
    nouns = {"error": "error", "warning": "warning", "info": "note"}
    told = ", ".join(count(numbers[level], nouns[level]) for level in LEVELS if numbers[level])
    return Note("info", f"{told} in {where}")


def _where(texts: Sequence[Linted]) -> str:
    """What was looked at, in one word where it is one kind of thing."""
    own = [text for text in texts if text.node or text.file == SHELL]
    if own and len(texts) == 1:
        return own[0].place
    return count(len(texts), "file") if not own else f"{len(texts)} files and environments"
