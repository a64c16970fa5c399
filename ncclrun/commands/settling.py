"""A chosen network made whole: RDMA, the variables that come of it, and the confirmation by the nodes and by NCCL."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ncclrun.commands.confirmation import Confirmation
from ncclrun.commands.findings import Finding
from ncclrun.commands.nodesettings import Settings, settings_of
from ncclrun.commands.survey import Participant, Survey
from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.events import Event, Warn
from ncclrun.model.facts import NodeFacts
from ncclrun.model.netevents import Judged, Resolved
from ncclrun.model.plan import Endpoint, NodePlan, Variable
from ncclrun.model.secrets import value_shown
from ncclrun.model.words import listed
from ncclrun.nccl.effective import effective, node_layers
from ncclrun.nccl.version import parse
from ncclrun.planning.delivery import run_conf, split
from ncclrun.planning.environment import network_variables, node_environment
from ncclrun.planning.network import Choice, Note, Verdict
from ncclrun.planning.planner import files_read
from ncclrun.planning.rdma import plan_rdma
from ncclrun.planning.shown import run_settings


@dataclass(frozen=True)
class Settled:
    """Endpoints with everything that is known of them, and what was found against them."""

    endpoints: tuple[Endpoint, ...]
    findings: tuple[Finding, ...]


def with_rdma(
    participants: Sequence[Participant], endpoints: Sequence[Endpoint], environments: Sequence[Sequence[Variable]]
) -> tuple[tuple[Endpoint, ...], tuple[Note, ...]]:
    """The endpoints with their HCAs, as far as they are to be set. Raises PlanError for a mixed cluster.

    What the workers will have counts, and below it what the node itself sets (login environment, conf files).
    """
    plan = plan_rdma(
        [one.node for one in participants],
        [one.facts for one in participants],
        endpoints,
        [_values(one.facts, environment) for one, environment in zip(participants, environments, strict=True)],
    )
    return tuple(replace(e, hca=hca) for e, hca in zip(endpoints, plan.hcas, strict=True)), plan.notes


def _values(facts: NodeFacts, environment: Sequence[Variable]) -> dict[str, str]:
    """What NCCL would take there, by name."""
    layers = node_layers(run_settings(environment), facts.settings, parse(facts.python.nccl))
    return {name: one.value for name, one in effective(layers).items()}


def whole(
    ones: Sequence[Participant], choice: Choice, cluster: ClusterSpec, environ: Mapping[str, str]
) -> Generator[Event, None, tuple[Endpoint, ...]]:
    """The choice with its HCAs, as the cluster file has it whatever the job, and told. Raises as ``with_rdma``."""
    variables = [variables_of(cluster, one, e, environ) for one, e in zip(ones, choice.endpoints, strict=True)]
    endpoints, notes = with_rdma(ones, choice.endpoints, variables)
    yield from told(ones, endpoints, (*choice.notes, *notes))
    return endpoints


def settle(
    survey: Survey, choice: Choice, cluster: ClusterSpec, environ: Mapping[str, str]
) -> Generator[Event, None, Settled]:
    """For commands without a job: the choice, told and confirmed with the variables that the cluster file gives."""
    endpoints = yield from whole(survey.participants, choice, cluster, environ)
    settings = [settings_for(cluster, one, e, environ) for one, e in zip(survey.participants, endpoints, strict=True)]
    findings = yield from Confirmation(survey, endpoints, settings, cluster.source).events()
    return Settled(endpoints=endpoints, findings=findings)


def settings_for(
    cluster: ClusterSpec, one: Participant, endpoint: Endpoint | None, environ: Mapping[str, str]
) -> Settings:
    """What the cluster file would have this node's NCCL go by, whatever the job.

    That it can't reach NCCL by `nccl.deliver`, or was not pushed yet, is a warning as long as nothing is started.
    """
    deliver = cluster.nccl.deliver
    delivered = split(deliver, variables_of(cluster, one, endpoint, environ))
    conf = run_conf(delivered.file, files_read(one.facts), one.node.name) if deliver == "file" else None
    settings = settings_of(one, deliver, delivered, cluster.source, conf=conf)
    return replace(settings, refused=tuple(replace(problem, level="warning") for problem in settings.refused))


def told(participants: Sequence[Participant], endpoints: Sequence[Endpoint], notes: Sequence[Note]) -> Iterator[Event]:
    """The choice as events, and what the user should know about it."""
    for one, endpoint in zip(participants, endpoints, strict=True):
        yield Resolved(
            node=one.node.name,
            node_rank=one.node_rank,
            interface=endpoint.interface,
            address=endpoint.address,
            why=endpoint.why,
            hca=endpoint.hca,
        )
    for note in notes:
        yield Warn(node=note.node, text=note.text, fix=note.fix)


def overridden(nodes: Sequence[NodePlan], refuted: Collection[int]) -> Iterator[Event]:
    """Variables of the user's that go over what the network choice found: meant, perhaps, but never in silence.

    Of those on the nodes in ``refuted`` NCCL's own are told already.
    """
    over: dict[tuple[str, str, str], dict[str, str]] = {}
    for node in nodes:
        found = network_variables(node.endpoint)
        for variable in node.variables:
            name, value = variable.name, value_shown(variable.name, variable.value, variable.secret)
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


def judged(participants: Sequence[Participant], table: Sequence[Sequence[Verdict]]) -> Iterator[Event]:
    """Every candidate with its verdict."""
    for one, row in zip(participants, table, strict=True):
        for verdict in row:
            yield Judged(
                node=one.node.name,
                node_rank=one.node_rank,
                interface=verdict.candidate.interface,
                address=verdict.candidate.address,
                prefix=verdict.candidate.prefix,
                verdict=verdict.verdict,
                reason=verdict.reason,
            )


def variables_of(
    cluster: ClusterSpec, one: Participant, endpoint: Endpoint | None, environ: Mapping[str, str]
) -> tuple[Variable, ...]:
    """The variables that the cluster file gives a node, whatever the job; without an endpoint those of no network."""
    forwarded = {name: environ[name] for name in one.node.launch.forward_env if name in environ}
    return node_environment(one.node, cluster.nccl, endpoint, forwarded=forwarded, options={})
