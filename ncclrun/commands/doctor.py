"""`ncclrun doctor`: everything about the nodes that is known to break runs, each with what mends it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ncclrun.commands.answers import read_answer
from ncclrun.commands.control import Control
from ncclrun.commands.findings import Finding, findings_told, problem_of
from ncclrun.commands.ownversion import own_version
from ncclrun.commands.recordfile import save
from ncclrun.commands.visit import Visit
from ncclrun.diagnosis.checks.registry import KINDS, all_problems
from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.model.cluster import ClusterSpec, Launch, Network, Node, Ssh
from ncclrun.model.doctorevents import DoctorFinding, Examined
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import EXIT_UNREACHABLE, NcclrunError, PlanError
from ncclrun.model.events import Event
from ncclrun.model.facts import Interface, NodeFacts
from ncclrun.model.health import Examination
from ncclrun.model.netevents import Problem
from ncclrun.model.network import Names
from ncclrun.model.plan import Endpoint
from ncclrun.model.record import NodeRecord, Records
from ncclrun.model.settings import Level
from ncclrun.model.words import listed
from ncclrun.planning.network import choose
from ncclrun.transport.base import Transport
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session

EXAMINE_TIMEOUT = 150.0
"""Seconds for a node's examination: a cold torch on a network disk takes its time."""
NAMES_TIMEOUT = 30.0
LOOK_UP_SECONDS = 3.0
MOST_LOOK_UPS = 2
EXIT_ERRORS = 1
ORDER: tuple[Level, ...] = ("error", "warning", "info")

_EXAM = TypeAdapter(Examination)
_NAMES = TypeAdapter(Names)
_Told = tuple[Examination, Names]


def doctor(
    cluster: ClusterSpec, transport: Transport, control: Control, *, file: Path | None = None, mask: bool = False
) -> Iterator[Event]:
    """Visits all nodes, judges what they tell, and saves it if there is a ``file`` for it."""
    began = time.monotonic()
    records = yield from _gathered(cluster, transport, control)
    *told, end = judged(records, began)
    yield from told  # before it is saved: a full disk is to cost the file alone
    if file is not None:
        yield save(file, records, mask=mask)
    yield end


def _gathered(cluster: ClusterSpec, transport: Transport, control: Control) -> Generator[Event, None, Records]:
    """What each node tells; of who can't be asked, why."""
    with Visit(cluster, transport, control) as visit:
        yield from visit.events()
        told: dict[int, _Told] = {}
        sessions = {one.node_rank: one.session for one in visit.participants}
        met = _meeting([one.node for one in visit.participants], [one.facts for one in visit.participants])
        addresses = {rank: end.address for rank, end in zip(sessions, met, strict=True) if end is not None}

        def question(rank: int, session: Session) -> _Told:
            launch = cluster.nodes[rank].launch
            python = visit.facts[rank].python.executable or launch.python
            return _asked(session, python, launch.env, [one for peer, one in addresses.items() if peer != rank])

        for rank, answer in for_all(sessions, question, cancelled=control.stopped):
            if isinstance(answer, NcclrunError):
                visit.lost[rank] = problem_of(answer)
            else:
                told[rank] = answer
        control.check()
        lost = [Finding(rank, problem) for rank, problem in sorted(visit.lost.items()) if rank in visit.connected]
        yield from findings_told(visit.nodes, lost)
        nodes = tuple(_record(visit, rank, told.get(rank)) for rank in range(len(cluster.nodes)))
    return Records(nodes, cluster.source, time.time(), f"ncclrun {own_version()}")


def _asked(session: Session, python: str, environment: Mapping[str, str], peers: Sequence[str]) -> _Told:
    """What a node finds with the variables that a run's workers get, and what it says of the peers' addresses."""
    answer = session.call("examine", timeout=EXAMINE_TIMEOUT, python=python, environment=dict(environment))
    exam: Examination = read_answer(_EXAM, _known(answer, Examination), "what it found makes")
    # A few peers tell how the others' look-ups go; more would only ask a dead server more often.
    some = list(peers[:MOST_LOOK_UPS])
    names = session.call("names", timeout=NAMES_TIMEOUT, addresses=some, limit=LOOK_UP_SECONDS)
    return exam, read_answer(_NAMES, _known(names, Names))


def _known(answer: dict[str, Any], kind: type) -> dict[str, Any]:
    fields = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return {name: value for name, value in answer.items() if name in fields}


def _record(visit: Visit, rank: int, told: _Told | None) -> NodeRecord:
    node, connected = visit.nodes[rank], visit.connected.get(rank)
    exam, names = told or (None, None)
    return NodeRecord(
        name=node.name,
        node_rank=rank,
        host=node.host,
        python=node.launch.python,
        nproc=node.launch.nproc_per_node,
        gpus=node.gpus,
        env=tuple(node.launch.env),
        facts=visit.facts.get(rank),
        exam=exam,
        names=names,
        connected=None if connected is None else connected.seconds,
        lost=visit.lost.get(rank),
    )


# --- judging, with or without the hosts


def judged(records: Records, began: float) -> Iterator[Event]:
    """A row a node, every finding (the worst ones first), and the end; ``began`` is on the monotonic clock."""
    known = [one for one in records.nodes if one.facts is not None]
    subjects = _subjects(known)
    found = all_problems(subjects)
    judged_rows = {one.node_rank: _row(one, s, p) for one, s, p in zip(known, subjects, found, strict=True)}
    yield from (judged_rows.get(one.node_rank) or _empty_row(one) for one in records.nodes)
    rows = [(one, subject, p) for one, subject, ps in zip(known, subjects, found, strict=True) for p in ps]
    for one, subject, problem in sorted(rows, key=lambda row: ORDER.index(row[2].level)):
        yield _finding(one, subject.facts.hostname, problem)
    lost = [one.name for one in records.nodes if one.lost is not None or one.facts is None]
    ill = [one.name for one, problems in zip(known, found, strict=True) if any(p.level == "error" for p in problems)]
    code = EXIT_UNREACHABLE if lost else EXIT_ERRORS if ill else 0
    said = [f"no answer from {listed(lost, 8)}"] if lost else []
    said += [f"errors on {listed(ill, 8)}"] if ill else []
    reason = "; ".join(said) or "no errors"
    yield Ended(run_id="", exit_code=code, reason=reason, seconds=time.monotonic() - began)


def from_file(records: Records) -> Iterator[Event]:
    """The same of saved facts; hosts that did not answer then are told as they were."""
    nodes = [_node(one) for one in records.nodes]
    lost = [Finding(place, one.lost) for place, one in enumerate(records.nodes) if one.lost is not None]
    yield from findings_told(nodes, lost)
    yield from judged(records, time.monotonic())


def _node(one: NodeRecord) -> Node:
    """As far as the checks look at it."""
    launch = Launch(python=one.python, nproc_per_node=one.nproc, env=dict.fromkeys(one.env, ""))
    return Node(one.name, one.host, Ssh(), Network(), launch, gpus=one.gpus)


def _subjects(known: Sequence[NodeRecord]) -> list[Subject]:
    nodes = [_node(one) for one in known]
    facts = [one.facts for one in known if one.facts is not None]
    met = _meeting(nodes, facts)
    hosts = {end.address: fact.hostname for end, fact in zip(met, facts, strict=True) if end is not None}
    return [
        Subject(
            node,
            fact,
            exam=one.exam,
            names=one.names,
            connected=one.connected,
            interface=_interface(fact, end) if end is not None else None,
            peers={address: host for address, host in hosts.items() if end is not None and address != end.address},
        )
        for node, fact, one, end in zip(nodes, facts, known, met, strict=True)
    ]


def _meeting(nodes: Sequence[Node], facts: Sequence[NodeFacts]) -> Sequence[Endpoint | None]:
    """Where the facts alone would have the nodes meet; that is proven by `ping`, and not asked for here."""
    try:
        return choose(nodes, facts, None).endpoints if len(nodes) > 1 else [None for _ in nodes]
    except PlanError:  # `ping` tells why
        return [None for _ in nodes]


def _interface(facts: NodeFacts, end: Endpoint) -> Interface | None:
    return next((one for one in facts.interfaces if one.name == end.interface and not one.loopback), None)


def _row(one: NodeRecord, subject: Subject, problems: Sequence[Problem]) -> Examined:
    facts = subject.facts
    loaded = [library.version for library in subject.installed.nccl if "torch" in library.ways]
    levels = {problem.level for problem in problems}
    return Examined(
        node=one.name,
        node_rank=one.node_rank,
        host=one.host,
        hostname=facts.hostname,
        system=facts.system.distribution.name,
        container=facts.system.container,
        kernel=facts.system.kernel,
        gpus=tuple(gpu.name for gpu in facts.gpus),
        driver=facts.driver,
        python=facts.python.version,
        torch=facts.python.torch,
        cuda=facts.python.cuda,
        nccl=(loaded or [""])[0] or facts.python.nccl,
        worst="error" if one.lost is not None else next((level for level in ORDER if level in levels), None),
        unknown=subject.exam.unknown if subject.exam is not None else {},
    )


def _empty_row(one: NodeRecord) -> Examined:
    return Examined(
        node=one.name, node_rank=one.node_rank, host=one.host, lost=one.lost.message if one.lost else "", worst="error"
    )


def _finding(one: NodeRecord, hostname: str, problem: Problem) -> DoctorFinding:
    kind = KINDS[problem.code]
    return DoctorFinding(
        node=one.name,
        node_rank=one.node_rank,
        host=one.host,
        hostname=hostname,
        id=problem.code,
        level=problem.level,
        title=kind.title,
        evidence=problem.message,
        cause=kind.cause,
        fix=problem.fix,
    )
