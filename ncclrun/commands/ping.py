"""`ncclrun ping`: is every node reachable and fit, which network joins them, and how fast is it?"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace

from ncclrun.commands.bandwidth import Measurement, failures, measure, measure_again
from ncclrun.commands.control import Control
from ncclrun.commands.findings import Finding, problem_of
from ncclrun.commands.settling import judged, settle
from ncclrun.commands.survey import Survey
from ncclrun.commands.visit import Visit
from ncclrun.diagnosis.checks.across import cluster_problems
from ncclrun.diagnosis.checks.registry import node_problems
from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import PlanError
from ncclrun.model.events import Connected, Event, Failure, Unreachable
from ncclrun.model.facts import NodeFacts
from ncclrun.model.netevents import Pinged, Problem
from ncclrun.model.plan import Endpoint
from ncclrun.planning.network import Choice, choose, judged_without_choice
from ncclrun.transport.base import Transport

EXIT_UNFIT = 1


@dataclass(frozen=True)
class Bandwidth:
    """That throughput is to be measured: seconds for each direction of a pair; ``deep`` tells nodes from links."""

    seconds: float
    streams: int
    deep: bool


class Ping:
    """One `ping`; ``events`` is the whole of it."""

    def __init__(
        self,
        cluster: ClusterSpec,
        transport: Transport,
        control: Control,
        environ: Mapping[str, str],
        *,
        bandwidth: Bandwidth | None = None,
    ) -> None:
        self._cluster = cluster
        self._control = control
        self._environ = environ
        self._bandwidth = bandwidth
        self._visit = Visit(cluster, transport, control)
        self._problems: dict[int, list[Problem]] = {}
        self._endpoints: dict[int, Endpoint] = {}

    def events(self) -> Iterator[Event]:
        """Connected as they come, the network, a Pinged for each node, Ended: exit code 1 when any node is not fit."""
        began = time.monotonic()
        with self._visit as visit:
            for event in visit.events():
                yield unreachable_row(event) if isinstance(event, Unreachable) else event
            self._look()
            alone = len(visit.facts) == 1 < len(self._cluster.nodes)  # it would take its loopback
            if visit.facts and not alone:
                yield from self._network()
            rows = [self._row(rank) for rank in sorted(visit.facts)]
            yield from rows
            lost = [rank for rank in visit.lost if rank in visit.connected and rank not in visit.facts]
            yield from (self._lost_row(rank) for rank in sorted(lost))
        unfit = set(visit.lost) | {row.node_rank for row in rows if not row.fit}
        names = ", ".join(self._cluster.nodes[rank].name for rank in sorted(unfit))
        yield Ended(
            run_id="",
            exit_code=EXIT_UNFIT if unfit else 0,
            reason=f"not fit: {names}" if unfit else "all nodes are fit",
            seconds=time.monotonic() - began,
        )

    def _look(self) -> None:
        """What is wrong with each node for itself, and beside the others."""
        ones = self._visit.participants
        differing = cluster_problems([one.node for one in ones], [one.facts for one in ones])
        for one, differs in zip(ones, differing, strict=True):
            self._problems[one.node_rank] = [*node_problems(one.node, one.facts), *differs]

    def _network(self) -> Iterator[Event]:
        """Tries everything, chooses, confirms and, if asked, measures."""
        survey = part = Survey(self._visit.participants, self._control)
        try:
            joined = yield from self._joined(survey)
            if joined is not None:
                part, choice = joined
                settled = yield from settle(part, choice, self._cluster, self._environ)
                for one, endpoint in zip(part.participants, settled.endpoints, strict=True):
                    self._endpoints[one.node_rank] = endpoint
                self._take(settled.findings)
                if self._bandwidth is not None:
                    yield from self._measure(part, settled.endpoints, self._bandwidth)
        except PlanError as error:
            yield from self._failure(error)
        finally:
            survey.close()
        failed = {one.ranks[at]: failure for one in (survey, part) for at, failure in one.failed.items()}
        for rank, failure in failed.items():
            self._problems[rank].append(problem_of(failure))

    def _joined(self, survey: Survey) -> Generator[Event, None, tuple[Survey, Choice] | None]:
        """The choice for all; where there is none, for all but those who keep the others from it. All are judged."""
        try:
            choice = yield from survey.choose(everything=True)
        except PlanError as error:
            rows = list(judged_without_choice(survey.nodes, survey.facts, survey.evidence))
            joined = yield from self._without(survey, error.nodes)
            if joined is not None:
                for rank, row in zip(joined[0].ranks, joined[1].table, strict=True):
                    rows[survey.places[rank]] = row
            yield from judged(survey.participants, rows)
            yield from self._failure(error, alone=joined is None and len(survey.nodes) - len(error.nodes) > 1)
            return joined
        yield from judged(survey.participants, choice.table)
        return survey, choice

    def _without(self, survey: Survey, names: tuple[str, ...]) -> Generator[Event, None, tuple[Survey, Choice] | None]:
        """The choice for all but these; None if there is nobody to leave out, or what is left has none either."""
        others = [at for at, one in enumerate(survey.participants) if one.node.name not in names]
        if not names or len(others) < 2:
            return None
        part = survey.part(others)
        try:
            if part.evidence is None:  # what they were left out for was seen before anything was tried
                return part, (yield from part.choose(everything=True))
            return part, choose(part.nodes, part.facts, part.evidence)
        except PlanError:
            return None  # the first failure is told

    def _failure(self, error: PlanError, *, alone: bool = False) -> Iterator[Event]:
        """No network: told once, and noted at the nodes to blame; at all where that is nobody, or ``alone``: without
        them the others have none either."""
        yield Failure(message=error.message, fix=error.fix, exit_code=EXIT_UNFIT)
        for rank, problems in self._problems.items():
            if alone or not error.nodes or self._cluster.nodes[rank].name in error.nodes:
                problems.append(
                    Problem(code="network", message="no network joins it to all others (see above)", fix=error.fix)
                )

    def _measure(self, survey: Survey, endpoints: tuple[Endpoint, ...], wanted: Bandwidth) -> Iterator[Event]:
        measurement = Measurement(survey, endpoints, self._control, seconds=wanted.seconds, streams=wanted.streams)
        yield from measure(measurement)
        if wanted.deep:
            self._take((yield from measure_again(measurement)))
        else:
            self._take(failures(measurement))

    def _take(self, findings: tuple[Finding, ...]) -> None:
        for finding in findings:
            self._problems[finding.node_rank].append(finding.problem)

    def _row(self, rank: int) -> Pinged:
        connected, facts, endpoint = self._visit.connected[rank], self._visit.facts[rank], self._endpoints.get(rank)
        problems = tuple(self._problems[rank])
        return replace(
            _told(connected, facts),
            fit=not any(problem.level == "error" for problem in problems),
            interface=endpoint.interface if endpoint else "",
            address=endpoint.address if endpoint else "",
            problems=problems,
        )

    def _lost_row(self, rank: int) -> Pinged:
        """A node that was reached and did not tell its facts."""
        connected = self._visit.connected[rank]
        return Pinged(
            node=connected.node,
            node_rank=rank,
            host=connected.host,
            fit=False,
            seconds=connected.seconds,
            hostname=connected.hostname,
            problems=(self._visit.lost[rank],),
        )


def unreachable_row(event: Unreachable) -> Pinged:
    """The row of a host that does not answer."""
    problem = Problem(code=event.reason, message=event.message, fix=event.fix)
    return Pinged(node=event.node, node_rank=event.node_rank, host=event.host, fit=False, problems=(problem,))


def _told(connected: Connected, facts: NodeFacts) -> Pinged:
    return Pinged(
        node=connected.node,
        node_rank=connected.node_rank,
        host=connected.host,
        fit=True,
        seconds=connected.seconds,
        hostname=facts.hostname,
        gpus=tuple(gpu.name for gpu in facts.gpus),
        python=facts.python.version,
        torch=facts.python.torch,
        nccl=facts.python.nccl,
        clock_offset=facts.clock_offset,
    )
