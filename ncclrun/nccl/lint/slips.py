"""Slips of writing: a line of a conf file as somebody wrote it, and the settings that they meant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ncclrun.nccl.patterns import FAMILY, NAME

Slip = Literal[
    "bom",
    "leading_blank",
    "export",
    "yaml",
    "no_equals",
    "blank_around_equals",
    "quotes",
    "inline_comment",
    "trailing_blank",
    "semicolon",
    "several",
    "continuation",
    "expansion",
    "cr",
    "nul",
    "indented_comment",
    "section",
    "bad_name",
]
VALUE_SLIPS: frozenset[Slip] = frozenset(("quotes", "inline_comment", "trailing_blank", "semicolon", "cr"))
"""Those that change the value alone: a number often survives them."""

BLANK = " \t\v\f\u00a0\u2007\u202f\u3000"

_PREFIX = re.compile(
    rf"(?:(?:export|set|setenv|env|ENV|typeset|readonly|declare)(?:[{BLANK}]+-\w+)*|-x|-e|--env)[{BLANK}]+(?={NAME})"
)
_ITEM = re.compile(rf"-[{BLANK}]+(?=[\"']?{NAME}[\"']?[{BLANK}]*[=:])")
_ASSIGNED = re.compile(rf"(?P<name>{NAME})(?P<before>[{BLANK}]*)=(?P<after>[{BLANK}]*)(?P<value>.*)", re.DOTALL)
_MAPPED = re.compile(
    rf"(?P<quote>[\"']?)(?P<name>{NAME})(?P=quote)[{BLANK}]*:(?:[{BLANK}]+|(?=[^{BLANK}=:/])|$)(?P<value>.*)", re.DOTALL
)
_SPACED = re.compile(rf"(?P<name>{FAMILY})[{BLANK}]+(?P<value>[^{BLANK}=]+)")
_SEVERAL = re.compile(
    rf"(?P<first>(?:\"[^\"]*\"|'[^']*'|[^\"'{BLANK};#])*)(?:[{BLANK}]*(?:;|&&)[{BLANK}]*|[{BLANK}]+)"
    rf"(?P<rest>(?:export[{BLANK}]+)?(?:{FAMILY})=.*)",
    re.DOTALL,
)
_QUOTED = re.compile(
    rf"(?:\"(?P<a>[^\"]*)\"|'(?P<b>[^']*)'|[“”„](?P<c>[^“”]*)[“”]|[‘’](?P<d>[^‘’]*)[‘’])[{BLANK}]*"
    r"(?P<semicolon>;?)(?P<rest>.*)",
    re.DOTALL,
)
_COMMENT = re.compile(rf"(?:^|[{BLANK}]+)(?:#|//[{BLANK}]).*", re.DOTALL)
_EXPANSION = re.compile(r"\$[A-Za-z_{(]|`|^~(?:[/\w]|$)")


@dataclass(frozen=True, slots=True)
class Meant:
    """What a line was to be: settings, or else a comment; ``slips`` are in the order of reading, each once."""

    slips: tuple[Slip, ...]
    settings: tuple[tuple[str, str], ...] = ()
    comment: str = ""

    @property
    def text(self) -> str:
        """The line, or lines, as they should be."""
        return "\n".join(f"{name}={value}" for name, value in self.settings) or self.comment


def straighten(text: str) -> Meant:
    """Of a line without its line feed; what is neither a setting nor a comment and not blank becomes a comment."""
    slips: list[Slip] = []
    if text.startswith("\ufeff"):
        slips.append("bom")
        text = text.lstrip("\ufeff")
    if "\0" in text:
        slips.append("nul")
        text = text.replace("\0", "")
    if "\r" in text.rstrip("\r"):
        return _lines(text.rstrip("\r").split("\r"), slips)
    ended = text.rstrip("\r")
    bare = ended.strip(BLANK)
    if not bare or bare.startswith("#"):
        indented = bool(bare) and ended[:1] in BLANK
        return Meant((*slips, "indented_comment") if indented else tuple(slips), comment=bare if indented else ended)
    meant = _setting(ended, bare, slips)
    if meant.settings and ended != text:
        return Meant(_once((*meant.slips, "cr")), meant.settings)
    return meant


def _lines(parts: list[str], slips: list[Slip]) -> Meant:
    """Lines that a carriage return alone parts, as old Macs wrote them."""
    each = [straighten(part) for part in parts if part.strip(BLANK)]
    settings = tuple(setting for meant in each for setting in meant.settings)
    # What is no setting falls out of the line when it is mended, and has no words of its own there.
    found = [slip for meant in each if meant.settings or not settings for slip in meant.slips]
    return Meant(_once((*slips, "cr", *found)), settings, "# ?")


def _setting(ended: str, bare: str, slips: list[Slip]) -> Meant:
    if re.fullmatch(r"\[[^\]=]*\]", bare):
        return Meant((*slips, "section"), comment=f"# {bare}")
    if ended[0] in BLANK:
        slips.append("leading_blank")
    rest = ended.lstrip(BLANK)
    while match := _PREFIX.match(rest) or _ITEM.match(rest):
        slips.append("export" if match.re is _PREFIX else "yaml")
        rest = rest[match.end() :]
    if match := _ASSIGNED.match(rest):
        if match["before"] or match["after"]:
            slips.append("blank_around_equals")
    elif match := _MAPPED.match(rest):
        slips.append("yaml")
    elif match := _SPACED.fullmatch(rest.rstrip(BLANK)):
        slips.append("no_equals")
    if match is None:
        return Meant(("bad_name" if "=" in rest else "no_equals",), comment=f"# {bare}")
    value = match["value"]
    if several := _SEVERAL.fullmatch(value):
        others = straighten(several["rest"])
        value = several["first"]
        mine = _value(match["name"], value, slips)
        if not others.settings:
            return Meant(_once((*mine.slips, "several")), mine.settings)
        return Meant(_once((*mine.slips, "several", *others.slips)), (*mine.settings, *others.settings))
    meant = _value(match["name"], value, slips)
    if match.re is _MAPPED:  # in YAML these two are right
        return Meant(tuple(slip for slip in meant.slips if slip not in ("quotes", "inline_comment")), meant.settings)
    return meant


def _value(name: str, value: str, slips: list[Slip]) -> Meant:
    found, value = value_slips(value)
    return Meant(_once((*slips, *found)), ((name, value),))


def value_slips(value: str) -> tuple[tuple[Slip, ...], str]:
    """Those of a value by itself, and the value that was meant."""
    slips: list[Slip] = []
    literal = False
    while True:
        before = value
        if value.endswith("\r"):
            slips.append("cr")
            value = value.rstrip("\r")
        quoted = _QUOTED.fullmatch(value)
        if quoted and (not quoted["rest"] or _COMMENT.fullmatch(quoted["rest"])):
            slips.append("quotes")
            if quoted["semicolon"]:
                slips.append("semicolon")
            if quoted["rest"]:
                slips.append("inline_comment")
            literal = literal or quoted["b"] is not None
            value = next(part for part in quoted.group("a", "b", "c", "d") if part is not None)
        elif comment := _COMMENT.search(value):
            slips.append("inline_comment")
            value = value[: comment.start()]
        elif value.rstrip(BLANK) != value:
            slips.append("trailing_blank")
            value = value.rstrip(BLANK)
        elif value.endswith(";"):
            slips.append("semicolon")
            value = value.rstrip(";")
        elif value.endswith("\\"):
            slips.append("continuation")
            value = value.rstrip("\\")
        value = value.lstrip(BLANK)
        if value == before:
            break
    if _EXPANSION.search(value) and not literal:
        slips.append("expansion")
    return _once(slips), value


def _once(slips: tuple[Slip, ...] | list[Slip]) -> tuple[Slip, ...]:
    return tuple(dict.fromkeys(slips))
