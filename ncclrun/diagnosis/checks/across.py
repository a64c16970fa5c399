"""What differs between nodes and should not: told of those in the minority."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ncclrun.diagnosis.checks.kind import Kind
from ncclrun.diagnosis.checks.network import MTU_DIFFERS
from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.diagnosis.names import proxy_problem
from ncclrun.model.cluster import Node
from ncclrun.model.facts import NodeFacts
from ncclrun.model.netevents import Problem

DIFFERS = Kind(
    id="differs",
    title="not all nodes have the same",
    symptom="NCCL: `invalid argument`, `mismatched versions`; results that differ; a run as slow as its slowest node.",
    cause="One host was updated and the others not, or the hosts never were alike.",
    cure="The same torch, NCCL and Python everywhere; different GPUs and drivers are allowed, and slow.",
    launch=True,
)
SHARED_GPUS = Kind(
    id="shared_gpus",
    title="two nodes of the cluster file are one machine and take the same GPUs",
    symptom="NCCL: `Duplicate GPU detected`.",
    cause="A host stands in the file twice, under two names or ports.",
    cure="Give each of these nodes its own with `gpus`.",
    launch=True,
)
KINDS = (DIFFERS, SHARED_GPUS)
MEANT = {
    "GPU count": "nothing, if that is meant: ranks are numbered through",
    "GPU": "nothing, if that is meant: the fastest wait for the slowest",
    "driver": "update the driver of the older ones",
}


def cluster_problems(nodes: Sequence[Node], facts: Sequence[NodeFacts]) -> tuple[tuple[Problem, ...], ...]:
    """One tuple a node."""
    found: list[list[Problem]] = [[] for _ in nodes]
    versions = {
        "torch": [fact.python.torch.split("+")[0] for fact in facts],
        "NCCL": [fact.python.nccl for fact in facts],
        "Python": [".".join(fact.python.version.split(".")[:2]) for fact in facts],
        "driver": [fact.driver for fact in facts],
        "GPU": [" and ".join(sorted({gpu.name for gpu in fact.gpus})) for fact in facts],
        "GPU count": [str(fact.visible_gpus) for fact in facts],
    }
    for what, values in versions.items():
        for place, usual, holder in odd_ones(values):
            message = f"{what} {values[place]} here, {usual} on {nodes[holder].name}"
            found[place].append(DIFFERS.found(message, MEANT.get(what, "give all nodes the same one")))
    for row, problem in zip(found, _shared_gpus(nodes, facts), strict=True):
        row.extend(problem)
    return tuple(tuple(row) for row in found)


def odd_ones(values: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """(place, what most have, the place of one who has that) for each that has something else; "" is not known."""
    counts = Counter(value for value in values if value)
    if len(counts) > 1:
        usual, _ = counts.most_common(1)[0]
        for place, value in enumerate(values):
            if value and value != usual:
                yield place, usual, values.index(usual)


def mtus(subjects: Sequence[Subject]) -> Iterator[tuple[int, Problem]]:
    """(place, problem) of interfaces of the run's network whose MTU is another one."""
    values = ["" if one.interface is None else str(one.interface.mtu) for one in subjects]
    for place, usual, holder in odd_ones(values):
        interface = subjects[place].interface
        assert interface is not None
        message = f"{interface.name} has MTU {interface.mtu}, {usual} on {subjects[holder].name}"
        fix = subjects[place].there(f"sudo ip link set {interface.name} mtu {usual}") + "   (if the switch agrees)"
        yield place, MTU_DIFFERS.found(message, fix)


def proxies(subjects: Sequence[Subject]) -> Iterator[tuple[int, Problem]]:
    """(place, problem) of logins that would send what is meant for another node to a proxy."""
    addresses = [
        one.interface.addresses[0].address if one.interface is not None and one.interface.addresses else one.node.host
        for one in subjects
    ]
    for place, one in enumerate(subjects):
        problem = proxy_problem(one.name, one.facts.proxies, addresses)
        if problem is not None:
            yield place, problem


def _shared_gpus(nodes: Sequence[Node], facts: Sequence[NodeFacts]) -> Iterator[list[Problem]]:
    """For each node what it says of GPUs that an earlier node on the same machine takes too."""
    taken: dict[tuple[str, int], str] = {}
    for node, fact in zip(nodes, facts, strict=True):
        own = range(fact.visible_gpus) if node.gpus is None else node.gpus
        twice = [index for index in own if (fact.machine, index) in taken]
        taken.update({(fact.machine, index): node.name for index in own if index not in twice})
        message = f"it is on one machine with {taken[fact.machine, twice[0]]} and takes the same GPUs" if twice else ""
        told = f"{message} ({', '.join(map(str, twice))}): NCCL refuses two ranks on one GPU"
        yield [SHARED_GPUS.found(told, "give each of these nodes its own:  gpus: [0]")] if twice else []
