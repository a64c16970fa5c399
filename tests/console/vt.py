"""A terminal of the simplest kind: what stands on it after a stream of text, line feeds, cursor moves and erasures."""

from __future__ import annotations

import re

from rich.cells import cell_len

TOKEN = re.compile(r"\x1b\[(?P<number>\d*)(?P<move>[AJK])|\x1b\[[0-9;]*m|(?P<text>[^\x1b\r\n]+)|(?P<control>[\r\n])")


class Terminal:
    """So many columns wide and endlessly high; it keeps no colours, and fails at what it does not know."""

    encoding = "utf-8"

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows: list[list[str]] = [[]]
        """A wide character is followed by an empty cell."""
        self.row = self.column = 0
        self.writes: list[str] = []

    def write(self, text: str) -> None:
        """One write of a program."""
        self.writes.append(text)
        end = 0
        while end < len(text):
            token = TOKEN.match(text, end)
            assert token is not None, f"unknown to this terminal: {text[end : end + 20]!r}"
            end = token.end()
            if token["control"] == "\n":
                self._feed()
            elif token["control"] == "\r":
                self.column = 0
            elif token["move"] == "A":
                self.row -= int(token["number"] or 1)
                assert self.row >= 0, "moved above the first row"
            elif token["move"] == "J":
                del self.rows[self.row][self.column :], self.rows[self.row + 1 :]
            elif token["move"] == "K":
                del self.rows[self.row][self.column :]
            for character in token["text"] or "":
                self._put(character)

    def flush(self) -> None:
        """Nothing is held."""

    def shown(self) -> list[str]:
        """The rows down to the last that has something."""
        return "\n".join("".join(row).rstrip() for row in self.rows).rstrip("\n").split("\n")

    def _feed(self) -> None:
        """Down and to the left: the driver makes CRLF of a line feed."""
        self.row, self.column = self.row + 1, 0
        if self.row == len(self.rows):
            self.rows.append([])

    def _put(self, character: str) -> None:
        width = cell_len(character)
        if self.column + width > self.columns:
            self._feed()
        self.rows[self.row][self.column : self.column + width] = [character, *[""] * (width - 1)]
        self.column += width
