"""All checks: the quick ones, which `launch` and `ping` make, and all of them, for `doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ncclrun.diagnosis import guards
from ncclrun.diagnosis.checks import across, driver, firewall, gpus, host, libraries, login, network, topology, training
from ncclrun.diagnosis.checks.kind import Kind
from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.model.cluster import Node
from ncclrun.model.facts import NodeFacts
from ncclrun.model.netevents import Problem

AREAS = {
    "Python and torch": training.KINDS,
    "libraries": libraries.KINDS,
    "GPUs": (*driver.KINDS, *gpus.KINDS, *topology.KINDS),
    "the machine": host.KINDS,
    "the network": (*firewall.KINDS, *network.KINDS),
    "the login": login.KINDS,
    "between nodes": across.KINDS,
    "who is in the way": guards.KINDS,
}
KINDS: dict[str, Kind] = {kind.id: kind for area in AREAS.values() for kind in area}
"""By id."""

Check = Callable[[Subject], Iterator[Problem]]
QUICK: tuple[Check, ...] = (
    training.python,
    training.build,
    host.disk,
    host.limits,
    login.stale,
    host.clock,
    gpus.wanted,
    gpus.there,
    driver.answers,
)
"""They need the facts alone."""
THOROUGH: tuple[Check, ...] = (
    training.started,
    libraries.missing,
    libraries.several,
    libraries.forced,
    libraries.others,
    gpus.health,
    topology.between_gpus,
    topology.to_network,
    driver.xids,
    driver.logged,
    host.temporary,
    host.shared_memory,
    host.usual_limits,
    host.address_space,
    host.clock_kept,
    host.memory,
    host.processors,
    host.policies,
    firewall.firewall,
    network.cards,
    network.rdma,
    network.ports,
    network.names,
    login.shell,
    login.settings,
)
OF_TORCH = frozenset(kind.id for kind in training.KINDS)
"""They do not concern a run without torch."""


def node_problems(node: Node, facts: NodeFacts, *, torch_needed: bool = True) -> tuple[Problem, ...]:
    """What is wrong with one node by itself, by the quick checks."""
    found = (problem for check in QUICK for problem in check(Subject(node, facts)))
    return tuple(problem for problem in found if torch_needed or problem.code not in OF_TORCH)


def all_problems(subjects: Sequence[Subject]) -> list[list[Problem]]:
    """What all checks find, a list for each."""
    found = [[problem for check in (*QUICK, *THOROUGH) for problem in check(one)] for one in subjects]
    for one, row in zip(subjects, found, strict=True):
        used = one.facts.gpus if one.node.gpus is None else [g for g in one.facts.gpus if g.index in one.node.gpus]
        row.extend(guards.crowding(used, one.facts))
        row.extend(guards.left_over(left) for left in one.facts.leftovers)
    differing = across.cluster_problems([one.node for one in subjects], [one.facts for one in subjects])
    for row, problems in zip(found, differing, strict=True):
        row.extend(problems)
    for place, problem in (*across.mtus(subjects), *across.proxies(subjects)):
        found[place].append(problem)
    return [list(dict.fromkeys(row)) for row in found]
