"""The node's way of saying no: a fixed word, what is wrong, and what mends it."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """A request can't be done. ``code`` is a word for programs, ``fix`` a command or a line for people.

    ``details`` is what else a program can use of it.
    """

    def __init__(self, code: str, message: str, fix: str = "", details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = fix
        self.details = details

    def as_json(self) -> dict[str, Any]:
        """The ``error`` of an answer."""
        told = {"code": self.code, "message": self.message, "fix": self.fix}
        return told if self.details is None else {**told, "details": self.details}
