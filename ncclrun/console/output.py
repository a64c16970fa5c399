"""Writes text to a stream so that no encoding breaks it, and so that a reader who left is told from a crash."""

from __future__ import annotations

import os
import re
from typing import TextIO

from ncclrun.model.errors import NcclrunError

_COLOR = re.compile(r"\x1b\[[0-9;:]*m")


class OutputClosed(NcclrunError):
    """Nobody reads our output any more (``| head``), or it can't be written; the exit code is a shell's for SIGPIPE."""

    exit_code = 141


class Output:
    """One stream. It raises OutputClosed once, at the first write that fails; what is written afterwards is dropped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._buffer = getattr(stream, "buffer", None)
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self.closed = False

    def write(self, text: str) -> None:
        """All of ``text`` with one write; a character that the stream's encoding lacks becomes ``?``."""
        if self.closed or not text:
            return
        try:
            if self._buffer is None:
                self._stream.write(text)
            else:
                self._buffer.write(text.encode(self._encoding, "replace"))
            self._stream.flush()
        except (OSError, ValueError) as error:
            # ValueError: the stream object itself was closed.
            self.closed = True
            self._leave_nothing_to_flush()
            raise OutputClosed(f"the output can't be written: {error}") from error

    def _leave_nothing_to_flush(self) -> None:
        """Points the descriptor at /dev/null: Python flushes at its exit and would complain about the pipe again."""
        if self._buffer is None or self._stream.closed:
            return
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)


class Colorless(Output):
    """The same without colours (NO_COLOR); the cursor still moves."""

    def write(self, text: str) -> None:
        super().write(_COLOR.sub("", text))
