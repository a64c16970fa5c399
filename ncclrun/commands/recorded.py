"""What the record of a run says, as this machine keeps it: its nodes, and whether an ncclrun still follows it here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter

from ncclrun.commands.history import RunDir, process_start
from ncclrun.model.cluster import Node


@dataclass(frozen=True)
class RunNode:
    """One node of a recorded run."""

    node: Node
    node_rank: int
    first_rank: int
    nproc: int


def run_nodes(run: RunDir) -> tuple[RunNode, ...]:
    """The nodes of a recorded run; raises NcclrunError when its record is damaged."""
    record = run.read("run.json") or {}
    load = TypeAdapter(Node).validate_python
    try:
        float(record.get("started_at", 0))
        return tuple(
            RunNode(load(row["node"]), node_rank, int(row["first_rank"]), int(row["nproc"]))
            for node_rank, row in enumerate(record["nodes"])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise run.damaged("run.json", error) from error


def starter_lives(record: Mapping[str, object]) -> bool:
    """Whether the ncclrun that started the run is still there."""
    pid, start = record.get("pid"), record.get("pid_start_time")
    return isinstance(pid, int) and start is not None and process_start(pid) == start


def is_followed(run: RunDir) -> bool:
    """Whether the ncclrun that started the run still writes its logs here."""
    return run.end() is None and starter_lives(run.read("run.json") or {})
