"""`ncclrun nccl show`: what NCCL will go by on every node, from where, what that hides, and where nodes differ."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from ncclrun.commands.control import Control
from ncclrun.commands.findings import Finding, findings_told
from ncclrun.commands.standing import Standing, standings
from ncclrun.commands.visit import Visit
from ncclrun.diagnosis.settings import NodeValues, across, findings
from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.effective import Effective
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import EXIT_UNREACHABLE
from ncclrun.model.events import Event
from ncclrun.model.secrets import finding_shown
from ncclrun.model.settingevents import SettingDiffers, SettingFound, SettingsSeen
from ncclrun.nccl.catalogue.names import KNOWN
from ncclrun.nccl.effective import differences
from ncclrun.nccl.version import shown
from ncclrun.planning.shown import masked, masked_difference
from ncclrun.transport.base import Transport


def show_nccl(
    cluster: ClusterSpec, transport: Transport, control: Control, environ: Mapping[str, str], *, defaults: bool = False
) -> Iterator[Event]:
    """Settings of each node as a run of this cluster would have them; ``defaults``: also of what nobody sets."""
    began = time.monotonic()
    with Visit(cluster, transport, control) as visit:
        yield from visit.events()
        seen = yield from standings(visit, control, cluster, environ)
        yield from (_seen(one, defaults=defaults) for one in seen)
        yield from _judged([one.values for one in seen])
        found = [Finding(one.one.node_rank, problem) for one in seen for problem in one.problems]
        lost = [Finding(rank, problem) for rank, problem in visit.lost.items() if rank in visit.connected]
        yield from findings_told(cluster.nodes, sorted([*found, *lost], key=lambda one: one.node_rank))
        names = ", ".join(cluster.nodes[rank].name for rank in sorted(visit.lost))
    yield Ended(
        run_id="",
        exit_code=EXIT_UNREACHABLE if names else 0,
        reason=f"no answer from {names}" if names else "the settings were read",
        seconds=time.monotonic() - began,
    )


def _seen(standing: Standing, *, defaults: bool) -> SettingsSeen:
    one, settings, values = standing.one, standing.settings, standing.values
    known = [*values.values.values(), *(_defaults(values) if defaults else ())]
    return SettingsSeen(
        node=one.node.name,
        node_rank=one.node_rank,
        nccl=shown(values.version) if values.version else "",
        files=tuple(file.path for file in values.files if file.text is not None),
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
        yield from (SettingFound(node=node.node, finding=finding_shown(one)) for one in findings(node))
    yield from (SettingFound(node=None, finding=finding_shown(one)) for one in across(nodes))
