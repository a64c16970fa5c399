"""`ncclrun status`: what runs where, as its nodes say it now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import get_args

from ncclrun.commands.asking import Asking
from ncclrun.commands.control import Control
from ncclrun.commands.elsewhere import Part, by_run
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
        rows = []
        for place, one in enumerate(known):
            if place not in inventories:
                rows.append(_out_of_reach(run, record, one, asking.lost[place]))
                continue
            inventory = inventories[place]
            mine = [e for e in inventory.runs if (e.run_id, e.node_rank) == (run.run_id, one.node_rank)]
            if mine:
                part = Part(place, mine[0], asking.offsets[place])
                rows.append(_row(part, one.node, one.first_rank))
            else:
                rows.append(_gone(run, record, one))
            yield from _left(inventory, one.node, run.run_id)
        yield from rows
        ended = _ended(rows, asking.lost, nodes, run.run_id)
        if all(row.state == "ended" for row in rows) and run.read("end.json") is None:
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
            rows += [_row(part, cluster.nodes[part.place], part.entry.about.first_rank) for part in run]
        for place, inventory in sorted(inventories.items()):
            yield from _left(inventory, cluster.nodes[place], run_id)
        rows += [_silent(cluster.nodes[place], event) for place, event in sorted(asking.lost.items())]
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


def _out_of_reach(run: RunDir, record: Mapping[str, object], one: RunNode, event: Unreachable) -> RunOnNode:
    """What was heard last of the node is its youngest log here; before that, that the run was started there."""
    since = [float(str(record["started_at"]))] if "started_at" in record else []
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
    end = run.read("end.json")
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
        reason = f"{len(going)} run{'' if len(going) == 1 else 's'} of yours on {len(nodes)} nodes"
    return Ended(run_id=run_id, exit_code=EXIT_UNREACHABLE if lost else 0, reason=reason, seconds=0.0)
