"""A recorded run taken up by a fresh process: `attach` follows it on, `stop` ends it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ncclrun.commands.contact import connect, reopen
from ncclrun.commands.control import Control, Interrupted
from ncclrun.commands.follow import Follower
from ncclrun.commands.history import RunDir
from ncclrun.commands.inbox import Inbox, inbox_sink
from ncclrun.commands.logfiles import LogSink, LogsTaken, LogWriter, NoLogs, ReadAlong
from ncclrun.commands.member import How, Member
from ncclrun.commands.recorded import RunNode, run_nodes
from ncclrun.commands.stall import StallWatch
from ncclrun.diagnosis.ncclwatch import NcclWatch
from ncclrun.diagnosis.outcome import first_failure
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import EXIT_INTERRUPTED, EXIT_UNREACHABLE, NcclrunError
from ncclrun.model.events import Event, Log, RunCreated, Unreachable, Warn
from ncclrun.model.job import Stall
from ncclrun.model.plan import Endpoint
from ncclrun.model.words import bare
from ncclrun.transport.base import Transport
from ncclrun.transport.session import Session

SETTLE = 1.0
"""Seconds in which the nodes of a run that is taken up say what they know, before anything is asked of them."""


def stop(run: RunDir, transport: Transport, control: Control, *, kill: bool = False) -> Iterator[Event]:
    """Stops a run on all its nodes and waits for each node's word; Ended has 0 when all confirmed, 255 otherwise."""
    if (over := _over(run)) is not None:
        yield replace(over, exit_code=0)
        return
    for event in Rejoin(run, transport, control, NoLogs(), how="kill" if kill else "term").events():
        if isinstance(event, Ended) and event.reason != "detached":
            confirmed = all(row.confirmed for row in event.nodes)
            yield Ended(
                run_id=run.run_id,
                exit_code=0 if confirmed else EXIT_UNREACHABLE,
                reason=_stopped(event) if confirmed else "unconfirmed",
                seconds=event.seconds,
                nodes=event.nodes,
                directory=event.directory,
            )
        elif not isinstance(event, Log):
            yield event


def _stopped(ended: Ended) -> str:
    """A run that had finished before anybody asked was stopped by nobody."""
    return "it had finished already" if all(row.state == "finished" for row in ended.nodes) else "stopped"


def attach(run: RunDir, transport: Transport, control: Control, *, stall: Stall | None = None) -> Iterator[Event]:
    """Follows a run on from where this machine's logs end; Ended is the run's own verdict.

    Where another ncclrun writes these logs, this one shows what comes from now on and leaves the files to it.
    """
    if (over := _over(run)) is not None:
        yield over
        return
    writer: LogSink
    try:
        writer = LogWriter(run)
    except LogsTaken as error:
        writer = ReadAlong(run)
        yield Warn(text=f"{error.message}; this one shows what comes from now on, and writes nothing", fix="")
    rejoin = Rejoin(run, transport, control, writer, how=None, stall=stall)
    try:
        yield from rejoin.events()
    except Interrupted:
        reason = f"interrupted before the nodes were reached; run {run.run_id} goes on"
        yield Ended(run_id=run.run_id, exit_code=EXIT_INTERRUPTED, reason=reason, seconds=0.0)


def _over(run: RunDir) -> Ended | None:
    """The end of a run that is known to have ended on all nodes; there is nobody to ask any more."""
    end = run.end() or {}
    if not end.get("complete"):
        return None
    reason = f"run {run.run_id} has ended already ({end['reason']};  ncclrun logs {run.run_id}  shows its output)"
    return Ended(run_id=run.run_id, exit_code=int(end["exit_code"]), reason=reason, seconds=0.0)


class Rejoin:
    """One run taken up; ``how`` it is to be stopped, None: it is followed."""

    def __init__(
        self,
        run: RunDir,
        transport: Transport,
        control: Control,
        writer: LogSink,
        *,
        how: How | None,
        stall: Stall | None = None,
    ) -> None:
        self._run = run
        self._transport = transport
        self._control = control
        self._writer = writer
        self._how = how
        self._stall = stall
        self._record = run.read("run.json") or {}
        self._nodes = run_nodes(run)
        self._began = float(self._record.get("started_at", time.time()))
        self._inbox = Inbox()
        self._sessions: dict[int, Session] = {}
        self._members: list[Member] = []

    def events(self) -> Iterator[Event]:
        """Everything that happens; the last event is Ended. Raises Interrupted before anything was asked of a node."""
        yield RunCreated(
            run_id=self._run.run_id,
            cluster=str(self._record.get("cluster", "")),
            directory=str(self._run.path),
            nnodes=len(self._nodes),
            resumed=True,
            nodes=tuple(known.node.name for known in self._nodes),
        )
        try:
            yield from self._connect()
            follower = self._follower()
            if self._how is not None:
                yield from follower.stop_for_user("ncclrun stop", self._how)
            self._control.askable = True
            yield from follower.events()
        finally:
            self._control.askable = False
            self._close()
        ended = self._ended(follower)
        yield from self._remember(ended)
        yield ended

    def _connect(self) -> Iterator[Event]:
        specs = [known.node for known in self._nodes]
        lost: dict[int, str] = {}
        for event in connect(specs, self._transport, inbox_sink(specs, self._inbox), self._control, self._sessions):
            yield event
            # What is to be stopped is stopped now, or unconfirmed; what is followed may come back.
            if isinstance(event, Unreachable) and self._how is not None:
                lost[event.node_rank] = bare(event.message, event.node, event.host)
        rows = self._record["nodes"]
        self._members = [
            self._member(known, row, lost.get(known.node_rank)) for known, row in zip(self._nodes, rows, strict=True)
        ]

    def _member(self, known: RunNode, row: dict[str, Any], lost: str | None) -> Member:
        session = self._sessions.get(known.node_rank)
        member = Member(
            node=known.node,
            node_rank=known.node_rank,
            first_rank=known.first_rank,
            nproc=known.nproc,
            grace=known.node.launch.grace,
            boot_id=str(row["boot_id"]),
            clock_offset=float(row["clock_offset"]),
            session=session,
            lost=lost,
            lost_at=None if lost is None else time.time(),
        )
        if session is not None and member.boot_id not in ("", session.hello.get("boot_id")):
            member.rebooted = True  # what its disk has still tells whether the run had ended before
        member.offsets = self._writer.offsets(member.place, known.nproc)
        return member

    def _follower(self) -> Follower:
        # The record of an older version says nothing of the network.
        endpoints = {
            rank: Endpoint(**row["endpoint"]) for rank, row in enumerate(self._record["nodes"]) if "endpoint" in row
        }
        return Follower(
            self._run.run_id,
            self._members,
            self._inbox,
            self._writer,
            self._control,
            reopen(self._transport),
            token=str(self._record["token"]),
            tail=0 if self._how is not None else None,
            settle=SETTLE,
            watch=NcclWatch(endpoints, str(self._record.get("source") or "")),
            claims=True,
            stall=None if self._stall is None else StallWatch(self._stall, self._run.run_id, self._run.path),
        )

    def _close(self) -> None:
        self._writer.close()
        for member in self._members:
            if member.session is not None:
                self._sessions[member.node_rank] = member.session
        for session in self._sessions.values():
            session.close()

    def _ended(self, follower: Follower) -> Ended:
        if self._control.detach:
            return Ended(
                run_id=self._run.run_id,
                exit_code=0,
                reason="detached",
                seconds=time.time() - self._began,
                directory=str(self._run.path),
            )
        launcher = self._record.get("launcher", "torchrun")
        outcome = first_failure([member.ended(launcher) for member in self._members], stopped_by=follower.stopped_by)
        ended = Ended(
            run_id=self._run.run_id,
            exit_code=outcome.exit_code,
            reason=outcome.reason,
            seconds=_ended_at(self._members) - self._began,
            nodes=outcome.nodes,
            cause=outcome.cause,
            victims=outcome.victims,
            directory=str(self._run.path),
        )
        from ncclrun.commands.endlogs import with_finding

        return with_finding(self._run, ended, self._members)

    def _remember(self, ended: Ended) -> Iterator[Event]:
        """Writes the end where it is known; a disk that does not take it keeps the verdict from nobody."""
        told = (self._run.end() or {}).get("complete") or isinstance(self._writer, ReadAlong)
        # Whoever writes the logs here says whether they are whole.
        if all(member.record is not None or member.rebooted or member.gone for member in self._members) and not told:
            complete = self._how is None and self._writer.lost == 0
            try:
                self._run.write_end(ended, program=str(self._record.get("program", "")), complete=complete)
            except NcclrunError as error:
                yield Warn(text=error.message, fix=error.fix)


def _ended_at(members: list[Member]) -> float:
    """When the last node ended, on our clock; now where one's end is not known."""
    ends = [m.record["ended_at"] - m.clock_offset for m in members if m.record and m.record.get("ended_at")]
    return max(ends) if len(ends) == len(members) else time.time()
