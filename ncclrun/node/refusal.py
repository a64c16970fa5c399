"""The node's way of saying no: a fixed word, what is wrong, and what mends it."""

from __future__ import annotations


class Refusal(Exception):
    """A request can't be done. ``code`` is a word for programs, ``fix`` a command or a line for people."""

    def __init__(self, code: str, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = fix

    def as_json(self) -> dict[str, str]:
        """The ``error`` of an answer."""
        return {"code": self.code, "message": self.message, "fix": self.fix}
