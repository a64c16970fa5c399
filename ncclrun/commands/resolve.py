"""`ncclrun resolve`: which network joins the nodes, which do not, and what proves it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

from ncclrun.commands.control import Control
from ncclrun.commands.findings import Finding, findings_told, problem_of
from ncclrun.commands.settling import judged, settle
from ncclrun.commands.survey import Survey
from ncclrun.commands.visit import Visit
from ncclrun.diagnosis.checks.login import stale
from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.model.cluster import ClusterSpec, Node
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import EXIT_NOT_STARTED, EXIT_UNREACHABLE, EXIT_USAGE, PlanError
from ncclrun.model.events import Event, Failure
from ncclrun.model.netevents import Written
from ncclrun.model.plan import Endpoint
from ncclrun.planning.network import Choice, judged_without_choice
from ncclrun.transport.base import Transport

ONE_MACHINE = "all nodes are one machine, which talks to itself over its loopback: there is no network to prove"
Write = Callable[[Sequence[Node], Sequence[Endpoint]], Written]
"""Puts the choice into the cluster file (`--write`)."""


def resolve(
    cluster: ClusterSpec,
    transport: Transport,
    control: Control,
    environ: Mapping[str, str],
    *,
    write: Write | None = None,
) -> Iterator[Event]:
    """Every candidate is tried, judged and told; the exit code is 0 when one network is proven and nothing is wrong."""
    began = time.monotonic()

    def ended(code: int, reason: str) -> Ended:
        return Ended(run_id="", exit_code=code, reason=reason, seconds=time.monotonic() - began)

    with Visit(cluster, transport, control) as visit:
        yield from visit.events()
        if visit.lost:
            yield from _lost(visit)
            yield ended(EXIT_UNREACHABLE, f"no answer from {_names(cluster, visit.lost)}")
            return
        survey = Survey(visit.participants, control)
        try:
            choice = yield from _chosen(survey)
            settled = yield from settle(survey, choice, cluster, environ)
        except PlanError as error:
            yield Failure(message=error.message, fix=error.fix, exit_code=error.exit_code)
            yield ended(error.exit_code, "no network was found")
            return
        finally:
            survey.close()
        subjects = [(rank, Subject(cluster.nodes[rank], visit.facts[rank])) for rank in sorted(visit.facts)]
        foreign = [Finding(rank, problem) for rank, subject in subjects for problem in stale(subject)]
        yield from findings_told(cluster.nodes, [*foreign, *settled.findings])
        for at, failure in sorted(survey.failed.items()):
            visit.lost[survey.participants[at].node_rank] = problem_of(failure)
        yield from _lost(visit)
        against = {finding.node_rank for finding in settled.findings if finding.problem.level == "error"}
        if visit.lost:
            yield ended(EXIT_UNREACHABLE, f"no answer from {_names(cluster, visit.lost)}")
        elif against:
            yield ended(EXIT_NOT_STARTED, f"the network will not do on {_names(cluster, against)}")
        elif not survey.one_machine:
            if write is not None:
                yield write(cluster.nodes, settled.endpoints)
            yield ended(0, "the network is proven")
        elif write is None:
            yield ended(0, ONE_MACHINE)
        else:  # a loopback in the file would keep the node from all others
            message = f"nothing was written: {ONE_MACHINE}"
            yield Failure(message=message, fix="resolve it together with the other nodes", exit_code=EXIT_USAGE)
            yield ended(EXIT_USAGE, "nothing was written")


def _chosen(survey: Survey) -> Generator[Event, None, Choice]:
    """The choice; every candidate is judged, whether there is one or not."""
    try:
        choice = yield from survey.choose(everything=True)
    except PlanError:
        yield from judged(survey.participants, judged_without_choice(survey.nodes, survey.facts, survey.evidence))
        raise
    yield from judged(survey.participants, choice.table)
    return choice


def _lost(visit: Visit) -> Iterator[Event]:
    """Those that were reached, and lost later; connecting has told the others already."""
    lost = [Finding(rank, problem) for rank, problem in sorted(visit.lost.items()) if rank in visit.connected]
    yield from findings_told(visit.nodes, lost)


def _names(cluster: ClusterSpec, ranks: Iterable[int]) -> str:
    return ", ".join(cluster.nodes[rank].name for rank in sorted(ranks))
