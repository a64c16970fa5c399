"""`ncclrun status`: what runs where, as its nodes say it now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import get_args

from ncclrun.commands.asking import Asking
from ncclrun.commands.control import Control
from ncclrun.commands.elsewhere import Part, by_run, is_node
from ncclrun.commands.history import RunDir, near
from ncclrun.commands.recorded import RunNode, run_nodes
from ncclrun.model.cluster import ClusterSpec, Node
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import EXIT_UNREACHABLE, UsageError
from ncclrun.model.events import Event, Unreachable
from ncclrun.model.inventory import Inventory, RunThere
from ncclrun.model.runevents import GpuUse, LeftOnNode, RunOnNode, RunStateName
from ncclrun.model.words import listed
from ncclrun.transport.base import Transport

ENDED = 3
"""Of the runs of a node that have ended, the newest ones are shown beside those that go on."""
ALL = 10_000


def status_of_run(run: RunDir, transport: Transport, control: Control) -> Iterator[Event]:
    """How one run of this machine stands on each of its nodes; Ended has 255 where a host was not reached."""
    known = run_nodes(run)
    record = run.read("run.json") or {}
    nodes = [one.node for one in known]
    with Asking(nodes, transport, control) as asking:
        yield from asking.connect()
        inventories = asking.inventories(ALL)
        parts = {
            place: Part(place, entry, asking.offsets[place])
            for place, inventory in inventories.items()
            for entry in inventory.runs
            if (entry.run_id, entry.node_rank) == (run.run_id, known[place].node_rank)
        }
        rows = []
        for place, one in enumerate(known):
            if place in parts:
                rows.append(_row(parts[place], one.node, one.first_rank))
            elif place in inventories:
                rows.append(_gone(run, record, one))
            else:
                heard = _heard(list(parts.values()), one.node_rank)
                rows.append(_out_of_reach(run, record, one, asking.lost[place], heard))
        for place, inventory in sorted(inventories.items()):
            yield from _left(inventory, known[place].node, run.run_id)
        yield from rows
        ended = _ended(rows, asking.lost, nodes, run.run_id)
        if all(row.state == "ended" for row in rows) and run.end() is None:
            ended = replace(ended, reason=f"{ended.reason}; ncclrun attach {run.run_id}  gets its output and exit code")
        yield ended


def status_of_cluster(
    cluster: ClusterSpec,
    transport: Transport,
    control: Control,
    *,
    run_id: str | None = None,
    everything: bool = False,
) -> Iterator[Event]:
    """All runs of this user on these nodes, whoever started them where, or the named one; the newest comes last."""
    with Asking(cluster.nodes, transport, control) as asking:
        yield from asking.connect()
        inventories = asking.inventories(ALL if everything or run_id is not None else ENDED)
        parts = [
            Part(place, entry, asking.offsets[place])
            for place, inventory in inventories.items()
            for entry in inventory.runs
            if run_id in (None, entry.run_id)
        ]
        if run_id is not None and not parts and not asking.lost:
            known = [entry.run_id for inventory in inventories.values() for entry in inventory.runs]
            message = f"no run {run_id!r} is on the nodes of {cluster.source}"
            raise UsageError(message, fix=near(run_id, sorted(set(known))))
        rows = []
        for run in sorted(by_run(parts).values(), key=lambda run: min(p.entry.prepared_at - p.offset for p in run)):
            there = [_row(part, cluster.nodes[part.place], part.entry.about.first_rank) for part in run]
            rows += sorted([*there, *_unheard(run, cluster, asking.lost)], key=lambda row: row.node_rank)
        for place, inventory in sorted(inventories.items()):
            yield from _left(inventory, cluster.nodes[place], run_id)
        told = {row.node for row in rows if row.state == "unknown"}
        silent = [(cluster.nodes[place], event) for place, event in sorted(asking.lost.items())]
        rows += [_silent(node, event) for node, event in silent if node.name not in told]
        yield from rows
        yield _ended(rows, asking.lost, cluster.nodes, run_id or "")


def _row(part: Part, node: Node, first_rank: int | None) -> RunOnNode:
    """A host's word, with its times on our clock and its ranks as global ones."""
    entry = part.entry

    def here(moment: float | None) -> float | None:
        return None if moment is None else moment - part.offset

    last = entry.last
    local = last.stream.partition(".")[0] if last is not None else ""
    return RunOnNode(
        node=node.name,
        node_rank=entry.node_rank,
        host=node.host,
        run_id=entry.run_id,
        state=_state(entry.state),
        since=here(entry.since),
        reason=entry.reason,
        by=entry.by,
        program=entry.about.program,
        started_at=here(entry.started_at or entry.prepared_at),
        ranks=_ranks(first_rank, entry.nproc),
        nproc=entry.nproc,
        ranks_alive=entry.ranks_alive if entry.going else None,
        exit=_exit(entry, first_rank),
        last=last.text if last is not None else "",
        last_rank=first_rank + int(local) if first_rank is not None and local.isdigit() else None,
        last_time=here(last.time) if last is not None else None,
        gpus=None
        if entry.gpus is None
        else tuple(GpuUse(index=g.index, uuid=g.uuid, memory=g.memory) for g in entry.gpus),
        size=entry.size,
    )


def _state(word: str) -> RunStateName:
    """A node's word for it; one that we don't know is of a newer version."""
    return next((known for known in get_args(RunStateName) if known == word), "unknown")


def _ranks(first: int | None, nproc: int) -> str:
    if first is None:
        return ""
    return str(first) if nproc == 1 else f"{first}-{first + nproc - 1}"


def _exit(entry: RunThere, first_rank: int | None) -> str:
    """``rank 3: exit code 7``, or the reason alone."""
    if entry.exit is None:
        return ""
    rank = entry.exit.rank
    if rank is None:
        return entry.exit.detail or entry.exit.reason
    who = f"local rank {rank.rank}" if first_rank is None else f"rank {first_rank + rank.rank}"
    return f"{who}: " + (f"signal {rank.signal}" if rank.signal else f"exit code {rank.code}")


def _heard(parts: Sequence[Part], node_rank: int) -> float | None:
    """When the other nodes' supervisors last heard this node's, on our clock; None where they can't tell."""
    return max(
        (when - part.offset for part in parts if (when := part.entry.heard.get(node_rank)) is not None), default=None
    )


def _unheard(parts: Sequence[Part], cluster: ClusterSpec, lost: Mapping[int, Unreachable]) -> Iterator[RunOnNode]:
    """The nodes of a run whose hosts did not answer, as the others know them.

    Of a run that has ended where it is known, only those whose end nobody has heard.
    """
    entry = parts[0].entry
    known = {part.entry.node_rank for part in parts}
    firsts = accumulate((member.nproc for member in entry.about.nodes), initial=0)
    for rank, (member, first) in enumerate(zip(entry.about.nodes, firsts, strict=False)):
        event = next((e for place, e in lost.items() if is_node(member, cluster.nodes[place])), None)
        since = _heard(parts, rank)
        if rank in known or event is None or (since is None and not any(part.entry.going for part in parts)):
            continue
        yield RunOnNode(
            node=event.node,
            node_rank=rank,
            host=event.host,
            run_id=entry.run_id,
            state="unknown",
            since=since,
            reason=event.message,
            by=entry.by,
            program=entry.about.program,
            ranks=_ranks(first, member.nproc),
            nproc=member.nproc,
        )


def _out_of_reach(
    run: RunDir, record: Mapping[str, object], one: RunNode, event: Unreachable, heard: float | None
) -> RunOnNode:
    """What was heard last of the node: by the others, in its youngest log here, or that the run was started there."""
    since = [float(str(record["started_at"]))] if "started_at" in record else []
    since += [] if heard is None else [heard]
    ranks = range(one.first_rank, one.first_rank + one.nproc)
    names = [
        f"{who}.{stream}" for who in (f"launcher{one.node_rank}", *(f"rank{r}" for r in ranks)) for stream in _BOTH
    ]
    for name in names:
        file = run.logs / name
        if file.is_file():
            since.append(file.stat().st_mtime)
    return RunOnNode(
        node=one.node.name,
        node_rank=one.node_rank,
        host=one.node.host,
        run_id=run.run_id,
        state="unknown",
        since=max(since, default=None),
        reason=event.message,
        by=str(record.get("by", "")),
        program=str(record.get("program", "")),
        ranks=_ranks(one.first_rank, one.nproc),
        nproc=one.nproc,
    )


_BOTH = ("out", "err")


def _gone(run: RunDir, record: Mapping[str, object], one: RunNode) -> RunOnNode:
    end = run.end()
    reason = "nothing of it is on that host" if end is None else f"{end['reason']}; its directory there was removed"
    return RunOnNode(
        node=one.node.name,
        node_rank=one.node_rank,
        host=one.node.host,
        run_id=run.run_id,
        state="gone",
        since=None if end is None else float(end["ended_at"]),
        reason=reason,
        by=str(record.get("by", "")),
        program=str(record.get("program", "")),
        ranks=_ranks(one.first_rank, one.nproc),
        nproc=one.nproc,
    )


def _silent(node: Node, event: Unreachable) -> RunOnNode:
    """A host that does not answer, and of which no record says what runs there."""
    return RunOnNode(
        node=node.name, node_rank=-1, host=node.host, run_id="", state="unknown", since=None, reason=event.message
    )


def _left(inventory: Inventory, node: Node, run_id: str | None) -> Iterator[Event]:
    for left in inventory.left:
        if run_id in (None, left.run_id):
            words = tuple(f"{process.pid} {process.command}" for process in left.alive)
            yield LeftOnNode(
                node=node.name, host=node.host, run_id=left.run_id, node_rank=left.node_rank, processes=words
            )


def _ended(rows: Sequence[RunOnNode], lost: Mapping[int, Unreachable], nodes: Sequence[Node], run_id: str) -> Ended:
    going = {row.run_id for row in rows if row.state not in ("ended", "gone", "unknown", "lost")}
    adrift = listed([row.node for row in rows if row.state == "lost"], 8)
    if lost:
        reason = f"{listed([nodes[place].name for place in sorted(lost)])} not reached: what runs there is not known"
    elif run_id and adrift and not going:
        reason = f"run {run_id} is lost on {adrift}"
    elif run_id:
        reason = f"run {run_id} " + ("goes on" if going else "has ended")
    else:
        runs = f"{len(going)} run{'' if len(going) == 1 else 's'}"
        reason = f"{runs} of yours on {len(nodes)} node{'' if len(nodes) == 1 else 's'}"
    return Ended(run_id=run_id, exit_code=EXIT_UNREACHABLE if lost else 0, reason=reason, seconds=0.0)
