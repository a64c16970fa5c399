"""Settings that differ between nodes where they must not, or agree where they must not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ncclrun.model.settings import Level
from ncclrun.model.words import listed
from ncclrun.nccl.catalogue.known import Known
from ncclrun.nccl.catalogue.names import find
from ncclrun.nccl.values import as_read

Difference = tuple[str, str, Level, str, str]
"""Name, what each node has, level, id, and what comes of it."""


def differences(nodes: Mapping[str, Mapping[str, str]]) -> Iterator[Difference]:
    """By name; values are compared as NCCL reads them, and one that is not set counts as the default."""
    for name in sorted({name for values in nodes.values() for name in values}):
        known = find(name)
        if known is None or len(nodes) < 2:
            continue
        read = {node: as_read(known, values.get(name, "")) for node, values in nodes.items()}
        shown = ", ".join(f"{node}: {values.get(name) or 'not set'}" for node, values in nodes.items())
        if known.same == "unique":
            yield from _repeated(known, read, shown)
        elif known.same in ("must", "should") and len(set(read.values())) > 1:
            why = (
                "NCCL needs the same on all nodes" if known.same == "must" else "a job runs with the same on all nodes"
            )
            groups = _groups(nodes, read, name)
            yield name, shown, "error" if known.same == "must" else "warning", "differs", f"{why}: {groups}"


def _groups(nodes: Mapping[str, Mapping[str, str]], read: Mapping[str, str], name: str) -> str:
    """``1 on gpu1, gpu2; not set on gpu3``."""
    groups: dict[str, list[str]] = {}
    for node, value in read.items():
        groups.setdefault(value, []).append(node)
    return "; ".join(f"{nodes[those[0]].get(name) or 'not set'} on {listed(those)}" for those in groups.values())


def _repeated(known: Known, read: Mapping[str, str], shown: str) -> Iterator[Difference]:
    values = [value for value in read.values() if value]
    if len(set(values)) < len(values):
        yield known.name, shown, "error", "not_unique", "it tells hosts apart, and two of them have the same"
