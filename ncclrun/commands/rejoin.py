"""A recorded run taken up by a fresh process: `attach` follows it on, `stop` ends it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ncclrun.commands.contact import connect, reopen
from ncclrun.commands.control import Control
from ncclrun.commands.follow import Follower, Member
from ncclrun.commands.history import LogSink, LogWriter, NoLogs, RunDir
from ncclrun.commands.inbox import Inbox, inbox_sink
from ncclrun.commands.logs import run_nodes
from ncclrun.diagnosis.ncclwatch import NcclWatch
from ncclrun.diagnosis.outcome import first_failure
from ncclrun.model.errors import EXIT_UNREACHABLE
from ncclrun.model.events import Ended, Event, Log, RunCreated, Unreachable
from ncclrun.model.plan import Endpoint
from ncclrun.transport.base import Transport
from ncclrun.transport.session import Session

SETTLE = 1.0
"""Seconds in which the nodes of a run that is taken up say what they know, before anything is asked of them."""


def stop(run: RunDir, transport: Transport, control: Control, *, kill: bool = False) -> Iterator[Event]:
    """Stops a run on all its nodes and waits for each node's word; Ended has 0 when all confirmed, 255 otherwise."""
    if (over := _over(run)) is not None:
        yield replace(over, exit_code=0)
        return
    for event in _rejoin(run, transport, control, NoLogs(), how="kill" if kill else "term"):
        if isinstance(event, Ended):
            confirmed = all(row.confirmed for row in event.nodes)
            yield Ended(
                run_id=run.run_id,
                exit_code=0 if confirmed else EXIT_UNREACHABLE,
                reason="stopped" if confirmed else "unconfirmed",
                seconds=event.seconds,
                nodes=event.nodes,
                directory=event.directory,
            )
        elif not isinstance(event, Log):
            yield event


def attach(run: RunDir, transport: Transport, control: Control) -> Iterator[Event]:
    """Follows a run on from where this machine's logs end; Ended is the run's own verdict."""
    if (over := _over(run)) is not None:
        yield over
        return
    yield from _rejoin(run, transport, control, LogWriter(run), how=None)


def _over(run: RunDir) -> Ended | None:
    """The end of a run that is known to have ended on all nodes; there is nobody to ask any more."""
    end = run.read("end.json") or {}
    if not end.get("complete"):
        return None
    reason = f"run {run.run_id} has ended already ({end['reason']}; ncclrun logs {run.run_id} shows its output)"
    return Ended(run_id=run.run_id, exit_code=int(end["exit_code"]), reason=reason, seconds=0.0)


def _rejoin(
    run: RunDir, transport: Transport, control: Control, writer: LogSink, *, how: str | None
) -> Iterator[Event]:
    record = run.read("run.json") or {}
    began = float(record.get("started_at", time.time()))
    nodes = run_nodes(run)
    inbox = Inbox()
    sessions: dict[int, Session] = {}
    lost: dict[int, str] = {}
    members: list[Member] = []
    specs = [n.node for n in nodes]
    yield RunCreated(
        run_id=run.run_id,
        cluster=str(record.get("cluster", "")),
        directory=str(run.path),
        nnodes=len(specs),
        resumed=True,
        nodes=tuple(node.name for node in specs),
    )
    try:
        for event in connect(specs, transport, inbox_sink(specs, inbox), control, sessions):
            yield event
            # What is to be stopped is stopped now, or unconfirmed; what is followed may come back.
            if isinstance(event, Unreachable) and how is not None:
                lost[event.node_rank] = event.message
        for known, row in zip(nodes, record["nodes"], strict=True):
            member = Member(
                node=known.node,
                node_rank=known.node_rank,
                first_rank=known.first_rank,
                nproc=known.nproc,
                grace=known.node.launch.grace,
                boot_id=str(row["boot_id"]),
                clock_offset=float(row["clock_offset"]),
                session=sessions.get(known.node_rank),
                lost=lost.get(known.node_rank),
                lost_at=time.time() if known.node_rank in lost else None,
            )
            session = member.session
            if session is not None and session.hello.get("boot_id") != member.boot_id:
                member.session, member.lost, member.rebooted = None, "the host was rebooted since", True
            member.offsets = writer.offsets(member.place, known.nproc)
            members.append(member)
        follower = Follower(
            run.run_id,
            members,
            inbox,
            writer,
            control,
            reopen(transport),
            token=str(record["token"]),
            tail=0 if how is not None else None,
            settle=SETTLE,
            watch=NcclWatch({rank: Endpoint(**row["endpoint"]) for rank, row in _with_endpoint(record["nodes"])}),
        )
        if how is not None:
            yield from follower.stop_all("ncclrun stop", "kill" if how == "kill" else "term")
        elif gone := next((member for member in members if member.rebooted), None):
            yield from follower.stop_all(f"{gone.node.name} is lost: {gone.lost}", "term")
        yield from follower.events()
    finally:
        writer.close()
        for member in members:
            if member.session is not None:
                sessions[member.node_rank] = member.session
        for session in sessions.values():
            session.close()
    launcher = record.get("launcher", "torchrun")
    outcome = first_failure([member.ended(launcher) for member in members], stopped_by=follower.stopped_by)
    if control.detach:
        yield Ended(run_id=run.run_id, exit_code=0, reason="left running", seconds=time.time() - began)
        return
    if all(member.record is not None for member in members):
        run.write_end(outcome.exit_code, outcome.reason, complete=how is None and writer.lost == 0)
    yield Ended(
        run_id=run.run_id,
        exit_code=outcome.exit_code,
        reason=outcome.reason,
        seconds=_ended_at(members) - began,
        nodes=outcome.nodes,
        cause=outcome.cause,
        victims=outcome.victims,
        directory=str(run.path),
    )


def _with_endpoint(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The nodes of the record whose network is in it; in one of an older version it is not."""
    return ((rank, row) for rank, row in enumerate(rows) if "endpoint" in row)


def _ended_at(members: list[Member]) -> float:
    """When the last node ended, on our clock; now where one's end is not known."""
    ends = [m.record["ended_at"] - m.clock_offset for m in members if m.record and m.record.get("ended_at")]
    return max(ends) if len(ends) == len(members) else time.time()
