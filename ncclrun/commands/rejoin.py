"""A recorded run taken up by a fresh process: `attach` follows it on, `stop` ends it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from queue import SimpleQueue

from ncclrun.commands.control import Control
from ncclrun.commands.follow import Follower, Member
from ncclrun.commands.history import LogSink, LogWriter, NoLogs, RunDir
from ncclrun.commands.logs import run_nodes
from ncclrun.commands.probe import Inbox, connect, inbox_sink, reopen
from ncclrun.diagnosis.outcome import first_failure
from ncclrun.model.errors import EXIT_UNREACHABLE
from ncclrun.model.events import Ended, Event, Log, Unreachable
from ncclrun.transport.base import Transport
from ncclrun.transport.session import Session


def stop(run: RunDir, transport: Transport, control: Control, *, kill: bool = False) -> Iterator[Event]:
    """Stops a run on all its nodes and waits for each node's word; Ended has 0 when all confirmed, 255 otherwise."""
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
    yield from _rejoin(run, transport, control, LogWriter(run), how=None)


def _rejoin(
    run: RunDir, transport: Transport, control: Control, writer: LogSink, *, how: str | None
) -> Iterator[Event]:
    began = time.monotonic()
    record = run.read("run.json") or {}
    nodes = run_nodes(run)
    inbox: Inbox = SimpleQueue()
    sessions: dict[int, Session] = {}
    lost: dict[int, str] = {}
    members: list[Member] = []
    try:
        specs = [n.node for n in nodes]
        for event in connect(specs, transport, inbox_sink(specs, inbox), control, sessions):
            yield event
            if isinstance(event, Unreachable):
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
                member.session, member.lost = None, "the host was rebooted since: nothing of the run lives there"
            member.offsets = writer.offsets(member.place, known.nproc)
            members.append(member)
        follower = Follower(
            run.run_id, members, inbox, writer, control, reopen(transport), tail=0 if how is not None else None
        )
        if how is not None:
            yield from follower.stop_all("ncclrun stop", "kill" if how == "kill" else "term")
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
        yield Ended(run_id=run.run_id, exit_code=0, reason="left running", seconds=time.monotonic() - began)
        return
    if all(member.record is not None for member in members):
        run.write_end(outcome.exit_code, outcome.reason, complete=how is None and writer.lost == 0)
    yield Ended(
        run_id=run.run_id,
        exit_code=outcome.exit_code,
        reason=outcome.reason,
        seconds=time.monotonic() - began,
        nodes=outcome.nodes,
        cause=outcome.cause,
        victims=outcome.victims,
        directory=str(run.path),
    )
