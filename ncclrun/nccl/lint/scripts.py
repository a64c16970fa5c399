"""What goes wrong in a shell's script alone: variables that no program sees, and line ends of Windows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ncclrun.model.settings import SettingFinding
from ncclrun.nccl.dump.conf import here_documents
from ncclrun.nccl.dump.found import Found
from ncclrun.nccl.lint import slipwords, verdicts
from ncclrun.nccl.patterns import NAME

ScriptRun = Literal["run", "perhaps"]
"""run: a shell runs it, or reads it at login; perhaps: it may be a list of variables that others `source`."""

_ALL_EXPORTED = re.compile(
    r"^[^#\n]*\b(?:set[ \t]+(?:-\w+[ \t]+)*(?:-\w*a\w*|-o[ \t]+allexport)|setopt[ \t]+(?:all_?export))\b"
    r"|^[^#\n]*\b(?:export|(?:declare|typeset)[ \t]+-\w*x\w*)[ \t]+[\"']?[$`]",
    re.MULTILINE | re.IGNORECASE,
)
"""All of them, or those whose names nobody knows here."""
_ARRAY = re.compile(rf"{NAME}\+?=\([^()]*\)")


def in_a_script(
    text: str, settings: Sequence[Found], findings: Sequence[SettingFinding], run: ScriptRun, file: str
) -> list[SettingFinding]:
    """``findings`` of ``text``, and those that only a script has; a line that has several gets one ``fix`` for all."""
    lines, found = text.split("\n"), list(findings)
    for one in settings:
        if one.line is not None and one.certain and lines[one.line - 1].endswith("\r") and one.end == len(one.text):
            level = verdicts.weight(one.name, f"{one.value}\r", one.value, "cr")
            sees = slipwords.in_value("cr", f"{one.value}\r", one.value, harmless=level == "info")
            cr = SettingFinding(
                file=file,
                line=one.line,
                name=one.name,
                value=f"{one.value}\r",
                level=level,
                id="cr",
                sees=f"{sees}; `sed -i 's/\\r$//' FILE` takes it out of all lines",
                fix=_line(found, one),
            )
            found.append(cr)
    if run == "run" and not _ALL_EXPORTED.search(text):
        for one in _unexported(text.replace("\r\n", "\n"), settings):
            sees = f"without export it is the shell's own: what it starts does not see {one.name}"
            fix = _exported(_line(found, one), one.name)
            found = [replace(f, fix=_exported(f.fix, one.name)) if f.line == one.line else f for f in found]
            found.append(
                SettingFinding(
                    file=file,
                    line=one.line,
                    name=one.name,
                    value=one.value,
                    level="warning",
                    id="not_exported",
                    sees=sees,
                    fix=fix,
                )
            )
    return found


def _line(findings: Sequence[SettingFinding], one: Found) -> str:
    """Its line without the mistakes that were found there."""
    return next((f.fix for f in findings if f.line == one.line and f.fix), one.text.strip())


def _exported(line: str, name: str) -> str:
    """The line with an `export` where the assignments begin; one whose name was wrong begins with the right one."""
    own = re.sub(r"\b(declare|typeset|local)\b", r"\1 -x", line, count=1)
    if own != line or re.match(r"export\b", line):
        return own
    at = re.search(rf"(?<![\w$])(?:{NAME}=\S*[ \t]+)*{re.escape(name)}=", line) or re.match(rf"{NAME}=", line)
    return f"{line[: at.start()]}export {line[at.start() :]}" if at else line


def _unexported(text: str, settings: Sequence[Found]) -> list[Found]:
    """Those that no line exports, and that the script itself makes no use of."""
    lines = text.split("\n")
    apart = {n for here in here_documents(lines) for n in range(here.first, here.end + 1)}
    for array in _ARRAY.finditer(text):
        apart.update(range(text.count("\n", 0, array.start()) + 1, text.count("\n", 0, array.end()) + 2))
    return [one for one in settings if one.unexported and one.line not in apart and not _used(text, one.name)]


def _used(text: str, name: str) -> bool:
    exports = rf"\b(?:export|setenv|(?:declare|typeset|local)[ \t]+-\w*x\w*)\b[^\n;&|#]*\b{name}\b"
    return re.search(rf"^[^#\n]*(?:{exports}|\$\{{?[!#]?{name}\b)", text, re.MULTILINE) is not None
