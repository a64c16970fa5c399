"""`ncclrun launch`: prepare everywhere, start everywhere, follow, judge, clean up."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any

from pydantic import TypeAdapter

from ncclrun.commands.contact import reopen
from ncclrun.commands.control import Control, Interrupted
from ncclrun.commands.everywhere import NotStarted, failure_event
from ncclrun.commands.follow import Follower
from ncclrun.commands.history import RunDir, check_run_id, new_run_id, process_start
from ncclrun.commands.logfiles import LogWriter
from ncclrun.commands.member import Member
from ncclrun.commands.noderequests import start_of
from ncclrun.commands.preparation import Preparation
from ncclrun.commands.stall import StallWatch
from ncclrun.diagnosis.ncclwatch import NcclWatch
from ncclrun.diagnosis.outcome import first_failure
from ncclrun.model.cluster import ClusterSpec, Node
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import EXIT_INTERRUPTED, EXIT_NOT_STARTED, NcclrunError, NodeRefused, UsageError
from ncclrun.model.events import Event, Failure, NodeState, RanksMoved, RunCreated, Warn
from ncclrun.model.job import JobSpec
from ncclrun.model.plan import LaunchPlan, NodePlan
from ncclrun.planning.planner import planned_event, with_options
from ncclrun.transport.base import Transport
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session

START_TIMEOUT = 60.0
WATCH = {"torchrun": 10.0, "exec": 2.0}
"""Seconds for which a run that is to be left is watched from its start: what can't even begin is no success. torchrun
takes some seconds until its workers read their script."""


class Launch:
    """One launch; ``events`` is the whole of it, ending with Ended."""

    def __init__(
        self,
        cluster: ClusterSpec,
        job: JobSpec,
        transport: Transport,
        control: Control,
        environ: Mapping[str, str],
        *,
        dry_run: bool = False,
        detach: bool = False,
    ) -> None:
        """``detach``: the run is left to its nodes once it has begun well. Raises UsageError where that can't be."""
        if detach and job.timeout is not None:
            fix = "leave one of the two out;  ncclrun stop RUN  ends a run at any time"
            raise UsageError("--timeout is kept by the ncclrun that follows the run, and --detach leaves it", fix=fix)
        if detach and job.stall is not None and job.stall.stop:
            fix = "ncclrun attach --stall …  watches it later, and leaves the same to be seen"
            raise UsageError(
                "--stall-action stop needs the ncclrun that follows the run, and --detach leaves it", fix=fix
            )
        self.cluster = replace(cluster, nodes=tuple(with_options(node, job) for node in cluster.nodes))
        self.job = job
        self.run_id = check_run_id(job.run_id) if job.run_id else new_run_id()
        self._transport = transport
        self._control = control
        self._dry_run = dry_run
        self._detach = detach
        self._token = secrets.token_hex(16)
        self._preparation = Preparation(
            self.cluster, job, transport, control, run_id=self.run_id, token=self._token, environ=environ
        )
        self._started: set[int] = set()
        self._moved: dict[int, int] = {}
        """First ranks of nodes whose workers have others than planned."""
        self._began = time.monotonic()
        self._run: RunDir | None = None

    @property
    def met_leftovers(self) -> bool:
        """Whether a node had processes of dead runs, which ``clean_leftovers`` of the job would end."""
        return self._preparation.leftovers

    def events(self) -> Iterator[Event]:
        """Everything that happens; the last event is Ended. Nothing of the run is left then, or Ended says where."""
        try:
            yield from self._whole()
        except NotStarted as error:
            yield self._ended(error.exit_code, error.message)
        except Interrupted:
            yield self._ended(EXIT_INTERRUPTED, "interrupted before anything was started")
        except NcclrunError as error:
            # What has no code of its own, a full disk here say, kept the run from its start all the same.
            code = EXIT_NOT_STARTED if error.exit_code == NcclrunError.exit_code else error.exit_code
            yield Failure(message=error.message, fix=error.fix, exit_code=code)
            yield self._ended(code, "nothing was started")
        finally:
            self._clean_up()

    def _whole(self) -> Iterator[Event]:
        if not self._dry_run:
            self._run = RunDir.create(self.run_id)
            yield RunCreated(
                run_id=self.run_id,
                cluster=self.cluster.name,
                directory=str(self._run.path),
                nnodes=len(self.cluster.nodes),
                nodes=tuple(node.name for node in self.cluster.nodes),
            )
        plan = yield from self._preparation.resolve()
        if self._dry_run:
            yield from self._preparation.show_code()
            yield planned_event(plan)
            yield self._ended(0, "dry run: nothing was started")
            return
        plan = yield from self._preparation.prepare(plan)
        yield planned_event(plan)
        assert self._run is not None
        # All that this machine's disk may refuse comes before the start.
        self._record(self._run, plan)
        with closing(LogWriter(self._run)) as writer:
            failed = yield from self._start(plan)
            if all(isinstance(failed.get(node.node_rank), NodeRefused) for node in plan.nodes):
                raise NotStarted(EXIT_NOT_STARTED)
            yield from self._follow(self._run, plan, failed, writer)

    def _start(self, plan: LaunchPlan) -> Generator[Event, None, dict[int, NcclrunError]]:
        """Starts everywhere; returns the nodes that could not, by node_rank, with the reason."""
        failed: dict[int, NcclrunError] = {}

        def question(node_rank: int, session: Session) -> dict[str, Any]:
            node = plan.nodes[node_rank]
            self._started.add(node_rank)
            return session.call(
                "start",
                timeout=START_TIMEOUT,
                token=self._token,
                lifeline=self._preparation.lifeline(plan, node),
                arm=self.job.stall is not None,
                **start_of(plan, node),
            )

        # Without an ear for Ctrl-C: what was asked to start must be known to run before it can be stopped.
        for node_rank, answer in for_all(self._preparation.sessions, question):
            node = self.cluster.nodes[node_rank]
            if isinstance(answer, NcclrunError):
                failed[node_rank] = answer
                yield failure_event(node, node_rank, answer)
            else:
                yield NodeState(node=node.name, node_rank=node_rank, state="running", since=time.time())
        return failed

    def _record(self, run: RunDir, plan: LaunchPlan) -> None:
        """What `logs` and others need to find the run again; no environment, for it may hold secrets."""
        dump = TypeAdapter(Node).dump_python
        nodes = []
        for node in plan.nodes:
            bare = node.node.launch.model_copy(update={"env": {}, "forward_env": ()})
            nodes.append(
                {
                    "node": dump(replace(node.node, launch=bare), mode="json"),
                    "first_rank": self._moved.get(node.node_rank, node.first_rank),
                    "nproc": node.nproc,
                    "endpoint": asdict(node.endpoint),
                    "boot_id": self._preparation.facts[node.node_rank].boot_id,
                    "clock_offset": self._preparation.facts[node.node_rank].clock_offset,
                }
            )
        attempt = self.job.attempt
        run.write(
            "run.json",
            {
                "run_id": self.run_id,
                "name": attempt.name if attempt else None,
                "attempt": attempt.number if attempt else None,
                "token": self._token,
                "cluster": self.cluster.name,
                "source": self.cluster.source,
                "program": self.job.title,
                "launcher": plan.launcher,
                "started_at": time.time(),
                "pid": os.getpid(),
                "pid_start_time": process_start(os.getpid()),
                "world_size": plan.world_size,
                "nodes": nodes,
            },
        )

    def _follow(
        self, run: RunDir, plan: LaunchPlan, failed: Mapping[int, NcclrunError], writer: LogWriter
    ) -> Iterator[Event]:
        members = [self._member(node, failed.get(node.node_rank)) for node in plan.nodes]
        follower = Follower(
            self.run_id,
            members,
            self._preparation.inbox,
            writer,
            self._control,
            reopen(self._transport),
            token=self._token,
            timeout=self.job.timeout,
            watch=NcclWatch({node.node_rank: node.endpoint for node in plan.nodes}, self.cluster.source),
            leave_after=WATCH[plan.launcher] if self._detach else None,
            stall=None if self.job.stall is None else StallWatch(self.job.stall, self.run_id, run.path),
        )
        try:
            if failed:
                names = ", ".join(self.cluster.nodes[rank].name for rank in sorted(failed))
                yield from follower.stop_all(f"{names} could not start", "term")
            for event in follower.events():
                if isinstance(event, RanksMoved):
                    self._moved[event.node_rank] = event.first_rank
                    self._record(run, plan)
                yield event
        finally:
            for member in members:
                if member.session is not None:
                    self._preparation.sessions[member.node_rank] = member.session
        if self._control.detach:
            yield self._ended(0, "detached")
            return
        from ncclrun.commands.endlogs import with_finding

        ended = with_finding(run, self._judge(members, follower, failed), members)
        complete = writer.lost == 0 and all(member.over and member.lost is None for member in members)
        try:
            run.write_end(ended, program=self.job.title, complete=complete)
        except NcclrunError as error:
            yield Warn(text=error.message, fix=error.fix)
        yield ended

    def _member(self, node: NodePlan, error: NcclrunError | None) -> Member:
        facts = self._preparation.facts[node.node_rank]
        return Member(
            node=node.node,
            node_rank=node.node_rank,
            first_rank=node.first_rank,
            nproc=node.nproc,
            grace=node.grace,
            boot_id=facts.boot_id,
            clock_offset=facts.clock_offset,
            session=self._preparation.sessions[node.node_rank],
            refused=error.message if isinstance(error, NodeRefused) else None,
        )

    def _judge(self, members: list[Member], follower: Follower, failed: Mapping[int, NcclrunError]) -> Ended:
        ends = [member.ended(self.job.launcher) for member in members]
        outcome = first_failure(ends, stopped_by=follower.stopped_by)
        code = outcome.exit_code
        if outcome.reason == "stopped" and failed and not follower.stopped_by:
            # A link broke at the start and came back: nobody pressed Ctrl-C, though all ends look like it.
            code = max(error.exit_code for error in failed.values())
        return Ended(
            run_id=self.run_id,
            exit_code=code,
            reason=outcome.reason,
            seconds=time.monotonic() - self._began,
            nodes=outcome.nodes,
            cause=outcome.cause,
            victims=outcome.victims,
            directory=str(self._run.path) if self._run else "",
        )

    def _ended(self, exit_code: int, reason: str) -> Ended:
        return Ended(
            run_id="" if self._dry_run else self.run_id,
            exit_code=exit_code,
            reason=reason,
            seconds=time.monotonic() - self._began,
            directory=str(self._run.path) if self._run and self._started else "",
        )

    def _clean_up(self) -> None:
        self._preparation.take_back(self._started)
        if self._run is not None and not self._started:
            self._run.forget()
