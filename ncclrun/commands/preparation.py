"""Everything before the start of a run: connect, probe, plan, send the code, prepare everywhere, reach the master."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from typing import Any

from ncclrun.commands.about import about, controller
from ncclrun.commands.code import Archive, find_source
from ncclrun.commands.confirmation import Confirmation
from ncclrun.commands.contact import ask_facts, connect, unreachable
from ncclrun.commands.control import Control
from ncclrun.commands.findings import Finding, findings_told
from ncclrun.commands.guards import Guards
from ncclrun.commands.inbox import Inbox, inbox_sink
from ncclrun.commands.nodesettings import Settings, settings_of
from ncclrun.commands.settling import told, with_rdma
from ncclrun.commands.survey import Participant, Survey
from ncclrun.diagnosis.checks import cluster_problems, node_problems
from ncclrun.diagnosis.names import HARMLESS_CODES
from ncclrun.diagnosis.ncclsays import DIFFERS
from ncclrun.model.cluster import ClusterSpec, Node
from ncclrun.model.errors import (
    EXIT_NOT_STARTED,
    EXIT_UNREACHABLE,
    HostError,
    NcclrunError,
    NodeRefused,
    PlanError,
    UsageError,
)
from ncclrun.model.events import CodeSent, Event, Prepared, Refused, Unreachable, Warn
from ncclrun.model.facts import NodeFacts
from ncclrun.model.job import JobSpec
from ncclrun.model.plan import Endpoint, LaunchPlan, NodePlan
from ncclrun.model.words import listed
from ncclrun.planning.choice.wording import master_out_of_reach
from ncclrun.planning.delivery import Delivered
from ncclrun.planning.environment import network_variables
from ncclrun.planning.planner import make_plan, refuse_unsupported, wanted_port
from ncclrun.transport.base import Transport
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session

PREPARE_TIMEOUT = 120.0
LEFT_OUT = 20
"""Ignored names that are told."""


class NotStarted(NcclrunError):
    """Events have told why; ``exit_code`` is what the command ends with."""

    def __init__(self, exit_code: int, reason: str = "nothing was started") -> None:
        super().__init__(reason)
        self.exit_code = exit_code


class Preparation:
    """All nodes up to the moment where every one is ready; whatever it did can be taken back until then.

    ``sessions`` and ``facts`` are by node_rank; ``inbox`` takes what the nodes say unasked.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        job: JobSpec,
        transport: Transport,
        control: Control,
        *,
        run_id: str,
        token: str,
        environ: Mapping[str, str],
    ) -> None:
        self.cluster = cluster
        self.inbox = Inbox()
        self.sessions: dict[int, Session] = {}
        self.facts: dict[int, NodeFacts] = {}
        self.prepared: set[int] = set()
        """Nodes that were asked to prepare: something of the run may be there."""
        self.leftovers = False
        """Whether there were processes of dead runs."""
        self._job = job
        self._transport = transport
        self._control = control
        self._run_id = run_id
        self._token = token
        self._forwarded = forwarded_values(cluster.nodes, environ)
        self._source = find_source(job, cluster.nodes)
        self._survey: Survey
        self._endpoints: tuple[Endpoint, ...] = ()
        self._lifeline_port = 0

    def resolve(self) -> Generator[Event, None, LaunchPlan]:
        """Connects, probes and plans; nothing on the nodes is changed. Raises NotStarted or PlanError."""
        refuse_unsupported(self.cluster, self._job)
        yield from self._connect()
        yield from self._probe()
        plan = yield from self._network()
        yield from self._judge(self._guards(plan).crowded())
        return plan

    def show_code(self) -> Iterator[Event]:
        """What would be sent, for a dry run."""
        if self._source.archive is not None:
            yield self._code_event(self._source.archive, (), dry_run=True)

    def prepare(self, plan: LaunchPlan) -> Generator[Event, None, LaunchPlan]:
        """Guards, code, run directories, the master's port (in the plan then). Raises NotStarted, PlanError."""
        guards = self._guards(plan)
        self.leftovers = bool(guards.leftovers())
        yield from self._judge((yield from guards.clear()) if self._job.clean_leftovers else guards.leftovers())
        if not self._job.share_gpus:
            yield from self._judge((yield from guards.lock()))
        yield from self._send_code()
        plan = yield from self._prepare(plan)
        yield from self._reach_master(plan)
        return plan

    def take_back(self, started: set[int]) -> None:
        """Removes what was prepared on nodes that were never asked to start, and closes every session.

        A node that can't be asked any more does it itself: it drops what never started when its channel ends.
        """
        idle = {rank: session for rank, session in self.sessions.items() if rank in self.prepared - started}

        def discard(node_rank: int, session: Session) -> None:
            session.call("discard", timeout=10.0, run_id=self._run_id, node_rank=node_rank, token=self._token)

        for _rank, _answer in for_all(idle, discard):
            pass
        for session in self.sessions.values():
            session.close()

    def _connect(self) -> Iterator[Event]:
        missing = []
        sink = inbox_sink(self.cluster.nodes, self.inbox)
        for event in connect(self.cluster.nodes, self._transport, sink, self._control, self.sessions):
            yield event
            if isinstance(event, Unreachable):
                missing.append(event.node)
        if missing:
            raise NotStarted(EXIT_UNREACHABLE, f"nothing was started: {', '.join(missing)} could not be reached")

    def _probe(self) -> Iterator[Event]:
        def question(node_rank: int, session: Session) -> NodeFacts:
            return ask_facts(session, self.cluster.nodes[node_rank].launch.python)

        def taken(node_rank: int, facts: NodeFacts) -> Iterator[Event]:
            self.facts[node_rank] = facts
            yield from ()

        yield from self._everywhere(question, taken)
        yield from self._refuse_unfit()

    def _refuse_unfit(self) -> Iterator[Event]:
        """The quick checks: errors end the launch, warnings are told."""
        nodes, facts = self.cluster.nodes, self._ordered_facts()
        refused = False
        torch_needed = self._job.launcher == "torchrun"
        for node_rank, (node, fact, differing) in enumerate(
            zip(nodes, facts, cluster_problems(nodes, facts), strict=True)
        ):
            problems = (*node_problems(node, fact, torch_needed=torch_needed), *differing)
            found = [Finding(node_rank, one) for one in problems if torch_needed or one.code != "no_python"]
            yield from findings_told(nodes, found)
            refused = refused or any(finding.problem.level == "error" for finding in found)
            if note := self.sessions[node_rank].hello.get("state_note"):
                yield Warn(node=node.name, text=str(note), fix="set XDG_STATE_HOME there to choose another place")
        if refused:
            raise NotStarted(EXIT_NOT_STARTED)

    def _guards(self, plan: LaunchPlan) -> Guards:
        return Guards(plan, self._ordered_facts(), self._everywhere)

    def _judge(self, findings: Sequence[Finding]) -> Iterator[Event]:
        """Tells them; an error among them ends the launch."""
        yield from findings_told(self.cluster.nodes, findings)
        if any(finding.problem.level == "error" for finding in findings):
            raise NotStarted(EXIT_NOT_STARTED)

    def _ordered_facts(self) -> list[NodeFacts]:
        return [self.facts[rank] for rank in range(len(self.cluster.nodes))]

    def _network(self) -> Generator[Event, None, LaunchPlan]:
        """The network that the nodes prove and NCCL confirms, and the plan that stands on it."""
        survey = self._survey = Survey(self._participants(), self._control)
        choice = yield from survey.choose()
        yield from self._give_up(survey)
        # What RDMA is to be used depends on the variables, and then becomes one of them.
        draft = self._plan(None, choice.endpoints)
        self._endpoints, notes = with_rdma(
            survey.participants, choice.endpoints, [node.variables for node in draft.nodes]
        )
        plan = self._plan(None, self._endpoints)
        yield from told(survey.participants, self._endpoints, (*choice.notes, *notes))
        settings = [self._settings(one, node) for one, node in zip(survey.participants, plan.nodes, strict=True)]
        findings = yield from Confirmation(survey, self._endpoints, settings, self.cluster.source).events()
        survey.close()
        yield from self._give_up(survey)
        # What NCCL itself says of a variable tells more.
        refuted = {finding.node_rank for finding in findings if finding.problem.code in DIFFERS}
        yield from _overridden(plan.nodes, refuted)
        told_now = [finding for finding in findings if finding.problem.code not in HARMLESS_CODES]
        yield from self._judge(told_now)
        return plan

    def _settings(self, one: Participant, node: NodePlan) -> Settings:
        delivered = Delivered(node.environment, node.file)
        deliver, source = self.cluster.nccl.deliver, self.cluster.source
        return settings_of(one, deliver, delivered, source, defaults=node.defaults, conf=node.conf)

    def _give_up(self, survey: Survey) -> Iterator[Event]:
        """Ends the launch when a node was lost, or refused, while the network was looked at."""
        for node_rank, error in sorted(survey.failed.items()):
            yield failure_event(self.cluster.nodes[node_rank], node_rank, error)
        if survey.failed:
            raise NotStarted(max(error.exit_code for error in survey.failed.values()))

    def _participants(self) -> list[Participant]:
        return [
            Participant(node, rank, self.sessions[rank], self.facts[rank])
            for rank, node in enumerate(self.cluster.nodes)
        ]

    def _plan(self, master_port: int | None, endpoints: Sequence[Endpoint]) -> LaunchPlan:
        job = JobSpec(**{**vars(self._job), "program": self._source.program})
        return make_plan(
            self.cluster,
            job,
            self._ordered_facts(),
            endpoints,
            run_id=self._run_id,
            forwarded=self._forwarded,
            master_port=master_port,
            workdir=self._source.workdir,
        )

    def _send_code(self) -> Iterator[Event]:
        archive = self._source.archive
        if archive is None:
            return
        for note in archive.notes:
            yield Warn(text=note, fix="")
        sent: set[int] = set()

        def question(node_rank: int, session: Session) -> bool:
            if session.call("has", sha256=archive.sha256)["has"]:
                return False
            session.send_code([archive.data], archive.sha256, timeout=PREPARE_TIMEOUT)
            return True

        def taken(node_rank: int, was_sent: bool) -> Iterator[Event]:
            if was_sent:
                sent.add(node_rank)
            yield from ()

        yield from self._everywhere(question, taken)
        yield self._code_event(archive, tuple(self.cluster.nodes[rank].name for rank in sorted(sent)))

    def _code_event(self, archive: Archive, sent_to: tuple[str, ...], *, dry_run: bool = False) -> CodeSent:
        return CodeSent(
            directory=str(archive.directory),
            files=archive.files,
            size=len(archive.data),
            sha256=archive.sha256,
            sent_to=sent_to,
            left_out=archive.left_out[:LEFT_OUT],
            dry_run=dry_run,
        )

    def _prepare(self, plan: LaunchPlan) -> Generator[Event, None, LaunchPlan]:
        """Prepares everywhere; returns the plan with the master's port."""
        hashes: dict[int, str] = {}
        port = 0

        def question(node_rank: int, session: Session) -> dict[str, Any]:
            # Noted before the answer: a node that is cut off in between may have prepared all the same.
            self.prepared.add(node_rank)
            return session.call("prepare", timeout=PREPARE_TIMEOUT, **self._preparation(plan, plan.nodes[node_rank]))

        def taken(node_rank: int, answer: dict[str, Any]) -> Iterator[Event]:
            nonlocal port
            hashes[node_rank] = answer.get("script_sha256", "")
            if node_rank == 0:
                port = int(answer["port"])
                self._lifeline_port = int(answer["lifeline_port"])
            name = self.cluster.nodes[node_rank].name
            for other in answer.get("others", ()):
                yield Warn(node=name, text=f"your run {other} lives there too", fix=f"ncclrun stop {other}")
            yield Prepared(node=name, node_rank=node_rank)

        yield from self._everywhere(question, taken)
        if len(set(hashes.values())) > 1:
            rows = "\n".join(f"  {self.cluster.nodes[rank].name}: {hashes[rank][:16]}" for rank in sorted(hashes))
            raise PlanError(
                f"{self._source.program} is not the same file on all nodes (SHA-256):\n{rows}",
                fix="bring the nodes' working directories to the same state, or leave workdir out to have it sent",
            )
        return self._plan(port, self._endpoints)

    def _preparation(self, plan: LaunchPlan, node: NodePlan) -> dict[str, Any]:
        archive = self._source.archive
        return {
            "run_id": self._run_id,
            "token": self._token,
            "node_rank": node.node_rank,
            "nproc": node.nproc,
            "launcher": plan.launcher,
            "code": archive.sha256 if archive else None,
            "workdir": node.workdir,
            "script": self._source.program if self._job.kind == "script" else None,
            "python": node.python,
            "program": self._source.program if self._job.kind == "command" else None,
            "conf": None if node.conf is None else node.conf.decode("utf-8", "surrogateescape"),
            "search": next((v.value for v in node.environment if v.name == "PATH"), None),
            "by": controller(),
            "checkpoint_dir": self._job.checkpoint_dir or node.node.launch.checkpoint_dir,
            "about": about(self.cluster, self._job.program, plan, node),
            "listen": {"address": plan.master_addr, "port": wanted_port(self.cluster.nodes)}
            if node.node_rank == 0
            else None,
            "lifeline": {"address": plan.master_addr}
            if node.node_rank == 0 and len(plan.nodes) > 1 and node.node.launch.lease
            else None,
        }

    def lifeline(self, plan: LaunchPlan, node: NodePlan) -> dict[str, Any] | None:
        """What a node is told at its start of the supervisors' own link; None where there is none."""
        if not self._lifeline_port:
            return None
        return {
            "address": plan.master_addr,
            "port": self._lifeline_port,
            "lease": node.node.launch.lease,
            "source": node.endpoint.address,
            "hosts": [one.node.name for one in plan.nodes],
        }

    def _reach_master(self, plan: LaunchPlan) -> Iterator[Event]:
        """Every node connects to the master's port from its own address, as its workers will."""
        links = self._survey.reach(plan.master_addr, plan.master_port, self._token, self._endpoints)
        yield from self._give_up(self._survey)
        failed = [link for link in links if not link.ok]
        for link in failed:
            node = self.cluster.nodes[link.node_rank]
            message, fix = master_out_of_reach(link, [one.name for one in self.cluster.nodes])
            yield Refused(node=node.name, node_rank=link.node_rank, code=link.outcome, message=message, fix=fix)
        if failed:
            raise NotStarted(EXIT_NOT_STARTED)
        if self._lifeline_port:
            yield from self._reach_lifeline(plan)

    def _reach_lifeline(self, plan: LaunchPlan) -> Iterator[Event]:
        """The supervisors' port; where a firewall keeps it shut the run does without, and that is said."""
        links = self._survey.reach(plan.master_addr, self._lifeline_port, self._token, self._endpoints)
        yield from self._give_up(self._survey)
        failed = listed([self.cluster.nodes[link.node_rank].name for link in links if not link.ok])
        if failed:
            yield Warn(
                text=f"{failed} can't reach port {self._lifeline_port} of {plan.nodes[0].node.name}"
                f" ({plan.master_addr}): if this ncclrun goes away, a node that fails stops no other",
                fix="open TCP 20000-32000 between the nodes, or write  launch: {lease: 0}  in the cluster file",
            )
            self._lifeline_port = 0

    def _everywhere(
        self,
        question: Callable[[int, Session], Any],
        taken: Callable[[int, Any], Iterator[Event]],
        among: Collection[int] | None = None,
    ) -> Iterator[Event]:
        """Asks all nodes, or those; tells every node that refuses or is lost, then ends the launch if there was one."""
        code = 0
        asked = {rank: session for rank, session in self.sessions.items() if among is None or rank in among}
        for node_rank, answer in for_all(asked, question, cancelled=self._control.stopped):
            node = self.cluster.nodes[node_rank]
            if isinstance(answer, NcclrunError):
                code = max(code, answer.exit_code)
                yield failure_event(node, node_rank, answer)
            else:
                yield from taken(node_rank, answer)
        self._control.check()
        if code:
            raise NotStarted(code)


def _overridden(nodes: Sequence[NodePlan], refuted: Collection[int]) -> Iterator[Event]:
    """Variables of the user's that go over what the network choice found: meant, perhaps, but never in silence.

    Of those on the nodes in ``refuted`` NCCL's own are told already.
    """
    over: dict[tuple[str, str, str], dict[str, str]] = {}
    for node in nodes:
        found = network_variables(node.endpoint)
        for variable in node.variables:
            name, value = variable.name, "***" if variable.secret else variable.value
            if variable.origin == "network" or found.get(name, variable.value) == variable.value:
                continue
            if not (name.startswith("NCCL_") and node.node_rank in refuted):
                over.setdefault((variable.origin, name, value), {})[node.node.name] = found[name]
    for (origin, name, value), instead in over.items():
        owners: dict[str, list[str]] = {}
        for node_name, what in instead.items():
            owners.setdefault(what, []).append(node_name)
        values = listed([f"{what} on {listed(names)}" for what, names in owners.items()])
        yield Warn(
            text=f"{origin} sets {name}={value}; found was {values}",
            fix=f"take {name} out: each node gets what was found for it",
        )


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
