"""Runs that another machine started, found by asking the nodes: what they say is made into a record like our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from pydantic import TypeAdapter

from ncclrun.commands.asking import Asking
from ncclrun.commands.control import Control
from ncclrun.commands.history import near
from ncclrun.model.cluster import ClusterSpec, Node
from ncclrun.model.errors import NcclrunError, UsageError
from ncclrun.model.inventory import RunMember, RunThere
from ncclrun.transport.base import Transport
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session

LATEST = 20
"""Of the runs of a node that have ended, as many are looked at."""


@dataclass(frozen=True)
class FoundRun:
    """One run as the nodes know it; ``record`` is what run.json of its own controller would say (see Launch._record).

    ``missing``: names of its nodes that did not answer, or know nothing of it. Their rows have ``boot_id`` "" (not
    known) and the node of that name or host in the cluster; where there is none, one that is reached like the others.
    """

    run_id: str
    going: bool
    """Whether any part of it has not ended."""
    since: float
    """When it was prepared, on this machine's clock."""
    by: str
    record: dict[str, Any]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """What one host says of its part of a run; ``place`` is the host's in the cluster."""

    place: int
    entry: RunThere
    offset: float
    """The host's clock minus ours, seconds."""


def find_runs(cluster: ClusterSpec, transport: Transport, control: Control) -> list[FoundRun]:
    """All runs of this user on the cluster's nodes, newest first. Raises NcclrunError where no node answers."""
    with Asking(cluster.nodes, transport, control) as asking:
        for _ in asking.connect():
            pass  # who is not there is told below, as missing
        inventories = asking.inventories(LATEST)
        if not inventories:
            first = asking.lost[min(asking.lost)]
            raise NcclrunError(f"no node of {cluster.source} answers; {first.message}", fix=first.fix)
        offsets = {
            place: answer[0]
            for place, answer in for_all(asking.sessions, lambda _, session: session.clock(), cancelled=control.stopped)
            if not isinstance(answer, NcclrunError)
        }
        control.check()
        parts = [
            Part(place, entry, offsets[place])
            for place, inventory in inventories.items()
            for entry in inventory.runs
            if place in offsets
        ]
        found = [_found(one, cluster, asking.sessions) for one in by_run(parts).values()]
    return sorted(found, key=lambda run: run.since, reverse=True)


def find_one(cluster: ClusterSpec, transport: Transport, control: Control, run_id: str | None) -> FoundRun:
    """The named run, else the newest that goes on, else the newest; raises UsageError with what there is.

    The name of a run of several attempts means the last one; ``<name>.1`` is the first.
    """
    found = find_runs(cluster, transport, control)
    if run_id is None and found:
        return next((run for run in found if run.going), found[0])
    if run_id is None:
        raise UsageError(f"no run of yours is on the nodes of {cluster.source}", fix="ncclrun launch CLUSTER SCRIPT")
    meant = (
        [run for run in found if run.record["name"] == run_id]
        or [run for run in found if run.run_id == run_id]
        or [run for run in found if run.record["name"] == run.run_id and run_id == f"{run.run_id}.1"]
    )
    if meant:
        return meant[0]
    raise UsageError(
        f"no run {run_id!r} is on the nodes of {cluster.source}",
        fix=near(run_id, [run.run_id for run in reversed(found)]),
    )


def by_run(parts: Sequence[Part]) -> dict[str, list[Part]]:
    """The parts of each run in order of node_rank; of two for one node_rank the one that was made last."""
    runs: dict[str, dict[int, Part]] = {}
    for part in parts:
        ranks = runs.setdefault(part.entry.run_id, {})
        other = ranks.get(part.entry.node_rank)
        if other is None or other.entry.prepared_at < part.entry.prepared_at:
            ranks[part.entry.node_rank] = part
    return {run_id: [ranks[rank] for rank in sorted(ranks)] for run_id, ranks in runs.items()}


def _found(parts: Sequence[Part], cluster: ClusterSpec, sessions: Mapping[int, Session]) -> FoundRun:
    first = parts[0]
    entry, about = first.entry, first.entry.about
    token = sessions[first.place].call("run_record", run_id=entry.run_id, node_rank=entry.node_rank)["record"]["token"]
    known = {part.entry.node_rank: part for part in parts}
    # A node part from before `about` was told has no list: then the run has the nodes that answer, as far as we know.
    members = about.nodes or tuple(
        RunMember(cluster.nodes[known[rank].place].name, cluster.nodes[known[rank].place].host, known[rank].entry.nproc)
        if rank in known
        else RunMember(f"node {rank}", "", entry.nproc)
        for rank in range(max(known) + 1)
    )
    firsts = list(accumulate((member.nproc for member in members), initial=0))
    taken = {part.place for part in parts}
    rows = [_row(member, known.get(rank), firsts[rank], cluster, taken) for rank, member in enumerate(members)]
    since = min(part.entry.prepared_at - part.offset for part in parts)
    return FoundRun(
        run_id=entry.run_id,
        going=any(part.entry.going for part in parts),
        since=since,
        by=entry.by,
        record={
            "run_id": entry.run_id,
            "name": about.name,
            "token": token,
            "cluster": about.cluster or cluster.name,
            "source": cluster.source,
            "program": about.program,
            "launcher": entry.launcher,
            "by": entry.by,
            "started_at": since,
            "world_size": firsts[-1],
            "nodes": rows,
        },
        missing=tuple(member.name for rank, member in enumerate(members) if rank not in known),
    )


def _row(
    member: RunMember, part: Part | None, first_rank: int, cluster: ClusterSpec, taken: set[int]
) -> dict[str, Any]:
    """A node's row of the record; ``first_rank`` is what it would be in the order of the nodes."""
    if part is not None and part.entry.about.first_rank is not None:
        first_rank = part.entry.about.first_rank
    node = cluster.nodes[part.place] if part is not None else _by_name(member, cluster, taken)
    bare = node.launch.model_copy(update={"env": {}, "forward_env": ()})  # as in our own records: no secrets
    row: dict[str, Any] = {
        "node": TypeAdapter(Node).dump_python(replace(node, name=member.name, launch=bare), mode="json"),
        "first_rank": first_rank,
        "nproc": member.nproc,
        "boot_id": "" if part is None else part.entry.boot_id,
        "clock_offset": 0.0 if part is None else part.offset,
    }
    if part is not None and part.entry.about.endpoint is not None:
        row["endpoint"] = part.entry.about.endpoint
    return row


def is_node(member: RunMember, node: Node) -> bool:
    """Whether a run's node, as its controller called it, is this one of the cluster."""
    return member.name == node.name or member.host == node.host


def _by_name(member: RunMember, cluster: ClusterSpec, taken: set[int]) -> Node:
    """The host of that address, else that name's, of those that are no other node's: names may have moved."""
    nodes = [node for place, node in enumerate(cluster.nodes) if place not in taken]
    for node in sorted(nodes, key=lambda node: node.host != member.host):
        if is_node(member, node):
            return node
    return replace(cluster.nodes[0], name=member.name, host=member.host, address=None, gpus=None)
