"""The text of a YAML file as its tokens lie in it: where things end, and pieces with some of it replaced."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

import yaml

from ncclrun.planning.scalars import plain_value, surprise

_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""What ends a line for YAML, comments included."""
_PLAIN = re.compile(r"\w[\w.+/@-]*")
"""Text that needs no quotes in any style, unless it reads as a number or another of YAML's words."""
_REMARK = re.compile(r"(?:\r?\n)?[ \t]*#[^\r\n\x85\u2028\u2029]*|\r?\n[ \t]*(?=\r?\n)")
"""Between two tokens: a comment, or an empty line."""


@dataclass(frozen=True)
class Cut:
    """The text from ``start`` to ``end`` becomes ``new``."""

    start: int
    end: int
    new: str


def scalar(value: str, style: str | None) -> str:
    """``value`` in YAML, in quotes where ``style`` has them or YAML needs them; fit for any place."""
    if style == "'":
        return "'" + value.replace("'", "''") + "'"
    plain = style != '"' and _PLAIN.fullmatch(value) and not surprise(value) and plain_value(value) == value
    return value if plain else json.dumps(value, ensure_ascii=False)


def start(node: yaml.Node) -> int:
    """Where the node begins, in characters."""
    return int(node.start_mark.index)


class YamlText:
    """A valid YAML text without a byte order mark. All places are counted in characters from 0."""

    def __init__(self, text: str) -> None:
        self.text = text

    def applied(self, cuts: Iterable[Cut], begin: int, end: int) -> str:
        """The piece from ``begin`` to ``end`` with these cuts, none of which reaches beyond it."""
        pieces: list[str] = []
        # Sorting is stable: what is put in at one place stays in the order in which it came.
        for cut in sorted(cuts, key=lambda cut: (cut.start, cut.end)):
            pieces += self.text[begin : cut.start], cut.new
            begin = cut.end
        return "".join([*pieces, self.text[begin:end]])

    def braced(self, node: yaml.Node) -> bool:
        """Whether the node is a mapping or a list with brackets of its own."""
        return isinstance(node, yaml.CollectionNode) and self.text[start(node)] in "{["

    def end(self, node: yaml.Node) -> int:
        """Where the node ends. YAML's own mark of a block stands behind the comments and empty lines that follow it."""
        if isinstance(node, yaml.CollectionNode) and not self.braced(node):
            last = node.value[-1]
            return self.end(last[1] if isinstance(last, tuple) else last)
        end = int(node.end_mark.index)
        block_text = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
        return len(self.text[:end].rstrip()) if block_text else end

    def line_end(self, place: int) -> int:
        """The end of that line, before its line break."""
        found = _BREAK.search(self.text, place)
        return found.start() if found else len(self.text)

    def line_break(self, place: int) -> str:
        """The kind of line break that is used there."""
        found = _BREAK.search(self.text, place) or _BREAK.search(self.text)
        return found[0] if found else "\n"

    def dash(self, node: yaml.Node) -> yaml.Mark:
        """The dash of the list's item that ``node`` is."""
        return self._dashes[bisect_left(self._dashes, start(node), key=lambda mark: int(mark.index)) - 1]

    @cached_property
    def _dashes(self) -> list[yaml.Mark]:
        return [token.start_mark for token in self._tokens if isinstance(token, yaml.BlockEntryToken)]

    def remarks_in(self, begin: int, end: int) -> list[Cut]:
        """The comments and empty lines between two places, as cuts that take them out."""
        first = bisect_left(self._remarks, begin, key=lambda cut: cut.start)
        return list(takewhile(lambda cut: cut.end <= end, self._remarks[first:]))

    @cached_property
    def _remarks(self) -> list[Cut]:
        cuts: list[Cut] = []
        done = 0
        for token in self._tokens:
            for found in _REMARK.finditer(self.text, done, token.start_mark.index):
                cuts.append(Cut(found.start(), found.end(), ""))
            done = token.end_mark.index
        return cuts

    @cached_property
    def _tokens(self) -> list[yaml.Token]:
        return list(yaml.scan(self.text, Loader=yaml.SafeLoader))
