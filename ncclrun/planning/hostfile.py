"""Clusters without a cluster file: `--hosts a,b,gpu[1-3]`, and hostfiles of DeepSpeed and MPI."""

from __future__ import annotations

import re

from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.target import Target, parse_target, split_port
from ncclrun.planning.clusterfile import build
from ncclrun.planning.hostlist import split_commas
from ncclrun.planning.strictyaml import Document, Place

_WORD = re.compile(r"\S+?\s*=\s*\S*|\S+")
SLOTS = "slots"
MAX_SLOTS = 1024
IGNORED = ("max_slots", "max-slots")
"""What MPI may run at most; a training runs `slots`."""

_YAML = re.compile(r"[^\s:]+\s*:(\s|\Z)|-(\s|\Z)|---|\[(?![\dA-Fa-f:.%]+\])|[\]{}\"'%&*!|>?@`]")
"""How a line of YAML begins: a key, an item, a document, a flow collection, a quote or another sign of its own."""


def is_hostfile(text: str) -> bool:
    """Whether this is meant as lines of ``host [word=…]``: no line begins as YAML's mappings and lists do.

    A line that is neither is then told as a hostfile's, which is what its writer had in mind.
    """
    lines = [_without_comment(line) for line in text.removeprefix("\ufeff").splitlines()]
    said = [line.strip() for line in lines if line.strip()]
    return bool(said) and not any(_YAML.match(line) for line in said)


def parse_hosts(text: str, source: str = "--hosts") -> ClusterSpec:
    """The cluster of a comma-separated list of ``[user@]host[:port]`` with ranges. Raises SpecError."""
    document = Document(data={"nodes": []}, named=False)
    for offset, part in split_commas(text):
        place = (1, offset + 1)
        try:
            target = parse_target(part)
        except ValueError as error:
            document.report((), str(error) if part else "a host is wanted here", place=place)
        else:
            _add(document, target, place)
    return _build(document, source)


def parse_hostfile(text: str, source: str) -> ClusterSpec:
    """The cluster of a hostfile: ``[user@]host [slots=N]`` or ``host:N`` a line, ``#`` comments. Raises SpecError."""
    document = Document(data={"nodes": []}, named=False)
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        words = [((number, match.start() + 1), match[0]) for match in _WORD.finditer(_without_comment(line))]
        if words:
            _take_line(document, words)
    if not document.data["nodes"] and not document.problems:
        document.report((), "no host stands in this file")
    return _build(document, source)


def _without_comment(line: str) -> str:
    return re.sub(r"(^|\s)#.*", "", line)


def _build(document: Document, source: str) -> ClusterSpec:
    if not document.data["nodes"]:
        document.data = None  # all there was has been reported
    return build(document, source)


def _add(document: Document, target: Target, place: Place) -> dict[str, object]:
    fields = {"host": target.host, "user": target.user, "port": target.port}
    entry: dict[str, object] = {name: value for name, value in fields.items() if value is not None}
    document.places["nodes", len(document.data["nodes"])] = place
    document.data["nodes"].append(entry)
    return entry


def _take_line(document: Document, words: list[tuple[Place, str]]) -> None:
    """One host with its slots. MPI writes these behind a colon too, so no port can stand there."""
    place, text = words[0]
    user, at, rest = text.rpartition("@")
    host, slots = split_port(rest)
    try:
        entry = _add(document, parse_target(user + at + host), place)
    except ValueError as error:
        document.report((), str(error), place=place)
        entry = {}
    if slots is not None:
        _take_slots(document, entry, slots, place)
    for place, word in words[1:]:
        name, _, value = (part.strip() for part in word.partition("="))
        if name == SLOTS:
            _take_slots(document, entry, value, place)
        elif name not in IGNORED:
            document.report((), f"{word!r} is not understood; after the host stands `slots=N`", place=place)


def _take_slots(document: Document, entry: dict[str, object], value: str, place: Place) -> None:
    if "nproc_per_node" in entry:
        message = "slots stand here twice; behind a colon are slots too, a port goes into a cluster file"
        document.report((), message, place=place)
    elif not re.fullmatch(r"[0-9]{1,6}", value) or not 1 <= int(value) <= MAX_SLOTS:
        document.report((), f"{value!r} slots: a whole number from 1 to {MAX_SLOTS} is wanted", place=place)
    else:
        entry["nproc_per_node"] = int(value)
