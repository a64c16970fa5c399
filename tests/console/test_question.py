"""The question before something is changed: only what is typed after it is an answer."""

from __future__ import annotations

import io
import os
import pty
import sys
import tty
from collections.abc import Iterator

import pytest

from ncclrun.console.output import Output
from ncclrun.console.question import confirm
from ncclrun.model.errors import UsageError


class Typing(io.StringIO):
    """A screen before which somebody answers as soon as the question stands there."""

    def __init__(self, keys: int) -> None:
        super().__init__()
        self._keys = keys

    def write(self, text: str) -> int:
        if "[y/N]" in text:
            os.write(self._keys, b"n\n")
        return super().write(text)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The end of a terminal at which one types."""
    ours, theirs = pty.openpty()
    tty.setcbreak(theirs)
    with os.fdopen(theirs) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield ours
    os.close(ours)


def test_what_was_typed_ahead_is_no_answer(keys: int) -> None:
    os.write(keys, b"y\n")
    with pytest.raises(UsageError, match="nothing was changed"):
        confirm("Change?", Output(Typing(keys)), nothing="nothing was changed", first="look")
