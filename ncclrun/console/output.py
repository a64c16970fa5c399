"""Writes text to a stream so that no encoding breaks it, and so that a reader who left is told from a crash."""

from __future__ import annotations

import io
import os
import re
import select
import time
from collections.abc import Callable
from typing import BinaryIO, TextIO

from ncclrun.model.errors import NcclrunError

_COLOR = re.compile(r"\x1b\[[0-9;:]*m")


class OutputClosed(NcclrunError):
    """Nobody reads our output any more (``| head``), or it can't be written; the exit code is a shell's for SIGPIPE."""

    exit_code = 141


class OutputStuck(OutputClosed):
    """The reader took nothing for a while (Ctrl-S, a stopped program), and somebody wanted to get on."""


PIECE = select.PIPE_BUF
"""Bytes of one write: a pipe that can be written to takes so many at once (POSIX), so that no write waits."""
PATIENCE = 1.0
"""Seconds for which a reader who takes nothing is waited for when there is haste."""
LOOK_MS = 100


class Output:
    """One stream. It raises OutputClosed once, at the first write that fails; what is written afterwards is dropped.

    A reader who takes nothing is waited for, unless ``hurry`` says that there is haste (a Ctrl-C that must be heard):
    then it raises OutputStuck, once, and the rest is dropped.
    """

    def __init__(self, stream: TextIO, hurry: Callable[[], bool] = lambda: False) -> None:
        self._stream = stream
        self._hurry = hurry
        self._buffer = getattr(stream, "buffer", None)
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self.closed = False

    def write(self, text: str) -> None:
        """All of ``text``; a character that the stream's encoding lacks becomes ``?``."""
        if self.closed or not text:
            return
        try:
            if self._buffer is None:
                self._stream.write(text)
                self._stream.flush()
            else:
                self._put(self._buffer, text.encode(self._encoding, "replace"))
        except OutputStuck:
            self.closed = True
            self._leave_nothing_to_flush()
            raise
        except (OSError, ValueError) as error:
            # ValueError: the stream object itself was closed.
            self.closed = True
            self._leave_nothing_to_flush()
            raise OutputClosed(f"the output can't be written: {error}") from error

    def _put(self, buffer: BinaryIO, data: bytes) -> None:
        self._stream.flush()
        try:
            number = self._stream.fileno()
        except io.UnsupportedOperation:  # a buffer that is no file
            buffer.write(data)
            buffer.flush()
            return
        poll = select.poll()
        poll.register(number, select.POLLOUT)
        rest = memoryview(data)
        while rest:
            self._wait(poll)
            rest = rest[os.write(number, rest[:PIECE]) :]

    def _wait(self, poll: select.poll) -> None:
        """Until the stream takes something. Raises OutputStuck."""
        since = time.monotonic()
        while not poll.poll(LOOK_MS):
            if self._hurry() and time.monotonic() - since > PATIENCE:
                raise OutputStuck("nobody takes the output any more, so the rest of it is dropped")

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
