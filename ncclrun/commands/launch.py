"""`ncclrun launch`: connect, probe, plan, prepare everywhere, start everywhere, follow, judge, clean up."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from queue import SimpleQueue
from typing import Any

from pydantic import TypeAdapter

from ncclrun.commands.code import find_source
from ncclrun.commands.control import Control, Interrupted
from ncclrun.commands.follow import Follower, Member
from ncclrun.commands.history import LogWriter, RunDir, check_run_id, new_run_id, process_start
from ncclrun.commands.probe import Inbox, ask_facts, connect, inbox_sink, reopen, unreachable
from ncclrun.diagnosis.checks import cluster_problems, node_problems
from ncclrun.diagnosis.outcome import first_failure
from ncclrun.model.cluster import ClusterSpec, Node
from ncclrun.model.errors import (
    EXIT_INTERRUPTED,
    EXIT_NOT_STARTED,
    EXIT_UNREACHABLE,
    HostError,
    NcclrunError,
    NodeRefused,
    PlanError,
    UsageError,
)
from ncclrun.model.events import (
    CodeSent,
    Ended,
    Event,
    Failure,
    NodeState,
    Prepared,
    Refused,
    Resolved,
    RunCreated,
    Unreachable,
    Warn,
)
from ncclrun.model.facts import NodeFacts
from ncclrun.model.job import JobSpec
from ncclrun.model.outcome import NodeEnd
from ncclrun.model.plan import LaunchPlan, NodePlan
from ncclrun.planning.network import choose_endpoints
from ncclrun.planning.planner import make_plan, planned_event, processes, refuse_unsupported, wanted_port, with_options
from ncclrun.transport.base import Transport
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session

PREPARE_TIMEOUT = 120.0
START_TIMEOUT = 60.0
REACH_TIMEOUT = 5.0
"""Seconds in which a node must reach the master's port."""
PIECE = 256 << 10
"""Bytes of code a frame."""


class _NotStarted(NcclrunError):
    """Events have told why; ``exit_code`` is what the command ends with."""

    def __init__(self, exit_code: int, reason: str) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


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
    ) -> None:
        self.cluster = ClusterSpec(
            name=cluster.name,
            source=cluster.source,
            nccl=cluster.nccl,
            nodes=tuple(with_options(node, job) for node in cluster.nodes),
        )
        self.job = job
        self.run_id = check_run_id(job.run_id) if job.run_id else new_run_id()
        self._transport = transport
        self._control = control
        self._dry_run = dry_run
        self._forwarded = forwarded_values(cluster.nodes, environ)
        self._token = secrets.token_hex(16)
        self._inbox: Inbox = SimpleQueue()
        self._sessions: dict[int, Session] = {}
        self._facts: dict[int, NodeFacts] = {}
        self._prepared: set[int] = set()
        self._started: set[int] = set()
        self._began = time.monotonic()
        self._run: RunDir | None = None
        self._source = find_source(job, self.cluster.nodes)

    def events(self) -> Iterator[Event]:
        """Everything that happens; the last event is Ended. Nothing of the run is left then, or Ended says where."""
        try:
            yield from self._whole()
        except _NotStarted as error:
            yield self._ended(error.exit_code, error.message)
        except Interrupted:
            yield self._ended(EXIT_INTERRUPTED, "interrupted before anything was started")
        except NcclrunError as error:
            yield Failure(message=error.message, fix=error.fix, exit_code=error.exit_code)
            yield self._ended(error.exit_code, "nothing was started")
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
        refuse_unsupported(self.cluster, self.job)
        yield from self._connect()
        yield from self._probe()
        plan = self._plan(None)
        yield from self._tell_network(plan)
        if self._dry_run:
            yield planned_event(plan)
            yield self._ended(0, "dry run")
            return
        yield from self._send_code()
        plan = yield from self._prepare(plan)
        yield planned_event(plan)
        yield from self._reach_master(plan)
        failed = yield from self._start(plan)
        if all(isinstance(failed.get(node.node_rank), NodeRefused) for node in plan.nodes):
            raise _NotStarted(EXIT_NOT_STARTED, "nothing was started")
        yield from self._follow(plan, failed)

    # --- before the start

    def _connect(self) -> Iterator[Event]:
        missing = []
        sink = inbox_sink(self.cluster.nodes, self._inbox)
        for event in connect(self.cluster.nodes, self._transport, sink, self._control, self._sessions):
            yield event
            if isinstance(event, Unreachable):
                missing.append(event.node)
        if missing:
            raise _NotStarted(EXIT_UNREACHABLE, f"nothing was started: {', '.join(missing)} could not be reached")

    def _probe(self) -> Iterator[Event]:
        def question(node_rank: int, session: Session) -> NodeFacts:
            return ask_facts(session, self.cluster.nodes[node_rank].launch.python)

        def taken(node_rank: int, facts: NodeFacts) -> Iterator[Event]:
            self._facts[node_rank] = facts
            yield from ()

        yield from self._everywhere(question, taken)
        yield from self._refuse_unfit()

    def _refuse_unfit(self) -> Iterator[Event]:
        """The quick checks: errors end the launch, warnings are told."""
        nodes, facts = self.cluster.nodes, self._ordered_facts()
        refused = False
        torch_needed = self.job.launcher == "torchrun"
        for node_rank, (node, fact, differing) in enumerate(
            zip(nodes, facts, cluster_problems(nodes, facts), strict=True)
        ):
            for problem in (*node_problems(node, fact, torch_needed=torch_needed), *differing):
                if problem.level == "warning":
                    yield Warn(node=node.name, text=problem.message, fix=problem.fix)
                elif torch_needed or problem.code != "no_python":
                    refused = True
                    yield Refused(
                        node=node.name,
                        node_rank=node_rank,
                        code=problem.code,
                        message=problem.message,
                        fix=problem.fix,
                    )
            if fact.stale:
                yield Warn(
                    node=node.name,
                    text=f"its login environment sets {', '.join(fact.stale)}: taken away for this run",
                    fix="remove them from the shell's start-up files there",
                )
        if refused:
            raise _NotStarted(EXIT_NOT_STARTED, "nothing was started")

    def _ordered_facts(self) -> list[NodeFacts]:
        return [self._facts[rank] for rank in range(len(self.cluster.nodes))]

    def _plan(self, master_port: int | None) -> LaunchPlan:
        facts = self._ordered_facts()
        job = JobSpec(**{**vars(self.job), "program": self._source.program})
        return make_plan(
            self.cluster,
            job,
            facts,
            choose_endpoints(self.cluster.nodes, facts),
            run_id=self.run_id,
            forwarded=self._forwarded,
            master_port=master_port,
        )

    def _tell_network(self, plan: LaunchPlan) -> Iterator[Event]:
        for node in plan.nodes:
            yield Resolved(
                node=node.node.name,
                node_rank=node.node_rank,
                interface=node.endpoint.interface,
                address=node.endpoint.address,
                why=node.endpoint.why,
            )

    def _send_code(self) -> Iterator[Event]:
        archive = self._source.archive
        if archive is None:
            return
        for note in archive.notes:
            yield Warn(text=note, fix="")
        sent: list[str] = []

        def question(node_rank: int, session: Session) -> bool:
            if session.call("has", sha256=archive.sha256)["has"]:
                return False
            for start in range(0, len(archive.data), PIECE):
                piece = archive.data[start : start + PIECE]
                last = start + PIECE >= len(archive.data)
                session.call("put", body=piece, sha256=archive.sha256, last=last, timeout=PREPARE_TIMEOUT)
            return True

        def taken(node_rank: int, was_sent: bool) -> Iterator[Event]:
            if was_sent:
                sent.append(self.cluster.nodes[node_rank].name)
            yield from ()

        yield from self._everywhere(question, taken)
        yield CodeSent(
            directory=str(archive.directory),
            files=archive.files,
            size=len(archive.data),
            sha256=archive.sha256,
            sent_to=tuple(sent),
        )

    def _prepare(self, plan: LaunchPlan) -> Generator[Event, None, LaunchPlan]:
        """Prepares everywhere; returns the plan with the master's port."""
        hashes: dict[int, str] = {}
        port = 0

        def question(node_rank: int, session: Session) -> dict[str, Any]:
            # Noted before the answer: a node that is cut off in between may have prepared all the same.
            self._prepared.add(node_rank)
            return session.call("prepare", timeout=PREPARE_TIMEOUT, **self._preparation(plan, plan.nodes[node_rank]))

        def taken(node_rank: int, answer: dict[str, Any]) -> Iterator[Event]:
            nonlocal port
            hashes[node_rank] = answer.get("script_sha256", "")
            if node_rank == 0:
                port = int(answer["port"])
            yield Prepared(node=self.cluster.nodes[node_rank].name, node_rank=node_rank)

        yield from self._everywhere(question, taken)
        if len(set(hashes.values())) > 1:
            rows = "\n".join(f"  {self.cluster.nodes[rank].name}: {hashes[rank][:16]}" for rank in sorted(hashes))
            raise PlanError(
                f"{self._source.program} is not the same file on all nodes (SHA-256):\n{rows}",
                fix="bring the nodes' working directories to the same state, or leave workdir out to have it sent",
            )
        return self._plan(port)

    def _preparation(self, plan: LaunchPlan, node: NodePlan) -> dict[str, Any]:
        archive = self._source.archive
        workdir = node.workdir or self._source.workdir
        return {
            "run_id": self.run_id,
            "token": self._token,
            "node_rank": node.node_rank,
            "nproc": node.nproc,
            "launcher": plan.launcher,
            "code": archive.sha256 if archive else None,
            "workdir": workdir,
            "script": self._source.program if self.job.kind == "script" else None,
            "module": self._source.program if self.job.kind == "module" else None,
            "python": node.python,
            "listen": {"address": plan.master_addr, "port": wanted_port(self.cluster.nodes)}
            if node.node_rank == 0
            else None,
        }

    def _reach_master(self, plan: LaunchPlan) -> Iterator[Event]:
        """Every node connects to the master's port from its own address: a wrong card shows here, not in a hang."""

        def question(node_rank: int, session: Session) -> None:
            if node_rank == 0:
                return
            session.call(
                "reach",
                address=plan.master_addr,
                port=plan.master_port,
                token=self._token,
                source=plan.nodes[node_rank].endpoint.address,
                timeout=REACH_TIMEOUT,
            )

        yield from self._everywhere(question, lambda _rank, _answer: iter(()))

    def _everywhere(
        self, question: Callable[[int, Session], Any], taken: Callable[[int, Any], Iterator[Event]]
    ) -> Iterator[Event]:
        """Asks all nodes; tells every node that refuses or is lost, then ends the launch if there was one."""
        code = 0
        for node_rank, answer in for_all(self._sessions, question, cancelled=self._control.stopped):
            node = self.cluster.nodes[node_rank]
            if isinstance(answer, NcclrunError):
                code = max(code, answer.exit_code)
                yield failure_event(node, node_rank, answer)
            else:
                yield from taken(node_rank, answer)
        self._control.check()
        if code:
            raise _NotStarted(code, "nothing was started")

    # --- the run itself

    def _start(self, plan: LaunchPlan) -> Generator[Event, None, dict[int, NcclrunError]]:
        """Starts everywhere; returns the nodes that could not, by node_rank, with the reason."""
        self._record(plan)
        failed: dict[int, NcclrunError] = {}

        def question(node_rank: int, session: Session) -> dict[str, Any]:
            node = plan.nodes[node_rank]
            self._started.add(node_rank)
            return session.call(
                "start",
                timeout=START_TIMEOUT,
                run_id=self.run_id,
                token=self._token,
                node_rank=node_rank,
                processes=processes(plan, node),
                defaults={variable.name: variable.value for variable in node.defaults},
                env={variable.name: variable.value for variable in node.environment},
                unset=list(node.unset),
                grace=node.grace,
                restarts=node.node.launch.max_restarts,
            )

        # Without an ear for Ctrl-C: what was asked to start must be known to run before it can be stopped.
        for node_rank, answer in for_all(self._sessions, question):
            node = self.cluster.nodes[node_rank]
            if isinstance(answer, NcclrunError):
                failed[node_rank] = answer
                yield failure_event(node, node_rank, answer)
            else:
                yield NodeState(node=node.name, node_rank=node_rank, state="running", since=time.time())
        return failed

    def _record(self, plan: LaunchPlan) -> None:
        """What `logs` and others need to find the run again; no environment, for it may hold secrets."""
        assert self._run is not None
        dump = TypeAdapter(Node).dump_python
        nodes = []
        for node in plan.nodes:
            bare = {**vars(node.node), "launch": node.node.launch.model_copy(update={"env": {}, "forward_env": ()})}
            nodes.append(
                {
                    "node": dump(Node(**bare), mode="json"),
                    "first_rank": node.first_rank,
                    "nproc": node.nproc,
                    "boot_id": self._facts[node.node_rank].boot_id,
                    "clock_offset": self._facts[node.node_rank].clock_offset,
                }
            )
        self._run.write(
            "run.json",
            {
                "run_id": self.run_id,
                "token": self._token,
                "cluster": self.cluster.name,
                "source": self.cluster.source,
                "program": self.job.program,
                "launcher": plan.launcher,
                "started_at": time.time(),
                "pid": os.getpid(),
                "pid_start_time": process_start(os.getpid()),
                "world_size": plan.world_size,
                "nodes": nodes,
            },
        )

    def _follow(self, plan: LaunchPlan, failed: Mapping[int, NcclrunError]) -> Iterator[Event]:
        assert self._run is not None
        members = [self._member(node, failed.get(node.node_rank)) for node in plan.nodes]
        writer = LogWriter(self._run)
        follower = Follower(
            self.run_id, members, self._inbox, writer, self._control, reopen(self._transport), timeout=self.job.timeout
        )
        try:
            if failed:
                names = ", ".join(self.cluster.nodes[rank].name for rank in sorted(failed))
                yield from follower.stop_all(f"{names} could not start", "term")
            yield from follower.events()
        finally:
            writer.close()
            for member in members:
                if member.session is not None:
                    self._sessions[member.node_rank] = member.session
        if self._control.detach:
            yield self._ended(0, "left running")
            return
        ended = self._judge(members, follower)
        complete = writer.lost == 0 and all(member.over and member.lost is None for member in members)
        try:
            self._run.write_end(ended.exit_code, ended.reason, complete=complete)
        except NcclrunError as error:
            yield Warn(text=error.message, fix=error.fix)
        yield ended

    def _member(self, node: NodePlan, error: NcclrunError | None) -> Member:
        facts = self._facts[node.node_rank]
        return Member(
            node=node.node,
            node_rank=node.node_rank,
            first_rank=node.first_rank,
            nproc=node.nproc,
            grace=node.grace,
            boot_id=facts.boot_id,
            clock_offset=facts.clock_offset,
            session=self._sessions[node.node_rank],
            refused=error.message if isinstance(error, NodeRefused) else None,
        )

    def _judge(self, members: list[Member], follower: Follower) -> Ended:
        ends: list[NodeEnd] = [member.ended(self.job.launcher) for member in members]
        outcome = first_failure(ends, stopped_by=follower.stopped_by)
        return Ended(
            run_id=self.run_id,
            exit_code=outcome.exit_code,
            reason=outcome.reason,
            seconds=time.monotonic() - self._began,
            nodes=outcome.nodes,
            cause=outcome.cause,
            victims=outcome.victims,
            directory=str(self._run.path) if self._run else "",
        )

    # --- the end

    def _ended(self, exit_code: int, reason: str) -> Ended:
        return Ended(
            run_id="" if self._dry_run else self.run_id,
            exit_code=exit_code,
            reason=reason,
            seconds=time.monotonic() - self._began,
            directory=str(self._run.path) if self._run and self._started else "",
        )

    def _clean_up(self) -> None:
        """Takes back what was prepared and never started, and closes every session.

        A node that can't be asked any more does it itself: it drops what never started when its channel ends.
        """
        idle = {rank: s for rank, s in self._sessions.items() if rank in self._prepared - self._started}
        for _rank, _answer in for_all(idle, self._discard):
            pass
        for session in self._sessions.values():
            session.close()
        if self._run is not None and not self._started:
            self._run.forget()

    def _discard(self, node_rank: int, session: Session) -> None:
        session.call("discard", timeout=10.0, run_id=self.run_id, node_rank=node_rank, token=self._token)


def failure_event(node: Node, node_rank: int, error: NcclrunError) -> Unreachable | Refused:
    """The event for a node that is lost or says no."""
    if isinstance(error, HostError):
        return unreachable(node, node_rank, error)
    code = error.code if isinstance(error, NodeRefused) else "error"
    return Refused(node=node.name, node_rank=node_rank, code=code, message=error.message, fix=error.fix)


def forwarded_values(nodes: tuple[Node, ...], environ: Mapping[str, str]) -> dict[str, str]:
    """This machine's values of every name in ``forward_env``; raises UsageError for one that is not set."""
    names = {name: node.name for node in nodes for name in node.launch.forward_env}
    missing = sorted(name for name in names if name not in environ)
    if missing:
        raise UsageError(
            f"forward_env names {', '.join(missing)}, which this shell does not export",
            fix=f"export {missing[0]}=…, or take the name out of forward_env",
        )
    return {name: environ[name] for name in names}
