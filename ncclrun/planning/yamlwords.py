"""YAML's syntax errors, in words for people who don't know YAML's rules."""

from __future__ import annotations

import re

import yaml

_TAB = "a tab stands here; YAML wants spaces"
_UNCLOSED = "the {what} that opens at line {line}, column {column} is not closed here"
_WORDS = (
    (
        r"mapping values are not allowed",
        "a `:` that belongs to no key; indent the line like its neighbours, or put the text in quotes",
    ),
    (r"could not find expected ':'", "a `:` is missing after the key that begins at line {line}"),
    (r"but got '\['", 'text with brackets needs quotes inside {{ }} and [ ], as in "gpu[1-3]"'),
    (r"expected ',' or '\]'", _UNCLOSED.replace("{what}", "list") + "; write `,` or `]`"),
    (r"expected ',' or '}'", _UNCLOSED.replace("{what}", "mapping") + "; write `,` or `}}`"),
    (r"expected the node content", "a value is wanted here; text that begins with a sign needs quotes"),
    (r"expected <block end>", "this line fits none of the blocks above it; indent it like its neighbours"),
    (r"expected '<document start>'", "what begins here belongs to nothing above; a cluster file is one mapping"),
    (r"sequence entries are not allowed", "a list can't begin here; put each `-` on a line of its own"),
    (r"found unexpected (end of stream|document separator)", _UNCLOSED.replace("{what}", "quote")),
    (r"unknown escape character|escape sequence", "a backslash in double quotes is special; use single quotes"),
    (r"incompatible YAML document|directive", "leave the line with % out"),
    (r"expected alphabetic or numeric", "text that begins with * or & needs quotes"),
    (r"that cannot start any token", "text that begins with this character needs quotes"),
)


def explain(error: yaml.MarkedYAMLError, text: str) -> tuple[tuple[int, int], str]:
    """Place (line and column from 1) and plain words for a syntax error in ``text``."""
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return (1, 1), f"this is not YAML: {error}"
    opening = error.context_mark or mark
    if tab := _tab_before(text, mark):
        return tab, _TAB
    problem = str(error.problem or error.context)
    for pattern, words in _WORDS:
        if re.search(pattern, problem):
            return (mark.line + 1, mark.column + 1), words.format(line=opening.line + 1, column=opening.column + 1)
    return (mark.line + 1, mark.column + 1), f"this is not YAML: {problem}"


def _tab_before(text: str, mark: yaml.Mark) -> tuple[int, int] | None:
    """A tab where the error stands or in that line's indentation, which is then the likely fault."""
    lines = re.split("\r\n|[\r\n\x85\u2028\u2029]", text)  # as YAML counts them
    line = lines[mark.line] if mark.line < len(lines) else ""
    if line[mark.column : mark.column + 1] == "\t":
        return mark.line + 1, mark.column + 1
    indentation = line[: len(line) - len(line.lstrip(" \t"))]
    return (mark.line + 1, indentation.index("\t") + 1) if "\t" in indentation else None
