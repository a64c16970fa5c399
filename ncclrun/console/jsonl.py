"""Writes events as JSON lines (docs/events.md): `--json`."""

from __future__ import annotations

import dataclasses
import json

from ncclrun.console.output import Output
from ncclrun.model.events import Event, Log


def json_lines(event: Event) -> str:
    """The event as JSON, one object a line, each with its line feed.

    A Log becomes one object a line of its text; a partial one is "". ASCII only, so that no encoding on the way and no
    lone surrogate can break it.
    """
    fields = {"event": event.event, **dataclasses.asdict(event)}
    if not isinstance(event, Log):
        return json.dumps(fields, allow_nan=False, default=str) + "\n"
    if event.partial:
        return ""
    del fields["partial"], fields["text"]
    head = json.dumps(fields, allow_nan=False)[:-1] + ', "text": '
    return "".join([f"{head}{json.dumps(line)}}}\n" for line in event.text.split("\n")])


class JsonView:
    """Every event on stdout, and nothing else."""

    def __init__(self, stdout: Output) -> None:
        self._stdout = stdout

    def show(self, event: Event) -> None:
        """One event; raises OutputClosed when the reader has left."""
        self._stdout.write(json_lines(event))

    def close(self) -> None:
        """Nothing is held back."""
