"""Which RDMA ports NCCL shall use (NCCL_IB_HCA), or what it will do by itself; a mix of RDMA and TCP is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ncclrun.model.cluster import Node
from ncclrun.model.errors import PlanError
from ncclrun.model.facts import NodeFacts, RdmaPort
from ncclrun.model.plan import Endpoint
from ncclrun.model.words import listed
from ncclrun.planning.choice.candidates import one_machine
from ncclrun.planning.choice.notes import Note
from ncclrun.planning.interfaces import own_ports, usable_ports

Port = tuple[str, RdmaPort]
"""A port with its device's name."""
MOST_SHOWN = 8
OFF = "nccl: {env: {NCCL_IB_DISABLE: 1}}"
_NUMBER = re.compile(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|[0-9]+)")


@dataclass(frozen=True)
class RdmaPlan:
    """The value of NCCL_IB_HCA for each node ("": it is left alone), and what is to be said."""

    hcas: tuple[str, ...]
    notes: tuple[Note, ...] = ()


def plan_rdma(
    nodes: Sequence[Node],
    facts: Sequence[NodeFacts],
    endpoints: Sequence[Endpoint],
    environments: Sequence[Mapping[str, str]],
) -> RdmaPlan:
    """NCCL_IB_HCA for each node, exactly where every node has active ports on the wire of its endpoint.

    ``environments`` are the variables that the user sets, by node; his NCCL_IB_HCA is left to win. Raises PlanError
    when some nodes would use RDMA and others TCP, or when they have no kind of link in common.
    """
    nothing = RdmaPlan(("",) * len(nodes))
    if one_machine(facts):
        return nothing
    ports = [
        () if is_off(environment) else usable_ports(fact) for fact, environment in zip(facts, environments, strict=True)
    ]
    if not any(ports):
        return nothing
    if not all(ports):
        raise _mixed(nodes, facts, environments, ports)
    layers = [{port.link_layer for _, port in row} for row in ports]
    if not set.intersection(*layers):
        raise _two_layers(nodes, layers)
    if any("NCCL_IB_HCA" in environment for environment in environments):
        return nothing
    rails = [_rails(fact, endpoint, row) for fact, endpoint, row in zip(facts, endpoints, ports, strict=True)]
    reason = _left_alone(nodes, rails)
    if reason:
        return RdmaPlan(nothing.hcas, (Note(None, f"{reason}: {_by_itself(nodes, ports)}", _fix(ports)),))
    return RdmaPlan(tuple("=" + ",".join(_names(row)) for row in rails))


def is_off(environment: Mapping[str, str]) -> bool:
    """Whether these variables keep NCCL from RDMA, read as NCCL reads them: of ``true`` it makes 0, which is no."""
    number = _NUMBER.match(environment.get("NCCL_IB_DISABLE", ""))
    if number is not None and _value(number[2]) != 0:
        return True
    return environment.get("NCCL_NET", "").strip().lower() == "socket"


def _value(digits: str) -> int:
    """As strtoll with base 0 has it: a leading zero is octal, and it stops at the first digit that does not fit."""
    if digits[:2].lower() == "0x":
        return int(digits, 16)
    octal = re.match("0[0-7]*", digits)
    return int(octal[0], 8) if octal else int(digits)


def _rails(fact: NodeFacts, endpoint: Endpoint, ports: Sequence[Port]) -> tuple[Port, ...]:
    """The ports like those on the endpoint's wire (the same link layer and rate): NCCL uses one for each GPU."""
    interface = next((i for i in fact.interfaces if i.name == endpoint.interface), None)
    own = own_ports(fact, interface) if interface is not None else ()
    kinds = {(port.link_layer, port.rate) for _, port in own}
    return tuple((device, port) for device, port in ports if (port.link_layer, port.rate) in kinds)


def _left_alone(nodes: Sequence[Node], rails: Sequence[Sequence[Port]]) -> str:
    """Why NCCL_IB_HCA is not set, "" if it is to be."""
    without = [node.name for node, row in zip(nodes, rails, strict=True) if not row]
    if without:
        return f"no active RDMA port is on the chosen network of {listed(without, MOST_SHOWN)}"
    if len({port.link_layer for row in rails for _, port in row}) > 1:
        return "the ports on the chosen network are InfiniBand on some nodes and Ethernet on others"
    counts = {len(row) for row in rails}
    return (
        f"the nodes have different numbers of such RDMA ports ({min(counts)} to {max(counts)})"
        if len(counts) > 1
        else ""
    )


def _by_itself(nodes: Sequence[Node], ports: Sequence[Sequence[Port]]) -> str:
    """What NCCL uses when nobody tells it; nodes with the same ports are told once."""
    groups: dict[str, list[str]] = {}
    for node, row in zip(nodes, ports, strict=True):
        groups.setdefault(", ".join(_names(row)), []).append(node.name)
    told = [f"{names} on {listed(who)}" for names, who in list(groups.items())[:MOST_SHOWN]]
    return "NCCL_IB_HCA is not set, so NCCL takes all that are active: " + "; ".join(told)


def _fix(ports: Sequence[Sequence[Port]]) -> str:
    common = set.intersection(*({device for device, _ in row} for row in ports))
    example = ",".join(sorted(common)) or "DEVICE"
    return f'to name them:  nccl: {{env: {{NCCL_IB_HCA: "={example}"}}}};  to do without RDMA:  {OFF}'


def _names(ports: Sequence[Port]) -> list[str]:
    return sorted(f"{device}:{port.port}" for device, port in ports)


def _mixed(
    nodes: Sequence[Node],
    facts: Sequence[NodeFacts],
    environments: Sequence[Mapping[str, str]],
    ports: Sequence[Sequence[Port]],
) -> PlanError:
    able = [node.name for node, row in zip(nodes, ports, strict=True) if row]
    lines, unable, mends = [], [], []
    for node, fact, environment, row in zip(nodes, facts, environments, ports, strict=True):
        if not row:
            why, mend = _why_not(fact, environment)
            lines.append(f"  {node.name}: {why}")
            unable.append(node.name)
            mends.append(f"on {node.name}: {mend}" if mend else "")
    return PlanError(
        f"NCCL would use RDMA on {listed(able, MOST_SHOWN)} and TCP on {listed(unable, MOST_SHOWN)}, and fail:\n"
        + "\n".join(lines[:MOST_SHOWN]),
        fix=(next(filter(None, mends), "") + ";  or do without it on all nodes:  " + OFF).removeprefix(";  or "),
        nodes=tuple(unable),
    )


def _why_not(fact: NodeFacts, environment: Mapping[str, str]) -> tuple[str, str]:
    """Why a node has no RDMA for NCCL, and what would give it some."""
    if is_off(environment):
        return "its variables turn RDMA off", "take NCCL_IB_DISABLE and NCCL_NET out"
    if not fact.rdma:
        return "it has no RDMA device", "modprobe ib_uverbs, and the driver of its card;  ls /sys/class/infiniband"
    if fact.verbs:
        return fact.verbs, "apt-get install libibverbs1 ibverbs-providers; ls -l /dev/infiniband"
    states = [f"{device.name}:{port.port} is {port.state}" for device in fact.rdma for port in device.ports]
    return ", ".join(states[:MOST_SHOWN]) or "its RDMA devices have no port", "bring a port up:  rdma link; ibstat"


def _two_layers(nodes: Sequence[Node], layers: Sequence[set[str]]) -> PlanError:
    """InfiniBand here, RoCE there: they don't speak to each other."""
    groups: dict[str, list[str]] = {}
    for node, row in zip(nodes, layers, strict=True):
        groups.setdefault(" and ".join(sorted(row)), []).append(node.name)
    told = "; ".join(f"{layer} on {listed(names, MOST_SHOWN)}" for layer, names in groups.items())
    fewest = min(groups.values(), key=len)
    return PlanError(
        f"the nodes' active RDMA ports have no kind of link in common, and NCCL would fail: {told}",
        fix=f"leave some nodes out, or do without RDMA:  {OFF}",
        nodes=tuple(fewest) if 2 * len(fewest) < len(nodes) else (),
    )
