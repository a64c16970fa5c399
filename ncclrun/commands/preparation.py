"""Everything before the start of a run: connect, probe, plan, send the code, prepare everywhere, reach the master."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from ncclrun.commands.code import find_source
from ncclrun.commands.confirmation import Confirmation
from ncclrun.commands.contact import ask_facts, connect
from ncclrun.commands.control import Control
from ncclrun.commands.everywhere import Everywhere, NotStarted, failure_event
from ncclrun.commands.findings import Finding, findings_told
from ncclrun.commands.guards import Guards
from ncclrun.commands.inbox import Inbox, inbox_sink
from ncclrun.commands.noderequests import lifeline_of, preparation_of
from ncclrun.commands.nodesettings import Settings, settings_of
from ncclrun.commands.sending import code_event, send_code
from ncclrun.commands.settling import overridden, told, with_rdma
from ncclrun.commands.survey import Participant, Survey
from ncclrun.diagnosis.checks.across import cluster_problems
from ncclrun.diagnosis.checks.registry import node_problems
from ncclrun.diagnosis.names import HARMLESS_CODES
from ncclrun.diagnosis.ncclsays import DIFFERS
from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.errors import (
    EXIT_NOT_STARTED,
    EXIT_UNREACHABLE,
    PlanError,
)
from ncclrun.model.events import Event, Prepared, Refused, Unreachable, Warn
from ncclrun.model.facts import NodeFacts
from ncclrun.model.job import JobSpec
from ncclrun.model.plan import Endpoint, LaunchPlan, NodePlan
from ncclrun.model.words import listed
from ncclrun.planning.choice.wording import master_out_of_reach
from ncclrun.planning.delivery import Delivered
from ncclrun.planning.environment import forwarded_values
from ncclrun.planning.planner import make_plan, refuse_unsupported
from ncclrun.transport.base import Transport
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session

PREPARE_TIMEOUT = 120.0


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
        self._everywhere = Everywhere(cluster.nodes, self.sessions, control)
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
            yield code_event(self._source.archive, (), dry_run=True)

    def prepare(self, plan: LaunchPlan) -> Generator[Event, None, LaunchPlan]:
        """Guards, code, run directories, the master's port (in the plan then). Raises NotStarted, PlanError."""
        guards = self._guards(plan)
        self.leftovers = bool(guards.leftovers())
        yield from self._judge((yield from guards.clear()) if self._job.clean_leftovers else guards.leftovers())
        if not self._job.share_gpus:
            yield from self._judge((yield from guards.lock()))
        if self._source.archive is not None:
            yield from send_code(self._source.archive, self.cluster.nodes, self._everywhere)
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

        yield from self._everywhere.ask(question, taken)
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
            found = [Finding(node_rank, one) for one in problems]
            yield from findings_told(nodes, found)
            refused = refused or any(finding.problem.level == "error" for finding in found)
            if note := self.sessions[node_rank].hello.get("state_note"):
                yield Warn(node=node.name, text=str(note), fix="set XDG_STATE_HOME there to choose another place")
        if refused:
            raise NotStarted(EXIT_NOT_STARTED)

    def _guards(self, plan: LaunchPlan) -> Guards:
        return Guards(plan, self._ordered_facts(), self._everywhere.ask)

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
        yield from overridden(plan.nodes, refuted)
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

    def _prepare(self, plan: LaunchPlan) -> Generator[Event, None, LaunchPlan]:
        """Prepares everywhere; returns the plan with the master's port."""
        hashes: dict[int, str] = {}
        others: dict[str, list[str]] = {}
        port = 0

        def question(node_rank: int, session: Session) -> dict[str, Any]:
            # Noted before the answer: a node that is cut off in between may have prepared all the same.
            self.prepared.add(node_rank)
            request = preparation_of(plan, plan.nodes[node_rank], self.cluster, self._job, self._source)
            return session.call("prepare", timeout=PREPARE_TIMEOUT, token=self._token, **request)

        def taken(node_rank: int, answer: dict[str, Any]) -> Iterator[Event]:
            nonlocal port
            hashes[node_rank] = answer.get("script_sha256", "")
            if node_rank == 0:
                port = int(answer["port"])
                self._lifeline_port = int(answer["lifeline_port"])
            name = self.cluster.nodes[node_rank].name
            for other in answer.get("others", ()):
                others.setdefault(other, []).append(name)
            yield Prepared(node=name, node_rank=node_rank)

        yield from self._everywhere.ask(question, taken)
        for other, names in others.items():
            text = f"your run {other} lives on {listed(sorted(names), 8)} too"
            yield Warn(text=text, fix=f"ncclrun status {other}   (and, where it is not wanted:  ncclrun stop {other})")
        if len(set(hashes.values())) > 1:
            rows = "\n".join(f"  {self.cluster.nodes[rank].name}: {hashes[rank][:16]}" for rank in sorted(hashes))
            raise PlanError(
                f"{self._source.program} is not the same file on all nodes (SHA-256):\n{rows}",
                fix="bring the nodes' working directories to the same state, or leave workdir out to have it sent",
            )
        return self._plan(port, self._endpoints)

    def lifeline(self, plan: LaunchPlan, node: NodePlan) -> dict[str, Any] | None:
        """What a node is told at its start of the supervisors' own link; None where there is none."""
        return lifeline_of(plan, node, self._lifeline_port) if self._lifeline_port else None

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
