"""Settings and conf files made ready to be shown: sources in words, changes as a diff, secrets masked."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace

from ncclrun.model.effective import Difference, Effective
from ncclrun.model.plan import Variable
from ncclrun.model.secrets import value_shown
from ncclrun.model.settings import Setting


def run_settings(environment: Iterable[Variable]) -> tuple[Setting, ...]:
    """A plan's variables as settings of the run's environment, with their sources in words."""
    return tuple(Setting(v.name, v.value, v.place) for v in environment)


def masked(values: Iterable[Effective], secrets: Iterable[Variable] = ()) -> tuple[Effective, ...]:
    """Effective values for an event; ``secrets`` are variables of the plan, of which some are known to be secret."""
    known = {variable.name for variable in secrets if variable.secret}
    return tuple(
        replace(
            one,
            value=value_shown(one.name, one.value, one.name in known),
            hides=tuple(replace(h, value=value_shown(one.name, h.value, one.name in known)) for h in one.hides),
        )
        for one in values
    )


def masked_difference(difference: Difference) -> Difference:
    """The difference with stars for each secret; that they differ stays to be seen."""
    held = [
        one if one.value is None else replace(one, value=value_shown(difference.name, one.value))
        for one in difference.values
    ]
    return replace(difference, values=tuple(held))


def diff(path: str, before: bytes | None, after: bytes | None) -> tuple[str, ...]:
    """The change of a conf file as lines of a unified diff, () where there is none; None: there is no such file.

    Secrets are masked, so that a line that changes by its secret alone stands there twice alike.
    """
    if before == after:
        return ()
    names = ["/dev/null" if data is None else path for data in (before, after)]
    lines = difflib.unified_diff(_lines(before), _lines(after), n=2, lineterm="")
    changes = tuple(_masked_line(line) for line in list(lines)[2:])
    return f"--- {names[0]}", f"+++ {names[1]}", *changes


def _lines(data: bytes | None) -> list[str]:
    """A last line without a line feed is another one than the same with it."""
    *whole, last = (data or b"").decode("utf-8", "backslashreplace").split("\n")
    return [*whole, f"{last}   (no line feed at its end)"] if last else whole


def _masked_line(line: str) -> str:
    name, equals, value = line.partition("=")
    return f"{name}{equals}{value_shown(name, value)}"
