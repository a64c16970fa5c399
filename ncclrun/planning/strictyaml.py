"""YAML without surprises: from text to plain data, the place of every field, and every fault at once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from ncclrun.model.errors import SpecProblem
from ncclrun.planning.scalars import plain_value, surprise, unencodable
from ncclrun.planning.yamlwords import explain

MAX_BYTES = 1 << 20
"""Largest cluster file that is read."""
MAX_DEPTH = 20

Path = tuple[str | int, ...]
"""Where a field stands: keys and list indexes, from the top."""
Place = tuple[int, int]
"""Line and column, both from 1."""
_NAMELESS = "?"
"""Stands in a path for a key that is none."""


@dataclass
class Document:
    """What a file says: ``data`` of dict, list, str, int, float and bool, and where each part of it stands.

    ``texts`` has what was written for each number and boolean, and for what YAML takes for something else. A field in
    ``bad`` has a fault among ``problems`` already, and a stand-in for its value. Where the fields have no names to show
    (a list of hosts), ``named`` is False.
    """

    data: Any = None
    places: dict[Path, Place] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)
    bad: set[Path] = field(default_factory=set)
    problems: list[SpecProblem] = field(default_factory=list)
    named: bool = True

    def place(self, path: Path, *, key: bool = False) -> Place:
        """Where ``path`` stands (with ``key``: its name), else the nearest thing around it."""
        if key and path in self.keys:
            return self.keys[path]
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, (1, 1))

    def report(self, path: Path, message: str, *, key: bool = False, place: Place | None = None) -> None:
        """Adds a problem at ``path`` (or at ``place``, where it shows better)."""
        line, column = place or self.place(path, key=key)
        self.problems.append(SpecProblem(line, column, dotted(path) if self.named else "", message))

    def report_instead(self, path: Path, message: str) -> None:
        """The same, in the place of what was said of ``path`` so far."""
        self.problems = [problem for problem in self.problems if problem.path != dotted(path)]
        self.report(path, message)


def dotted(path: Path) -> str:
    """The path as people write it: ``nodes[1].env.X``."""
    shown = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path if part != _NAMELESS)
    return "".join(shown).removeprefix(".")


def load(source: str | bytes) -> Document:
    """Reads a file's content; never raises. What can't be read at all leaves ``data`` None.

    What could be read is there even when it has faults: these fields are in ``bad``, or missing (a key given twice).
    """
    document = Document()
    content = source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source
    if len(content) > MAX_BYTES:
        document.report((), f"the file is larger than {MAX_BYTES >> 20} MiB, which no cluster file is")
        return document
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        place = _end_of(content[: error.start].decode("utf-8"))
        document.report((), "this is not UTF-8; save the file as UTF-8", place=place)
        return document
    builder = _Builder(document)
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if not builder.take(event):
                return document
        builder.finish()
    except yaml.reader.ReaderError as error:
        place = _end_of(text[: error.position])
        code = ord(text[error.position])
        document.report((), f"the control character {code:#x} can't stand in YAML; take it out", place=place)
    except yaml.MarkedYAMLError as error:
        place, message = explain(error, text)
        document.report(builder.path, message, place=place)
    return document


def _end_of(text: str) -> Place:
    lines = re.split(r"\r\n|[\r\n]", text)
    return len(lines), len(lines[-1]) + 1


@dataclass
class _Frame:
    """A mapping or a list that is being read; ``key`` is the mapping's key whose value comes next."""

    container: dict[str, Any] | list[Any]
    path: Path
    seen: dict[str, Place] = field(default_factory=dict)
    key: str | None = None
    dropped: bool = False
    """The next value belongs to a key that can't be kept."""
    is_key: bool = False
    """The whole collection stands where a key is wanted."""


class _Builder:
    """Takes YAML's events one by one. Its stack is its own, so that no depth of nesting can exhaust Python's."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.stack: list[_Frame] = []
        self.documents = 0

    @property
    def path(self) -> Path:
        """Of the value that comes next; one that is dropped must not take the place of the one that is kept."""
        if not self.stack:
            return ()
        frame = self.stack[-1]
        if isinstance(frame.container, list):
            return (*frame.path, len(frame.container))
        return (*frame.path, _NAMELESS) if frame.key is None else (*frame.path, frame.key)

    def take(self, event: yaml.Event) -> bool:
        """False ends the reading: what follows can't be made sense of."""
        mark = event.start_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self.document.report((), "a second document begins here; a cluster file is one", place=place)
                return False
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close()
        elif isinstance(event, yaml.NodeEvent):
            return self._node(event, place)
        return True

    def finish(self) -> None:
        """At the end of the file: says so where there was nothing in it."""
        if self.documents == 0:
            self.document.report((), "the file is empty; it needs a list of `nodes` at least")

    def _node(self, event: yaml.NodeEvent, place: Place) -> bool:
        self._refuse_properties(event, place)
        if isinstance(event, yaml.CollectionStartEvent):
            if len(self.stack) == MAX_DEPTH:
                self.document.report(self.path, f"more than {MAX_DEPTH} levels of nesting", place=place)
                return False
            self._open([] if isinstance(event, yaml.SequenceStartEvent) else {}, place)
        elif self._wants_key():
            self._key(event, place)
        else:
            self._value(event, place)
        return True

    def _refuse_properties(self, event: yaml.NodeEvent, place: Place) -> None:
        if isinstance(event, yaml.AliasEvent):
            self.document.report(self.path, f"an alias (*{event.anchor}); write the value itself", place=place)
        elif event.anchor is not None:
            self.document.report(self.path, f"an anchor (&{event.anchor}); take it out", place=place)
        tag = getattr(event, "tag", None)
        if tag is not None:
            short = tag.replace("tag:yaml.org,2002:", "!!")
            self.document.report(self.path, f"a tag ({short}); take it out, text is told by its quotes", place=place)

    def _wants_key(self) -> bool:
        if not self.stack:
            return False
        frame = self.stack[-1]
        return isinstance(frame.container, dict) and frame.key is None and not frame.dropped

    def _key(self, event: yaml.NodeEvent, place: Place) -> None:
        frame = self.stack[-1]
        frame.dropped = True
        if not isinstance(event, yaml.ScalarEvent):
            return  # an alias: said already
        path = (*frame.path, event.value)
        if fault := _key_fault(event):
            self.document.report(path, fault, place=place)
        elif event.value in frame.seen:
            line, column = frame.seen[event.value]
            message = f"this key is given twice, first at line {line}, column {column}"
            self.document.report(path, message, place=place)
        else:
            frame.seen[event.value] = self.document.keys[path] = place
            frame.key, frame.dropped = event.value, False

    def _value(self, event: yaml.NodeEvent, place: Place) -> None:
        path = self.path
        self.document.places[path] = place
        if not isinstance(event, yaml.ScalarEvent):
            self.document.bad.add(path)
            self._put("")
            return
        value, fault = _read(event)
        if fault:
            self.document.report(path, fault, place=place)
            self.document.bad.add(path)
        if fault or not isinstance(value, str):
            self.document.texts[path] = event.value
        self._put(value)

    def _open(self, container: dict[str, Any] | list[Any], place: Place) -> None:
        is_key = self._wants_key()
        if is_key:
            self.document.report(self.stack[-1].path, "a key is text, not a list or a mapping", place=place)
        self.document.places[self.path] = place
        self.stack.append(_Frame(container, self.path, is_key=is_key))

    def _close(self) -> None:
        frame = self.stack.pop()
        if frame.is_key:
            self.stack[-1].dropped = True
        else:
            self._put(frame.container)

    def _put(self, value: Any) -> None:
        if not self.stack:
            self.document.data = value
            return
        frame = self.stack[-1]
        if isinstance(frame.container, list):
            frame.container.append(value)
        elif frame.key is not None:
            frame.container[frame.key] = value
        frame.key, frame.dropped = None, False


def _read(event: yaml.ScalarEvent) -> tuple[str | int | float | bool, str]:
    """The value and what is wrong with it ("" for nothing)."""
    if event.style is not None:
        fault = unencodable(event.value)
        return "" if fault else event.value, fault
    fault = surprise(event.value)
    return "" if fault else plain_value(event.value), fault


def _key_fault(event: yaml.ScalarEvent) -> str:
    if event.style is None and event.value == "<<":
        return "a merge key (<<); write the fields themselves"
    value, fault = _read(event)
    return fault if fault or isinstance(value, str) else f"a key is text; put {event.value} in quotes"
