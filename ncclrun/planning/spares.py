"""Which nodes take part in the next attempt of a run that has lost some: spares in their places, or fewer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ncclrun.model.cluster import Node
from ncclrun.model.endevents import Replaced


@dataclass(frozen=True)
class Lineup:
    """The nodes of an attempt in order of node_rank, the spares that are left, and what changed for it."""

    nodes: tuple[Node, ...]
    spares: tuple[Node, ...]
    changes: tuple[Replaced, ...] = ()


def next_lineup(before: Lineup, lost: Mapping[str, str], least: int | None) -> Lineup:
    """The next attempt's nodes. ``lost`` says of nodes, by name, why they can't be counted on.

    A spare takes the place of a lost node, so that all others keep their node_rank. Where no spare is left, a lost node
    is left out as long as ``least`` nodes remain (None: none may be missing); else it is tried again, for it may have
    come back by then.
    """
    spares = list(before.spares)
    spare_for = {node.name: spares.pop(0) for node in before.nodes if node.name in lost and spares}
    nodes: list[Node] = []
    changes = []
    remaining = len(before.nodes)
    for node in before.nodes:
        if node.name not in lost:
            nodes.append(node)
            continue
        by: Node | None = spare_for.get(node.name, node)
        if by is node and least is not None and remaining > least:
            remaining, by = remaining - 1, None
        nodes += [] if by is None else [by]
        changes.append(Replaced(node=node.name, by="" if by is None else by.name, why=lost[node.name]))
    return Lineup(tuple(nodes), tuple(spares), tuple(changes))


def changes_text(changes: Sequence[Replaced]) -> str:
    """``gpu3 replaced by gpu7 (host lost)``, ``without gpu3 (…)``, ``gpu3 tried again (…)``; "" for none."""
    return "; ".join(_text(change) for change in changes)


def _text(change: Replaced) -> str:
    if not change.by:
        return f"without {change.node} ({change.why})"
    how = "tried again" if change.by == change.node else f"replaced by {change.by}"
    return f"{change.node} {how} ({change.why})"
