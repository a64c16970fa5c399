"""What NCCL sees of a line with a slip of writing, in words."""

from __future__ import annotations

from ncclrun.nccl.conf import ConfLine
from ncclrun.nccl.lint.slips import Meant, Slip
from ncclrun.nccl.values import number
from ncclrun.nccl.version import CR_IS_KEPT_UNTIL, Version, shown

LONGEST_SHOWN = 60

_NOT_A_SETTING: dict[Slip, str] = {
    "no_equals": "NCCL passes over a line without `=`; make it a comment",
    "bad_name": "NCCL takes all before the `=` for a name, which nobody asks for; make it a comment",
    "section": "NCCL knows no sections: it passes over this line, and what follows counts everywhere",
    "indented_comment": "only a # in the first column begins a comment; NCCL passes over this line by luck",
    "bom": "the file begins with a byte order mark, which belongs to this line; save it as UTF-8 without",
    "nul": "there is a NUL byte in this line",
}
_IN_THE_VALUE: dict[Slip, str] = {
    "cr": "the carriage return at the end (a line end of Windows) belongs to the value",
    "inline_comment": "the comment behind it belongs to the value",
    "quotes": "the quotes belong to the value",
    "trailing_blank": "the blank at the end belongs to the value",
    "semicolon": "the semicolon belongs to the value",
    "continuation": "a backslash joins no lines: it belongs to the value, and the next line stands by itself",
    "blank_around_equals": "the blank behind = belongs to the value",
    "several": "one line is one setting: all behind the first = is its value",
}
_IN_THE_NAME: dict[Slip, str] = {
    "leading_blank": "the blank in front belongs to the name",
    "export": "this is no shell: all before the = is the name",
    "blank_around_equals": "the blank before = belongs to the name",
    "bom": "the file begins with a byte order mark, which belongs to the name; save it as UTF-8 without",
    "yaml": "this is no YAML: all before the = is the name",
}


def sees(slip: Slip, piece: ConfLine, meant: Meant, *, harmless: bool, version: Version | None) -> str:
    """A sentence; ``piece`` is the line as NCCL has it, ``harmless``: it works all the same."""
    if not meant.settings:
        return _NOT_A_SETTING.get(slip, "NCCL passes over this line")
    name, value = meant.settings[0]
    if slip == "cr":
        until = "" if version is not None else f" up to {shown(CR_IS_KEPT_UNTIL)}"
        return in_value(slip, value + "\r", value, harmless=harmless, until=until)
    if slip == "nul":
        return "there is a NUL byte in this line, at which NCCL stops reading it"
    if slip == "expansion":
        return f"NCCL expands nothing: the value is {quoted(value)} as it stands here; write out what it stands for"
    if piece.kind != "setting":
        return f"NCCL passes over this line, for it has no `=`: {name} is not set"
    if slip in _IN_THE_NAME and piece.name != name:
        return f"{_IN_THE_NAME[slip]}: NCCL sets {quoted(piece.name)}, and {name} is not set"
    return in_value(slip, piece.value, value, harmless=harmless)


def in_value(slip: Slip, taken: str, meant: str, *, harmless: bool, until: str = "") -> str:
    """Of a slip that changed the value to ``taken``; ``until``: in which versions, if not in all."""
    if slip == "expansion":
        return f"nobody expands this: the value is {quoted(meant)} as it stands here; write out what it stands for"
    # The last where carriage returns alone part several lines, which NCCL takes for one.
    text = f"{_IN_THE_VALUE.get(slip) or _IN_THE_NAME.get(slip) or _NOT_A_SETTING[slip]}{until}"
    return (
        f"{text}; as a number it is still {number(taken).value}" if harmless else f"{text}: NCCL takes {quoted(taken)}"
    )


def quoted(text: str) -> str:
    """With every odd character visible, and not too long."""
    visible = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return f'"{visible[: LONGEST_SHOWN - 1]}…"' if len(visible) > LONGEST_SHOWN else f'"{visible}"'
