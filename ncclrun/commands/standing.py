"""What every node's NCCL goes by as things stand, with the settings that a run of this cluster would give it."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace

from ncclrun.commands.control import Control
from ncclrun.commands.findings import problem_of
from ncclrun.commands.nodesettings import Settings, ask_all, delivery_problems, values_of
from ncclrun.commands.settling import settings_for, whole
from ncclrun.commands.survey import Participant, Survey
from ncclrun.commands.visit import Visit
from ncclrun.diagnosis.settings import NodeValues
from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.errors import NcclrunError, PlanError
from ncclrun.model.events import Event, Warn
from ncclrun.model.netevents import Problem
from ncclrun.model.plan import Endpoint
from ncclrun.nccl.version import Version


@dataclass(frozen=True)
class Standing:
    """A node with the settings that count there, and what keeps the cluster file's from counting."""

    one: Participant
    settings: Settings
    values: NodeValues
    problems: tuple[Problem, ...]


def standings(
    visit: Visit,
    control: Control,
    cluster: ClusterSpec,
    environ: Mapping[str, str],
    version: Version | None = None,
) -> Generator[Event, None, list[Standing]]:
    """In order of node_rank; nodes that were lost on the way are noted in the visit. Raises Interrupted.

    ``version`` is taken for the nodes' own where it is given.
    """
    ones = visit.participants
    settings = yield from _settings(ones, control, cluster, environ)
    found: dict[int, Standing] = {}
    for at, answer in ask_all(dict(enumerate(zip(ones, settings, strict=True))), control):
        one, own = ones[at], settings[at]
        if isinstance(answer, NcclrunError):
            visit.lost[one.node_rank] = problem_of(answer)
            continue
        values = values_of(one, own, answer, version)
        found[at] = Standing(one, own, values, tuple(delivery_problems(own, values)))
    return [found[at] for at in sorted(found)]


def _settings(
    ones: Sequence[Participant], control: Control, cluster: ClusterSpec, environ: Mapping[str, str]
) -> Generator[Event, None, list[Settings]]:
    """As a run would set them; where no network joins the nodes, without what the network choice would add."""
    endpoints: Sequence[Endpoint | None] = [None] * len(ones)
    survey = Survey(ones, control)
    try:
        # One node of several would take its loopback.
        if len(ones) > 1 or len(ones) == len(cluster.nodes):
            choice = yield from survey.choose()
            endpoints = yield from whole(ones, choice, cluster, environ)
    except PlanError as error:
        yield Warn(text=f"what the network choice would set is left out, for {error.message}", fix=error.fix)
    finally:
        survey.close()
    return [_as_it_stands(settings_for(cluster, one, e, environ)) for one, e in zip(ones, endpoints, strict=True)]


def _as_it_stands(settings: Settings) -> Settings:
    """What was not pushed yet does not count, though a run would be asked for with it."""
    if settings.deliver not in ("user", "system"):
        return settings
    return replace(settings, environment=tuple(one for one in settings.environment if one not in settings.file))
