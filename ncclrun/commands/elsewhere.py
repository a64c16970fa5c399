"""Runs that another machine started, found by asking the nodes: what they say is made into a record like our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ncclrun.commands.control import Control
from ncclrun.model.cluster import ClusterSpec
from ncclrun.transport.base import Transport


@dataclass(frozen=True)
class FoundRun:
    """One run as the nodes know it; ``record`` is what run.json of its own controller would say (see Launch._record).

    ``missing``: names of its nodes that did not answer or are not in the cluster. Their rows have ``boot_id`` "" (not
    known) and the node of that name or host in the cluster; where there is none, the run can't be taken up.
    """

    run_id: str
    going: bool
    """Whether any part of it has not ended."""
    since: float
    by: str
    record: dict[str, Any]
    missing: tuple[str, ...]


def find_runs(cluster: ClusterSpec, transport: Transport, control: Control) -> list[FoundRun]:
    """All runs of this user on the cluster's nodes, newest first. Raises NcclrunError where no node answers."""
    raise NotImplementedError


def find_one(cluster: ClusterSpec, transport: Transport, control: Control, run_id: str | None) -> FoundRun:
    """The named run, else the newest that goes on; raises UsageError with what there is."""
    raise NotImplementedError
