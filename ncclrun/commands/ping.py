"""`ncclrun ping`: is every node reachable and fit, and which interface would it use?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

from ncclrun.commands.control import Control
from ncclrun.commands.probe import Inbox, ask_facts, connect, inbox_sink
from ncclrun.diagnosis.checks import cluster_problems, node_problems
from ncclrun.model.cluster import ClusterSpec, Node
from ncclrun.model.errors import HostError, NcclrunError, PlanError
from ncclrun.model.events import Connected, Ended, Event, Failure, Pinged, Problem, Unreachable
from ncclrun.model.facts import NodeFacts
from ncclrun.model.plan import Endpoint
from ncclrun.planning.network import choose_endpoints
from ncclrun.transport.base import Transport
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session

EXIT_UNFIT = 1


def ping(cluster: ClusterSpec, transport: Transport, control: Control) -> Iterator[Event]:
    """Connected as they come, a Pinged for each node, then Ended: exit code 1 when any node is not fit."""
    began = time.monotonic()
    sessions: dict[int, Session] = {}
    connected: dict[int, Connected] = {}
    rows: dict[int, Pinged] = {}
    inbox = Inbox()
    nodes = cluster.nodes
    try:
        for event in connect(nodes, transport, inbox_sink(nodes, inbox), control, sessions):
            if isinstance(event, Connected):
                connected[event.node_rank] = event
                yield event
            elif isinstance(event, Unreachable):
                rows[event.node_rank] = unreachable_row(event)
                yield rows[event.node_rank]
        facts: dict[int, NodeFacts] = {}

        def question(rank: int, session: Session) -> NodeFacts:
            return ask_facts(session, nodes[rank].launch.python)

        for rank, answer in for_all(sessions, question, cancelled=control.stopped):
            if isinstance(answer, NcclrunError):
                reason = answer.reason if isinstance(answer, HostError) else "refused"
                rows[rank] = _row(nodes[rank], rank, connected[rank], (_problem(reason, answer),))
                yield rows[rank]
            else:
                facts[rank] = answer
        control.check()
        endpoints, failure = _endpoints(nodes, facts)
        if failure is not None:
            yield Failure(message=failure.message, fix=failure.fix, exit_code=EXIT_UNFIT)
        for row in _fit_rows(nodes, facts, connected, endpoints, failure):
            rows[row.node_rank] = row
            yield row
    finally:
        for session in sessions.values():
            session.close()
    unfit = [row.node for _, row in sorted(rows.items()) if not row.fit]
    yield Ended(
        run_id="",
        exit_code=EXIT_UNFIT if unfit else 0,
        reason=f"not fit: {', '.join(unfit)}" if unfit else "all nodes are fit",
        seconds=time.monotonic() - began,
    )


def unreachable_row(event: Unreachable) -> Pinged:
    """The row of a host that does not answer."""
    problem = Problem(code=event.reason, message=event.message, fix=event.fix)
    return Pinged(node=event.node, node_rank=event.node_rank, host=event.host, fit=False, problems=(problem,))


def _endpoints(nodes: tuple[Node, ...], facts: dict[int, NodeFacts]) -> tuple[dict[int, Endpoint], PlanError | None]:
    """The choice among the nodes that answered, or why there is none, and then that among those not to blame."""
    failure: PlanError | None = None
    ranks = sorted(facts)
    if len(ranks) < len(nodes) and len({fact.machine for fact in facts.values()}) < 2:
        return {}, None  # alone it would take its loopback, which it will not once the others are there
    while ranks:
        try:
            chosen = choose_endpoints([nodes[rank] for rank in ranks], [facts[rank] for rank in ranks])
        except PlanError as error:
            if failure is not None or not error.nodes:
                return {}, failure or error
            failure = error
            ranks = [rank for rank in ranks if nodes[rank].name not in error.nodes]
        else:
            return dict(zip(ranks, chosen, strict=True)), failure
    return {}, failure


def _fit_rows(
    nodes: tuple[Node, ...],
    facts: dict[int, NodeFacts],
    connected: dict[int, Connected],
    endpoints: dict[int, Endpoint],
    failure: PlanError | None,
) -> Iterator[Pinged]:
    ranks = sorted(facts)
    differing = cluster_problems([nodes[rank] for rank in ranks], [facts[rank] for rank in ranks])
    for rank, differs in zip(ranks, differing, strict=True):
        problems = [*node_problems(nodes[rank], facts[rank]), *differs]
        if failure is not None and rank not in endpoints:
            problems.append(
                Problem(code="network", message="no network joins it to the others (see above)", fix=failure.fix)
            )
        yield _row(nodes[rank], rank, connected[rank], tuple(problems), facts[rank], endpoints.get(rank))


def _row(
    node: Node,
    rank: int,
    connected: Connected,
    problems: tuple[Problem, ...],
    facts: NodeFacts | None = None,
    endpoint: Endpoint | None = None,
) -> Pinged:
    fit = not any(problem.level == "error" for problem in problems)
    row = Pinged(
        node=node.name,
        node_rank=rank,
        host=node.host,
        fit=fit,
        seconds=connected.seconds,
        hostname=connected.hostname,
        problems=problems,
    )
    if facts is None:
        return row
    return replace(
        row,
        hostname=facts.hostname,
        interface=endpoint.interface if endpoint else "",
        address=endpoint.address if endpoint else "",
        gpus=tuple(gpu.name for gpu in facts.gpus),
        python=facts.python.version,
        torch=facts.python.torch,
        nccl=facts.python.nccl,
        clock_offset=facts.clock_offset,
    )


def _problem(reason: str, error: NcclrunError) -> Problem:
    return Problem(code=reason, message=error.message, fix=error.fix)
