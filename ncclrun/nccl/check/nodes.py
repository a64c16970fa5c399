"""Settings that differ between nodes where they must not, or agree where they must not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ncclrun.model.settings import Level
from ncclrun.model.words import listed
from ncclrun.nccl.catalogue.known import Known
from ncclrun.nccl.catalogue.names import find
from ncclrun.nccl.values import as_read

Said = tuple[str, Level, str, str]
"""Name, level, id, and who has what and what comes of it."""


def across_remarks(nodes: Mapping[str, Mapping[str, str]]) -> Iterator[Said]:
    """By name; values are compared as NCCL reads them, and one that is not set counts as the default."""
    for name in sorted({name for values in nodes.values() for name in values}):
        known = find(name)
        if known is None or len(nodes) < 2:
            continue
        read = {node: as_read(known, values.get(name, "")) for node, values in nodes.items()}
        if known.same == "unique":
            yield from _repeated(known, read)
        elif known.same in ("must", "should") and len(set(read.values())) > 1:
            why = (
                "NCCL needs the same on all nodes" if known.same == "must" else "a job runs with the same on all nodes"
            )
            groups = _groups(nodes, read, name)
            yield name, "error" if known.same == "must" else "warning", "differs", f"{why}: {groups}"


def _groups(nodes: Mapping[str, Mapping[str, str]], read: Mapping[str, str], name: str) -> str:
    """``1 on gpu1, gpu2; not set on gpu3``."""
    groups: dict[str, list[str]] = {}
    for node, value in read.items():
        groups.setdefault(value, []).append(node)
    return "; ".join(f"{nodes[those[0]].get(name) or 'not set'} on {listed(those)}" for those in groups.values())


def _repeated(known: Known, read: Mapping[str, str]) -> Iterator[Said]:
    holders: dict[str, list[str]] = {}
    for node, value in read.items():
        holders.setdefault(value, []).append(node)
    for value, nodes in holders.items():
        if value and len(nodes) > 1:
            sees = f"it tells hosts apart, and {listed(nodes)} have the same: {value}"
            yield known.name, "error", "not_unique", sees
