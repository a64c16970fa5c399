"""The look of `nccl show`: one table of the variables of all nodes, in which those that differ stand out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Literal

from ncclrun.console.notes import Level, Note
from ncclrun.console.sanitize import one_line
from ncclrun.console.tables import table_text
from ncclrun.console.words import on_nodes
from ncclrun.model.effective import Difference, Effective
from ncclrun.model.settingevents import SettingFound, SettingsSeen
from ncclrun.model.settings import SettingFinding
from ncclrun.model.words import listed

NAMED = 8
"""Nodes by name in front of a finding."""
Mark = Literal["", "!", "~"]
MARKS: Mapping[Mark, str] = {
    "!": "not as on the other nodes",
    "~": "not the same on all nodes, and need not be: it is each host's own",
}
_STYLES: Mapping[Mark, str] = {"": "", "!": "bold yellow", "~": ""}
_HEADS = ("", "variable", "value", "from", "hides", "on")


def settings_text(seen: Sequence[SettingsSeen], differs: Mapping[str, Difference], width: int | None) -> str:
    """The nodes' settings as lines: a row for each value of a variable with the nodes that take it from one place.

    ``differs``: the variables that are not the same on all of them. ``width`` as for tables.
    """
    cells: list[list[str]] = []
    marks: list[Mark] = []
    for name, places in _places(seen).items():
        for at, (place, nodes) in enumerate(places.items()):
            mark = _mark(differs.get(name), place)
            again = at > 0 and width is not None  # in a pipe each line has to speak for itself
            on = on_nodes(nodes, len(seen)).removeprefix("on ") if len(seen) > 1 else ""
            cells.append([mark, "" if again else name, *_cells(place), on])
            marks.append(mark)
    if not cells:
        return _reads(seen, width)
    table = table_text(_HEADS, cells, width=width, styles=[_STYLES[mark] for mark in marks])
    legend = [f"{mark} {words}" for mark, words in MARKS.items() if mark in marks]
    return _reads(seen, width) + "\n" + table + "\n" * bool(legend) + "".join(line + "\n" for line in legend)


def _places(seen: Sequence[SettingsSeen]) -> dict[str, dict[Effective | None, list[str]]]:
    """By variable: its values and where they come from, that of most nodes first; None is that it is not set."""
    found: dict[str, dict[Effective | None, list[str]]] = {}
    for name in sorted({value.name for event in seen for value in event.values}):
        places = found.setdefault(name, {})
        for event in seen:
            place = next((value for value in event.values if value.name == name), None)
            places.setdefault(place, []).append(event.node)
        found[name] = dict(sorted(places.items(), key=lambda item: -len(item[1])))
    return found


def _mark(difference: Difference | None, place: Effective | None) -> Mark:
    if difference is None:
        return ""
    if difference.per_host:
        return "~"
    usual = difference.values[0].value if difference.usual else None
    value = (place.value or None) if place else None
    return "" if difference.usual and value == usual else "!"


def _cells(place: Effective | None) -> list[str]:
    """Value, from, hides."""
    if place is None:
        return ["(not set)", "", ""]
    hides = "; ".join(f"{value_text(one.value)} from {at(one.source, one.line)}" for one in place.hides)
    return [value_text(place.value), at(place.source, place.line), hides]


def value_text(value: str) -> str:
    """A value on one line, so that also blanks around it are seen; an empty one counts as not set."""
    return "(empty: not set)" if not value else value if value == value.strip() else f'"{value}"'


def at(source: str, line: int | None) -> str:
    """``/etc/nccl.conf:3``."""
    return source if line is None else f"{source}:{line}"


def _reads(seen: Sequence[SettingsSeen], width: int | None) -> str:
    """``NCCL 2.27.5 on all 3 nodes, conf files read: /etc/nccl.conf``, nodes alike in one line."""
    groups: dict[tuple[str, tuple[str, ...], bool], list[str]] = {}
    for event in seen:
        groups.setdefault((event.nccl, event.files, bool(event.values)), []).append(event.node)
    lines = []
    for (nccl, files, some), nodes in groups.items():
        version = f"NCCL {nccl}" if nccl else "NCCL of an unknown version"
        read = f"conf files read: {', '.join(files)}" if files else "no conf file"
        nothing = "" if some else "; nothing is set, so it goes by its own defaults"
        lines.append(one_line(f"{version} {on_nodes(nodes, len(seen))}, {read}{nothing}"))
    return "".join(f"{part}\n" for line in lines for part in (wrap(line, max(20, width)) if width else [line]))


def found_notes(events: Sequence[SettingFound]) -> list[Note]:
    """What is to be known of single settings, errors last; once for all nodes that have the very same."""
    groups: dict[SettingFinding, list[str]] = {}
    for event in events:
        nodes = groups.setdefault(event.finding, [])
        nodes += [event.node] if event.node else []
    order: list[Level] = ["info", "warning", "error"]
    notes = []
    for finding, nodes in sorted(groups.items(), key=lambda item: order.index(item[0].level)):
        who = f"{listed(nodes, NAMED)}: " if nodes else ""
        where = f"{at(finding.file, finding.line)}: " if finding.file else ""
        notes.append(Note(finding.level, f"{who}{where}{finding.name}={value_text(finding.value)}: {finding.sees}"))
        if finding.fix:
            notes.append(Note("fix", finding.fix))
    return notes
