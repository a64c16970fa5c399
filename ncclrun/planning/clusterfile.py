"""The cluster file: from text to a ClusterSpec, or to everything that is wrong with it at once."""

from __future__ import annotations

import json
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ncclrun.model.cluster import ClusterFile, ClusterSpec
from ncclrun.model.errors import SpecError, SpecProblem
from ncclrun.nccl.catalogue.names import find
from ncclrun.nccl.check.numbers import NO, YES
from ncclrun.planning.fields import field_at, keys_at, wanted
from ncclrun.planning.nodes import build_nodes
from ncclrun.planning.scalars import shorten
from ncclrun.planning.strictyaml import Document, Path, load

MAX_SHOWN = 100
BLOCKS = ("ssh", "network", "nccl", "launch")
MISSING: dict[str | int, str] = {
    "nodes": "the list of nodes is missing; write `nodes:` and below it a line `- host: …` for each",
    "host": "the name or address to reach this node at is missing; write `host: …`",
}


def parse_cluster(text: str | bytes, source: str) -> ClusterSpec:
    """The cluster that ``text`` (YAML) describes; ``source`` names it in messages. Raises SpecError with all faults."""
    document = load(text)
    if isinstance(document.data, dict):
        _take_env_as_written(document)
    elif not document.problems:
        document.report((), "a mapping with a list of `nodes` is wanted (a hostfile has lines such as `gpu1 slots=8`)")
    return build(document, source)


def build(document: Document, source: str) -> ClusterSpec:
    """Checks what was read and applies each node's overrides; raises SpecError with all faults, by place."""
    file, indexes = _validate(document) if isinstance(document.data, dict) else (None, ())
    nodes = build_nodes(file, indexes, document) if file else ()
    if document.problems or file is None:
        raise SpecError(source, _in_order(document.problems))
    return ClusterSpec(file.name, source, file.nccl, nodes)


def _in_order(problems: list[SpecProblem]) -> tuple[SpecProblem, ...]:
    """By place, each once; of a file that is wrong all over, as many as a person may want to read."""
    found = sorted(set(problems), key=lambda p: (p.line, p.column, p.path))
    if len(found) > MAX_SHOWN:
        rest = f"from here on there are {len(found) - MAX_SHOWN} more faults"
        found[MAX_SHOWN:] = [replace(found[MAX_SHOWN], path="", message=rest)]
    return tuple(found)


def _take_env_as_written(document: Document) -> None:
    """Numbers among variables become the text that was written: 1.50 stays 1.50."""
    entries = document.data.get("nodes")
    paths: list[Path] = [("nccl", "env"), ("launch", "env")]
    paths += [("nodes", index, "env") for index in range(len(entries) if isinstance(entries, list) else 0)]
    for path in paths:
        env = _at(document.data, path)
        for name, value in env.items() if isinstance(env, dict) else ():
            here = (*path, name)
            word = document.texts.get(here, "").lower()
            if word in (*YES, *NO) and _takes_a_number(name):
                # At once: in quotes, as YAML would have it, the word is as wrong.
                right = 1 if word in YES else 0
                document.report_instead(here, f"NCCL takes a number here, and reads any word as 0; write {right}")
                document.bad.add(here)
            elif isinstance(value, bool):
                document.report(here, _boolean_variable(name, document.texts[here]))
                document.bad.add(here)
            if isinstance(value, int | float):
                env[name] = document.texts[here]


def _boolean_variable(name: str, text: str) -> str:
    message = f'a variable is text; write "{text}" in quotes'
    if name.startswith("NCCL_"):
        message += f", but NCCL reads that word as 0: {1 if text.lower() == 'true' else 0} is what it understands"
    return message


def _takes_a_number(name: str) -> bool:
    """As all switches of NCCL's do; torch's own know words."""
    known = find(name)
    return known is not None and known.side == "nccl" and known.kind in ("integer", "flag")


def _at(data: Any, path: Path) -> Any:
    """What stands at ``path``, None where there is nothing."""
    for part in path:
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def _validate(document: Document) -> tuple[ClusterFile | None, tuple[int, ...]]:
    """The file as far as it is sound, and the index in the file of each entry that is left of its nodes.

    What has a fault is reported and taken out, so that the rest can still be checked against each other.
    """
    data = document.data
    try:
        file = _model(data)
    except ValidationError as error:
        # pydantic calls a list too short when all its items have faults; it is the faults that matter then
        findings = [e for e in error.errors(include_url=False) if e["type"] != "too_short" or not e["input"]]
    else:
        return file, tuple(range(len(file.nodes)))
    for path in [_report(document, details) for details in findings]:
        _take_out(data, path)
    entries = data.get("nodes")
    indexes = tuple(index for index, entry in enumerate(entries or ()) if isinstance(entry, str) or "host" in entry)
    if not indexes:
        return None, ()
    return _model(data | {"nodes": [entries[index] for index in indexes]}), indexes


def _model(data: Any) -> ClusterFile:
    nodes = data.get("nodes")
    if isinstance(nodes, list):
        data = data | {"nodes": [{"host": entry} if isinstance(entry, str) else entry for entry in nodes]}
    # By way of JSON, as strict mode then takes lists for tuples and text for networks, and still no text for numbers.
    return ClusterFile.model_validate_json(json.dumps(data), strict=True)


def _take_out(data: Any, path: Path) -> None:
    """Removes the field at ``path``; of a list the whole, as its other items would move. Nodes keep their place."""
    parent = _at(data, path[:-1])
    if isinstance(parent, dict):
        parent.pop(path[-1], None)
    elif path[:-1] == ("nodes",) and isinstance(parent, list):
        parent[int(path[-1])] = {}
    elif path:
        _take_out(data, path[:-1])


def _report(document: Document, details: ErrorDetails) -> Path:
    """Puts one of pydantic's findings in our words, once a field; returns the path of what is at fault."""
    found = document.data
    path: Path = ()
    for part in details["loc"]:  # parts that are not in the file name pydantic's alternatives and validators
        inside = _at(found, (part,))
        if inside is None:
            break
        path, found = (*path, part), inside
    if details["type"] == "missing":
        path, around = (*path, str(details["loc"][-1])), path
        document.report(path, MISSING[path[-1]], place=document.place(around))
    elif not any(path[:end] in document.bad for end in range(1, len(path) + 1)):
        document.bad.add(path)
        about_key = details["type"] == "extra_forbidden" or details["loc"][-1] == "[key]"
        document.report(path, _message(document, path, found, details), key=about_key)
    return path


def _message(document: Document, path: Path, found: Any, details: ErrorDetails) -> str:
    kind = details["type"]
    if kind == "extra_forbidden":
        return _unknown_key(path)
    if kind == "value_error":
        return str(details["ctx"]["error"])
    if kind == "string_pattern_mismatch":
        name = path[-1] if details["loc"][-1] == "[key]" else found
        return f"{shorten(str(name))!r} is no name of a variable: letters, digits and _ are wanted, and no digit first"
    if kind == "too_short":
        return "this list is empty; write at least one item" + ("" if path == ("nodes",) else ", or take the line out")
    return _wrong_type(wanted(field_at(path) or {}), found, document.texts.get(path, ""))


def _unknown_key(path: Path) -> str:
    key, known = str(path[-1]), keys_at(path[:-1])
    close = get_close_matches(key, known, n=1)
    if close:
        return f"there is no such field; did you mean `{close[0]}`?"
    homes = [block for block in BLOCKS if key in keys_at((block,))]
    if homes:
        return f"there is no such field here; `{key}` belongs under `{homes[0]}:`"
    return f"there is no such field; there are {', '.join(known)}"


def _wrong_type(words: str, found: Any, text: str) -> str:
    hint = ""
    if isinstance(found, str):
        shown = f'the text "{shorten(found)}"'
        if ("number" in words and found.isdecimal()) or ("true" in words and found in ("true", "false")):
            hint = f"; write {found} without quotes"
    elif isinstance(found, list | dict):
        shown = "a list" if isinstance(found, list) else "a mapping"
    else:
        shown = f"the boolean {text}" if isinstance(found, bool) else f"the number {shorten(text)}"
        if words.startswith("text"):
            hint = f'; write "{shorten(text)}" in quotes if it is text'
    return f"{words} is wanted, not {shown}{hint}"
