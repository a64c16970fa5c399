"""What mends a fault: commands that can be typed as they are printed, and sentences where there is no command."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import Formatter

_UNKNOWN = {
    "address": "that address",
    "host": "that host",
    "hosts": "several hosts",
    "interface": "that interface",
    "name": "it",
    "path": "that path",
    "peer": "the peer that ended first",
    "port": "that port",
    "value": "this",
}
"""What stands in a sentence for what no line tells."""
OWN = {"cluster": "CLUSTER", "script": "SCRIPT"}
"""What stands in a command for what only its reader knows; what names the cluster of a run of ours is known."""
LAUNCH = "ncclrun launch {cluster} {script}"


@dataclass(frozen=True, slots=True)
class Step:
    """Of ``forms`` the first counts whose captures are all known; where none is, there is no such step.

    Without forms the ``note`` is a sentence of its own, else it says what the command tells or does.
    """

    forms: tuple[str, ...]
    note: str
    where: str = ""

    def told(self, known: Mapping[str, str]) -> str:
        """As it is printed, "" where it can't be typed."""
        if not self.forms:
            return filled(self.note, known)
        command = self.command(known)
        where = f"{filled(self.where, known)}:  " if self.where else ""
        return f"{where}{command}{f'   ({filled(self.note, known)})' if self.note else ''}" if command else ""

    def command(self, known: Mapping[str, str]) -> str:
        """What is typed, each value as one word of a shell; "" where something in it is not known."""
        values = {**OWN, **{name: value if name in OWN else shlex.quote(value) for name, value in known.items()}}
        return next((form.format_map(values) for form in self.forms if names(form) <= values.keys()), "")


def here(*forms: str, note: str = "") -> Step:
    """On the machine from which jobs are launched."""
    return Step(forms, note)


def there(*forms: str, note: str = "") -> Step:
    """On the host that has the fault."""
    return Step(forms, note, "on {host}")


def on(who: str, *forms: str, note: str = "") -> Step:
    """On another host than the one that has the fault."""
    return Step(forms, note, f"on {who}")


def in_file(line: str, note: str = "") -> Step:
    """A line of the cluster file."""
    return Step((line,), note, "in the cluster file")


def say(sentence: str) -> Step:
    """What no command does."""
    return Step((), sentence)


def again(options: str, note: str = "") -> Step:
    """The next launch with some options more."""
    return here(f"ncclrun launch {options} {{cluster}} {{script}}", note=note)


def mended(steps: Iterable[Step], known: Mapping[str, str]) -> str:
    """The steps, each in a line of its own; who was launched by ncclrun is not told to be, if there is another."""
    told = [(step.forms, line) for step in steps if (line := step.told(known))]
    others = [line for forms, line in told if forms != (LAUNCH,)]
    return "\n".join(others if others and "cluster" in known else [line for _, line in told])


def filled(text: str, known: Mapping[str, str]) -> str:
    """A sentence with what is known put in, and with words for what is not."""
    values = {**_UNKNOWN, **OWN, **known}
    return text.format_map({**dict.fromkeys(names(text), "…"), **values})


def names(text: str) -> set[str]:
    """The captures that a text wants."""
    return {name for _, name, _, _ in Formatter().parse(text) if name}
