"""The look of `nccl show`: one table of the variables of all nodes, in which those that differ stand out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Literal, NamedTuple

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
_HIDDEN = "dim"
_HEADS = ("", "variable", "value", "from", "on")


class _Row(NamedTuple):
    mark: Mark
    name: str
    value: str
    source: str
    on: str
    style: str


def settings_text(seen: Sequence[SettingsSeen], differs: Mapping[str, Difference], width: int | None) -> str:
    """The nodes' settings as lines: a row for each value of a variable with the nodes that take it from one place.

    Below it stand those that it hides. ``differs``: the variables that are not the same on all nodes. ``width`` as for
    tables.
    """
    rows = [row for name, places in _places(seen).items() for row in _rows(name, places, differs.get(name), len(seen))]
    if not rows:
        return _reads(seen, width)
    cells = [list(row[: len(_HEADS)]) for row in rows]
    if width is not None:  # in a pipe each line has to speak for itself
        for before, row, shown in zip(rows, rows[1:], cells[1:], strict=False):
            shown[1] = "" if row.name == before.name else row.name
            shown[-1] = "" if row.style == _HIDDEN else row.on
    table = table_text(_HEADS, cells, width=width, styles=[row.style for row in rows], whole=("variable",))
    legend = [f"{mark} {words}\n" for mark, words in MARKS.items() if any(row.mark == mark for row in rows)]
    return _reads(seen, width) + "\n" + table + "\n" * bool(legend) + "".join(legend)


def _rows(
    name: str, places: Mapping[Effective | None, Sequence[str]], difference: Difference | None, total: int
) -> Iterator[_Row]:
    for place, nodes in places.items():
        on = on_nodes(nodes, total).removeprefix("on ") if total > 1 else ""
        mark = _mark(difference, place)
        if place is None:
            yield _Row(mark, name, "(not set)", "", on, _STYLES[mark])
            continue
        yield _Row(mark, name, value_text(place.value), at(place.source, place.line), on, _STYLES[mark])
        for one in place.hides:
            yield _Row("", name, f"hides {value_text(one.value)}", at(one.source, one.line), on, _HIDDEN)


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
        setting = f"{finding.name}={value_text(finding.value)}" if finding.value else finding.name
        notes.append(Note(finding.level, f"{who}{where}{setting}: {finding.sees}"))
        if finding.fix:
            notes.append(Note("fix", finding.fix))
    return notes
