"""What a single piece of YAML text means: text, number or boolean, and the traps where YAML reads something else."""

from __future__ import annotations

import re

MAX_DIGITS = 300
"""Longest number that is taken for one; Python itself refuses far longer ones."""
SHOWN = 60

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_OR_TEXT = "or put it in quotes if it is text"
_READ_AS = (
    (r"|~|null", "null", 'write a value, "" for an empty text, or take the line out'),
    (r"yes|on", "the boolean true", f"write true, {_OR_TEXT}"),
    (r"no|off", "the boolean false", f"write false, {_OR_TEXT}"),
    (r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?", "a number to the base 60", "put it in quotes if it is text"),
    (r"[-+]?0[0-7_]+", "an octal number", f"write it in decimal, {_OR_TEXT}"),
    (r"[-+]?0[0-9]+", "a number or as text, by its version", f"write it without the leading zero, {_OR_TEXT}"),
    (r"[-+]?0[xob][0-9a-f_]+", "a number that is not decimal", f"write it in decimal, {_OR_TEXT}"),
    (r"[-+]?[0-9](?=[0-9._]*_)[0-9_]*(\.[0-9_]*)?(e[-+]?[0-9]+)?", "a number", f"leave out the _, {_OR_TEXT}"),
    (r"[-+]?\.inf|\.nan", "a number that is not finite", f"write a finite one, {_OR_TEXT}"),
    (r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?", "a date", "put it in quotes"),
)
"""Plain text that YAML 1.1 takes for something else, for what, and how to say what one means."""
_TRAPS = tuple((re.compile(pattern, re.IGNORECASE), meaning, mend) for pattern, meaning, mend in _READ_AS)
_SURROGATE = re.compile("[\ud800-\udfff]")


def surprise(text: str) -> str:
    """What YAML makes of plain ``text`` that its writer hardly means, and what to write; "" where there is no trap."""
    for pattern, meaning, mend in _TRAPS:
        if pattern.fullmatch(text):
            return f"YAML reads {shorten(text)} as {meaning}; {mend}" if text else f"there is no value here; {mend}"
    if len(text) > MAX_DIGITS and _INTEGER.fullmatch(text):
        return f"a number of {len(text)} digits; put it in quotes if it is text"
    return ""


def plain_value(text: str) -> str | int | float | bool:
    """The value of plain ``text`` in which ``surprise`` found nothing."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    if _BOOLEAN.fullmatch(text):
        return text.lower() == "true"
    return text


def unencodable(text: str) -> str:
    """Says so where quoted ``text`` has an escape for half a character; "" otherwise."""
    half = _SURROGATE.search(text)
    return f"\\u{ord(half[0]):x} is half a character; write the character itself" if half else ""


def shorten(text: str) -> str:
    """``text`` for a message: long ones lose their end."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
