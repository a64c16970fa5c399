"""Settings in a program's text and in JSON: `"NAME": "value"`, `os.environ["NAME"] = "value"`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ncclrun.nccl.dump.found import Found
from ncclrun.nccl.patterns import UPPER

TEMPLATE = re.compile(r"\$|\{\{|<%|%[sdr(]|\{[A-Za-z_][^{},]*\}")
MOST_WORDS = 2
"""A text of more is a description."""

_KEY = re.compile(
    rf"(?P<quote>[\"'])(?P<name>{UPPER})(?P=quote)(?P<sign>\s*:\s*|\s*\]\s*=(?!=)\s*|\s*,\s*)(?P<rest>\S.*)"
)
_PAIR = re.compile(
    rf"[\"'](?:name|key)[\"']\s*:\s*(?P<quote>[\"'])(?P<name>{UPPER})(?P=quote)\s*,\s*"
    r"[\"']value[\"'](?P<sign>\s*:\s*)(?P<rest>\S.*)",
    re.IGNORECASE,
)
_SETS = re.compile(r"(?:setdefault|putenv|setenv|Setenv)\(\s*$")
_LITERAL = re.compile(
    r"(?:(?P<quote>[\"'])(?P<text>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)|(?P<plain>-?\d+|true|false|True|False))"
    r"\s*(?P<after>[,})\]#;]|//|$)"
)
_QUOTED_ITEM = re.compile(rf"(?P<quote>[\"'])(?P<name>{UPPER})=(?P<value>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)")


def code_line(number: int, line: str) -> Iterator[Found]:
    """Of a line all keys with their literals, and what a program puts into its environment."""
    return _literals(_KEY, number, line)


def pairs_of_code(number: int, line: str) -> Iterator[Found]:
    """Of a line all pairs as `{"name": "NCCL_DEBUG", "value": "INFO"}`."""
    return _literals(_PAIR, number, line)


def _literals(pattern: re.Pattern[str], number: int, line: str) -> Iterator[Found]:
    at = 0
    while match := pattern.search(line, at):
        at = match.start("rest")
        if match["sign"].strip() == "," and not _SETS.search(line[: match.start()]):
            continue
        literal = _LITERAL.match(match["rest"])
        if literal is None:
            yield Found(match["name"], match["rest"].strip(), "yaml", number, line, at, len(line), certain=False)
            continue
        plain = literal["plain"]
        value = plain if plain is not None else re.sub(r"\\(.)", r"\1", literal["text"])
        # A text that ends in a comma, and nothing behind it: the next line goes on with it.
        open_ = plain is None and not literal["after"] and value.endswith(",")
        end = at + len(plain if plain is not None else literal["text"]) + (0 if plain is not None else 2)
        yield Found(match["name"], value, "yaml", number, line, at, end, certain=not open_ and judged(value))
        at = end


def judged(value: str) -> bool:
    """Whether this is a value, as far as its look tells: no template, no sentence, nothing that is to be filled in."""
    template = TEMPLATE.search(value) or re.fullmatch(r"\[.*\]|<.*>|\.\.\.|…", value)
    return template is None and len(value.split()) <= MOST_WORDS


def quoted_items(number: int, line: str) -> Iterator[Found]:
    """`"NAME=value"` in lists of JSON and the like."""
    for item in _QUOTED_ITEM.finditer(line):
        value = item["value"].replace('\\"', '"').replace("\\\\", "\\")
        yield Found(item["name"], value, "item", number, line, *item.span("value"), not TEMPLATE.search(value))
