"""One key of a person at the terminal, for a question that is asked while everything else goes on."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUESTION = "Ctrl-C: d = detach (the run goes on), s = stop the run, Enter = follow it on"
LOOK = 0.1
"""Seconds for which a look at the keyboard may wait."""

Look = Callable[[], str]
"""The key that was pressed, "" if none was within ``LOOK`` seconds."""


def can_ask() -> bool:
    """Whether a person can be asked: stdin and stderr are a terminal, and we are in its foreground."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return False  # a terminal, but not the one that controls us


@contextmanager
def keys() -> Iterator[Look]:
    """Single keys, unseen and without Enter; Ctrl-C stays a signal, and the terminal is left as it was."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def look() -> str:
        ready, _, _ = select.select([terminal], [], [], LOOK)
        return os.read(terminal, 1).decode("ascii", "replace") if ready else ""

    tty.setcbreak(terminal, termios.TCSADRAIN)
    try:
        yield look
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
