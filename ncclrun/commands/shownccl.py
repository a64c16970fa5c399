"""`ncclrun nccl show`: what NCCL will go by on every node, from where, what that hides, and where nodes differ."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence

from ncclrun.commands.control import Control
from ncclrun.commands.findings import Finding, findings_told, problem_of
from ncclrun.commands.nodesettings import Settings, ask_nccl, delivery_problems, values_of
from ncclrun.commands.settling import settings_for, told, variables_of, with_rdma
from ncclrun.commands.survey import WORKERS, Participant, Survey
from ncclrun.commands.visit import Visit
from ncclrun.diagnosis.settings import NodeValues, across, findings
from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.effective import Effective
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import EXIT_UNREACHABLE, NcclrunError, PlanError
from ncclrun.model.events import Event, Warn
from ncclrun.model.network import NcclAnswer
from ncclrun.model.plan import Endpoint
from ncclrun.model.settingevents import SettingDiffers, SettingFound, SettingsSeen
from ncclrun.nccl.catalogue.names import KNOWN
from ncclrun.nccl.effective import differences
from ncclrun.nccl.version import shown
from ncclrun.planning.shown import masked, masked_difference, masked_finding
from ncclrun.transport.base import Transport
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session


def show_nccl(
    cluster: ClusterSpec, transport: Transport, control: Control, environ: Mapping[str, str], *, defaults: bool = False
) -> Iterator[Event]:
    """Settings of each node as a run of this cluster would have them; ``defaults``: also of what nobody sets."""
    began = time.monotonic()
    with Visit(cluster, transport, control) as visit:
        yield from visit.events()
        ones = visit.participants
        settings = yield from _settings(ones, control, cluster, environ)
        values: dict[int, NodeValues] = {}
        found: list[Finding] = []
        for at, answer in _answers(ones, settings, control):
            if isinstance(answer, NcclrunError):
                visit.lost[ones[at].node_rank] = problem_of(answer)
                continue
            values[at] = values_of(ones[at], settings[at], answer)
            problems = delivery_problems(settings[at], values[at])
            found += [Finding(ones[at].node_rank, problem) for problem in problems]
        seen = [(ones[at], settings[at], values[at]) for at in sorted(values)]
        yield from (_seen(*one, defaults=defaults) for one in seen)
        yield from _judged([node for _, _, node in seen])
        lost = [Finding(rank, problem) for rank, problem in visit.lost.items() if rank in visit.connected]
        yield from findings_told(cluster.nodes, sorted([*found, *lost], key=lambda one: one.node_rank))
        names = ", ".join(cluster.nodes[rank].name for rank in sorted(visit.lost))
    yield Ended(
        run_id="",
        exit_code=EXIT_UNREACHABLE if names else 0,
        reason=f"no answer from {names}" if names else "these settings count",
        seconds=time.monotonic() - began,
    )


def _settings(
    ones: Sequence[Participant], control: Control, cluster: ClusterSpec, environ: Mapping[str, str]
) -> Generator[Event, None, list[Settings]]:
    """As a run would set them; where no network joins the nodes, without what the network choice would add."""
    endpoints: Sequence[Endpoint | None] = [None] * len(ones)
    survey = Survey(ones, control)
    try:
        # One node of several would take its loopback.
        if len(ones) > 1 or len(cluster.nodes) == 1:
            choice = yield from survey.choose()
            variables = [variables_of(cluster, one, e, environ) for one, e in zip(ones, choice.endpoints, strict=True)]
            endpoints, notes = with_rdma(ones, choice.endpoints, variables)
            yield from told(ones, endpoints, (*choice.notes, *notes))
    except PlanError as error:
        yield Warn(text=f"what the network choice would set is left out, for {error.message}", fix=error.fix)
    finally:
        survey.close()
    return [settings_for(cluster, one, e, environ) for one, e in zip(ones, endpoints, strict=True)]


def _answers(
    ones: Sequence[Participant], settings: Sequence[Settings], control: Control
) -> Iterator[tuple[int, NcclAnswer | NcclrunError]]:
    """What NCCL itself says, by the node's place, as the answers come. Raises Interrupted."""

    def question(at: int, _session: Session) -> NcclAnswer:
        return ask_nccl(ones[at], settings[at])

    sessions = {at: one.session for at, one in enumerate(ones)}
    yield from for_all(sessions, question, cancelled=control.stopped, workers=WORKERS)
    control.check()


def _seen(one: Participant, settings: Settings, values: NodeValues, *, defaults: bool) -> SettingsSeen:
    known = [*values.values.values(), *(_defaults(values) if defaults else ())]
    return SettingsSeen(
        node=one.node.name,
        node_rank=one.node_rank,
        nccl=shown(values.version) if values.version else "",
        files=tuple(file.path for file in values.files),
        values=masked(known, (*settings.environment, *settings.file)),
    )


def _defaults(values: NodeValues) -> Iterator[Effective]:
    """What NCCL's own variables are where nobody sets them."""
    for name, known in sorted(KNOWN.items()):
        there = known.since is None or values.version is None or known.since <= values.version
        if known.side == "nccl" and known.default is not None and there and name not in values.values:
            yield Effective(name=name, value=known.default, source="default", origin="default")


def _judged(nodes: Sequence[NodeValues]) -> Iterator[Event]:
    """Where the nodes differ, and what is wrong with the settings of each."""
    for difference in differences({node.node: node.values for node in nodes}):
        yield SettingDiffers(nnodes=len(nodes), difference=masked_difference(difference))
    for node in nodes:
        yield from (SettingFound(node=node.node, finding=masked_finding(one)) for one in findings(node))
    yield from (SettingFound(node=None, finding=masked_finding(one)) for one in across(nodes))
