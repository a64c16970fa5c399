"""The one way in: chooses how events are shown, by what stdout and stderr are and what the user asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol, TextIO

from ncclrun.console.jsonl import JsonView
from ncclrun.console.output import Colorless, Output
from ncclrun.model.events import Event, Log, Planned
from ncclrun.planning.hostlist import select_ranks


class View(Protocol):
    """Shows events; made by ``make_view``."""

    def show(self, event: Event) -> None:
        """One event. Raises OutputClosed, once, when nobody reads the output any more; afterwards it is dropped."""

    def close(self) -> None:
        """Writes what is held back and leaves the terminal as it was; raises OutputClosed like ``show``."""


def make_view(
    stdout: TextIO,
    stderr: TextIO,
    *,
    json: bool,
    ranks: str | None = None,
    plan: bool = False,
    environ: Mapping[str, str] = os.environ,
    hurry: Callable[[], bool] = lambda: False,
    prompt: Callable[[], str] = lambda: "",
) -> View:
    """The view for these streams; ``hurry`` as Output takes it; ``prompt`` is a question that a live view shows.

    JSON lines on stdout with ``json``; a live view when both streams are a terminal that can move its cursor; else
    plain lines, logs and results on stdout and all else on stderr. NO_COLOR takes the colours alone. Only workers in
    the selection ``ranks`` (``0-3``, ``!5``; None: all) are shown; launchers always are. ``plan`` shows the plan in
    full (`--dry-run`).
    """
    view = _choose(stdout, stderr, json=json, plan=plan, environ=environ, hurry=hurry, prompt=prompt)
    return view if ranks is None else _Selected(view, ranks)


def _choose(
    stdout: TextIO,
    stderr: TextIO,
    *,
    json: bool,
    plan: bool,
    environ: Mapping[str, str],
    hurry: Callable[[], bool],
    prompt: Callable[[], str],
) -> View:
    if json:
        return JsonView(Output(stdout, hurry))
    # rich takes 0.1 s to import, and neither `--help` nor `--json` needs it.
    if is_live(stdout, stderr, environ):
        from ncclrun.console.terminal import TerminalView

        output = (Colorless if environ.get("NO_COLOR") else Output)(stdout, hurry)
        return TerminalView(output, colors=_colors(environ), size=partial(_size, stdout), plan=plan, prompt=prompt)
    from ncclrun.console.plain import PlainView

    return PlainView(Output(stdout, hurry), Output(stderr, hurry), plan=plan)


class _Selected:
    """Another view without the lines of some workers."""

    def __init__(self, view: View, selection: str) -> None:
        self._view = view
        self._selection = selection
        self._ranks: frozenset[int] = frozenset()

    def show(self, event: Event) -> None:
        if isinstance(event, Planned):  # only now is it known which ranks there are
            self._ranks = frozenset(select_ranks(self._selection, event.world_size))
        if not isinstance(event, Log) or event.rank is None or event.rank in self._ranks:
            self._view.show(event)

    def close(self) -> None:
        self._view.close()


def is_live(stdout: TextIO, stderr: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether both are a terminal that can move its cursor: then there is a footer."""
    return _is_live(stdout, environ) and _is_live(stderr, environ)


def _is_live(stream: TextIO, environ: Mapping[str, str]) -> bool:
    return stream.isatty() and environ.get("TERM", "") not in ("", "dumb", "unknown")


def _size(stream: TextIO) -> tuple[int, int]:
    """Columns and rows as they are now; 80 by 24 where the terminal does not know."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 80, 24
    return columns or 80, rows or 24


def _colors(environ: Mapping[str, str]) -> int:
    rich_terminal = "256" in environ.get("TERM", "") or environ.get("COLORTERM")
    return 256 if rich_terminal else 8
