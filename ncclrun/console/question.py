"""One question at the terminal before something is changed."""

from __future__ import annotations

import sys
import termios

from ncclrun.console.output import Output
from ncclrun.model.errors import UsageError


def confirm(question: str, out: Output, *, nothing: str, first: str) -> None:
    """Returns on yes; raises UsageError on anything else, and where nobody can be asked.

    ``nothing`` says what was not done ("nothing was written"), ``first`` what to do before the same with `--yes`.
    """
    if not sys.stdin.isatty():
        raise UsageError(f"{nothing}: this is no terminal to ask at", fix=f"{first}, then the same command with --yes")
    if not agreed(question, out):
        raise UsageError(nothing)


def agreed(question: str, out: Output) -> bool:
    """Whether the answer is yes; False where nobody can be asked."""
    if not sys.stdin.isatty():
        return False
    # What was typed before the question could be read is no answer to it.
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    out.write(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
