"""What is wrong in a conf file: line by line what NCCL really sees, and the line as it should be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ncclrun.model.settings import Level, Setting, SettingFinding
from ncclrun.nccl import block, conf
from ncclrun.nccl.check.findings import together_findings
from ncclrun.nccl.lint import slipwords
from ncclrun.nccl.lint.slips import VALUE_SLIPS, Meant, Slip, straighten
from ncclrun.nccl.lint.verdicts import findings, righted, weight
from ncclrun.nccl.version import CR_IS_CUT_SINCE, NEWEST, Version

HARMLESS: frozenset[Slip] = frozenset(("indented_comment", "section"))


@dataclass(frozen=True, slots=True)
class LintedLine:
    """A line of a conf file; ``mended`` is what it should be, None where it is right or only its writer can know."""

    number: int
    raw: bytes
    """With its line end, and with the lines that it is continued by."""
    settings: tuple[Setting, ...]
    """As they were meant."""
    findings: tuple[SettingFinding, ...]
    mended: str | None


def lint_conf(data: bytes, version: Version | None, file: str) -> tuple[SettingFinding, ...]:
    """All findings of a conf file, by line; ``version`` None: of every version that reads conf files.

    ``fix`` of each is the line without any of its mistakes; of several settings on one line it has several lines.
    """
    lines = linted(data, version, file)
    found = [finding for line in lines for finding in line.findings]
    found += together_findings([setting for line in lines for setting in line.settings], version)
    return tuple(sorted(found, key=lambda finding: finding.line or 0))


def linted(data: bytes, version: Version | None, file: str) -> tuple[LintedLine, ...]:
    """The lines of a conf file with what is found of each by itself and beside the lines above it."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return (_no_text(data, file, "utf16", "the file is UTF-16, as PowerShell writes it; save it as UTF-8"),)
    if len(_CONTROL.findall(data[:_LOOKED_AT])) >= _MOST_CONTROL:
        return (_no_text(data, file, "binary", "this is no text; NCCL makes of its bytes what it can"),)
    lines: list[LintedLine] = []
    ours = block.end(data)
    before: dict[str, tuple[Setting, bool]] = {}
    groups = [list(group) for _, group in groupby(conf.parse(data, version or NEWEST), lambda line: line.number)]
    while groups:
        pieces = groups.pop(0)
        meant = straighten(_text(pieces))
        while "continuation" in meant.slips and groups and _continues(groups[0]):
            pieces = [*pieces, *groups.pop(0)]
            joined = straighten(_JOINT.sub("", _text(pieces)))
            meant = replace(joined, slips=tuple(dict.fromkeys((*joined.slips, "continuation"))))
            if not _text(pieces).rstrip("\r \t").endswith("\\"):
                break
        line = _Judge(pieces, meant, version, file, ours).line(before)
        for setting in line.settings:
            taken = any(piece.kind == "setting" and piece.name == setting.name for piece in pieces)
            before[setting.name] = before.get(setting.name, (setting, taken))
        lines.append(line)
    return tuple(_once_each(lines))


def _once_each(lines: Sequence[LintedLine]) -> Iterator[LintedLine]:
    """No line is mended into a second one of a name that the file has: which of them is meant only its writer knows."""
    set_at = {setting.name: line.number for line in reversed(lines) for setting in line.settings}
    for line in lines:
        own = {setting.name for setting in line.settings}
        names = [part.partition("=")[0] for part in (line.mended or "").split("\n") if line.settings]
        there = next((set_at[name] for name in names if name not in own and name in set_at), None)
        if there is None:
            set_at.update((name, line.number) for name in names if name not in own)
            yield line
            continue
        found = [
            replace(f, fix="", sees=f"{f.sees}; line {there} has that already" if f.id == "unknown_name" else f.sees)
            for f in line.findings
        ]
        yield replace(line, findings=tuple(found), mended=None)


_JOINT = re.compile(r"[ \t]*\\[ \t\r]*\n[ \t]*")
"""Where a backslash was to join two lines."""


def _text(pieces: Sequence[conf.ConfLine]) -> str:
    return b"".join(piece.raw for piece in pieces).removesuffix(b"\n").decode("utf-8", "surrogateescape")


def _continues(pieces: Sequence[conf.ConfLine]) -> bool:
    return all(piece.kind == "ignored" for piece in pieces)


_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_LOOKED_AT, _MOST_CONTROL = 4096, 16
"""So many control characters at the beginning, and it is a program or an archive."""


def _no_text(data: bytes, file: str, id_: str, sees: str) -> LintedLine:
    finding = SettingFinding(file=file, line=1, name="", value="", level="error", id=id_, sees=sees, fix="")
    return LintedLine(1, data, (), (finding,), None)


@dataclass(frozen=True, slots=True)
class _Judge:
    """Looks at one line: what NCCL makes of it (``pieces``) beside what was meant."""

    pieces: Sequence[conf.ConfLine]
    meant: Meant
    version: Version | None
    file: str
    ours: int
    """The last line of ncclrun's block in this file; 0: there is none."""

    def line(self, before: dict[str, tuple[Setting, bool]]) -> LintedLine:
        """``before``: what the lines above set, and whether NCCL takes it."""
        settings = tuple(Setting(name, value, self.file, self.pieces[0].number) for name, value in self.meant.settings)
        checked = [self._checked(setting) for setting in settings]
        twice = [finding for setting in settings for finding in self._twice(setting, before)]
        found = [*self._slips(), *self._sizes(), *(finding for own, _ in checked for finding in own), *twice]
        mended = "\n".join(f"{name}={value}" for _, (name, value) in checked) or self.meant.comment
        # With what nobody expands it would be as wrong as before.
        known = "expansion" not in self.meant.slips and mended != _text(self.pieces)
        found = [replace(finding, fix=mended if finding.fix and known else "") for finding in found]
        return LintedLine(
            self.pieces[0].number,
            b"".join(piece.raw for piece in self.pieces),
            settings,
            tuple(found),
            mended if any(finding.fix for finding in found) else None,
        )

    def _finding(self, id_: str, level: Level, sees: str, *, fix: bool = True, at: int = 0) -> SettingFinding:
        piece = self.pieces[0]
        name, value = self.meant.settings[at] if self.meant.settings else ("", "")
        return SettingFinding(
            file=self.file,
            line=piece.number,
            name=name,
            value=piece.value if piece.kind == "setting" and at == 0 and name else value,
            level=level,
            id=id_,
            sees=sees,
            fix="." if fix else "",
        )

    def _slips(self) -> list[SettingFinding]:
        found = []
        for slip in self.meant.slips:
            if slip == "cr" and self.version is not None and self.version >= CR_IS_CUT_SINCE and not self._cr_stays():
                continue
            level = self._level(slip)
            sees = slipwords.sees(slip, self.pieces[0], self.meant, harmless=level == "info", version=self.version)
            found.append(self._finding(slip, level, sees, fix=slip != "expansion"))
        return found

    def _cr_stays(self) -> bool:
        """Newer versions cut one at the end of the line, and no other."""
        return b"\r" in self.pieces[0].raw.removesuffix(b"\n").removesuffix(b"\r")

    def _level(self, slip: Slip) -> Level:
        if not self.meant.settings:
            return "info" if slip in HARMLESS or slip == "bom" else "warning"
        if slip not in VALUE_SLIPS | {"expansion", "blank_around_equals"}:
            return "error"
        name, value = self.meant.settings[0]
        piece = self.pieces[0]
        taken = piece.kind == "setting" and piece.name == name
        if slip == "blank_around_equals" and not taken:
            return "error"
        if slip == "cr" and self.version is None and not self._cr_stays():
            return "info" if weight(name, piece.value, value, slip) == "info" else "warning"
        return weight(name, piece.value if taken else value, value, slip)

    def _sizes(self) -> list[SettingFinding]:
        """What is too long for NCCL, and what is no text."""
        found = []
        if not self.meant.settings:
            return []
        name, value = self.meant.settings[0]
        if _bytes(value) > conf.LONGEST or _bytes(name) > conf.LONGEST:
            sees = f"NCCL takes {conf.LONGEST} bytes of a name or a value and drops the rest without a word"
            found.append(self._finding("long_value", "error", sees, fix=False))
        if any(piece.tail and piece.kind == "setting" for piece in self.pieces):
            rest = next(piece.name for piece in self.pieces if piece.tail and piece.kind == "setting")
            sees = (
                f"the line has more than {conf.LONGEST_LINE} bytes: NCCL reads the rest as a line of its own, "
                f"which sets {slipwords.quoted(rest)}"
            )
            found.append(self._finding("long_line", "error", sees, fix=False))
        if any("\ud800" <= character <= "\udfff" for character in name + value):
            sees = "there are bytes in it that are no UTF-8; NCCL takes them as they are"
            found.append(self._finding("not_utf8", "warning", sees, fix=False))
        return found

    def _checked(self, setting: Setting) -> tuple[list[SettingFinding], tuple[str, str]]:
        """What the catalogue says of it, and the setting as it should be."""
        certain = "expansion" not in self.meant.slips and _bytes(setting.value) <= conf.LONGEST
        found = findings(setting, self.version, conf=True, certain=certain)
        return found, righted(setting, self.version, conf=True)

    def _twice(self, setting: Setting, before: dict[str, tuple[Setting, bool]]) -> list[SettingFinding]:
        if setting.name not in before:
            return []
        first, taken = before[setting.name]
        at = [name for name, _ in self.meant.settings].index(setting.name)
        if first.value == setting.value:
            return [self._finding("duplicate", "info", f"line {first.line} says the same", fix=False, at=at)]
        if taken and (first.line or 0) <= self.ours < self.pieces[0].number:
            # That is what the block is for, and the line counts again after a restore.
            sees = f"our block above wins, line {first.line}: {slipwords.quoted(first.value)}"
            return [self._finding("below_block", "info", sees, fix=False, at=at)]
        if taken:
            sees = f"this line does nothing: NCCL takes the first, line {first.line}: {slipwords.quoted(first.value)}"
            return [self._finding("duplicate", "error", sees, fix=False, at=at)]
        sees = f"line {first.line} sets it too, and will be the one that counts as soon as it is mended"
        return [self._finding("duplicate", "warning", sees, fix=False, at=at)]


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
