"""Which interface and address each node uses to talk to the others, or a table that shows why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from ncclrun.model.cluster import Node
from ncclrun.model.errors import PlanError
from ncclrun.model.facts import Address, Interface, NodeFacts
from ncclrun.model.plan import Endpoint

IPNetwork = IPv4Network | IPv6Network

CONTAINER_BRIDGE = re.compile(
    r"docker\d|virbr\d|br-[0-9a-f]{12}\Z|veth|lxcbr\d|lxdbr\d|podman\d|cni\d|cni-podman|flannel|cali|cilium|kube-|nodelocaldns"
)
"""Names that container and virtual machine software gives to networks which end inside their own host."""


@dataclass(frozen=True)
class Candidate:
    """One address of one node; ``rejected`` says why it is out of the question ("" if it is not)."""

    node: str
    interface: str
    address: str
    prefix: int
    rejected: str

    @property
    def network(self) -> IPNetwork:
        """The subnet that this address and its prefix announce."""
        return ip_network(f"{self.address}/{self.prefix}", strict=False)

    @property
    def family(self) -> str:
        """``ipv4`` or ``ipv6``."""
        return "ipv6" if ":" in self.address else "ipv4"


def choose_endpoints(nodes: Sequence[Node], facts: Sequence[NodeFacts]) -> tuple[Endpoint, ...]:
    """One endpoint a node, in order. Raises PlanError with the candidates when there is no answer or several."""
    table = all_candidates(nodes, facts)
    _refuse_impossible_wishes(nodes, table)
    if len({fact.machine for fact in facts}) == 1 and not any(_wished(node) for node in nodes):
        return _one_machine(nodes, table)
    usable = {node.name: [c for c in row if not c.rejected] for node, row in zip(nodes, table, strict=True)}
    for family in ("ipv4", "ipv6"):
        answers = _shared_subnets(nodes, usable, family)
        if len(answers) == 1:
            (network, picks), *_ = answers.items()
            return tuple(
                _endpoint(node, pick, f"the subnet {network}, which all nodes share")
                for node, pick in zip(nodes, picks, strict=True)
            )
        if answers:
            raise _too_many(nodes, table, answers)
    routed = [_single_wish(node, usable[node.name]) for node in nodes]
    if all(routed):
        return tuple(_endpoint(node, pick, "") for node, pick in zip(nodes, routed, strict=True) if pick)
    raise _no_answer(nodes, table, usable)


def all_candidates(nodes: Sequence[Node], facts: Sequence[NodeFacts]) -> tuple[tuple[Candidate, ...], ...]:
    """Every address of every node, in the order of the facts, each with the reason against it."""
    owners: dict[str, dict[str, str]] = {}
    for node, fact in zip(nodes, facts, strict=True):
        for interface in fact.interfaces:
            for address in interface.addresses:
                owners.setdefault(address.address, {}).setdefault(fact.machine, node.name)
    rows = []
    for node, fact in zip(nodes, facts, strict=True):
        rows.append(
            tuple(
                Candidate(
                    node=node.name,
                    interface=interface.name,
                    address=address.address,
                    prefix=address.prefix,
                    rejected=_against(node, interface, address) or _elsewhere(owners[address.address], fact.machine),
                )
                for interface in fact.interfaces
                for address in interface.addresses
            )
        )
    return tuple(rows)


def candidate_table(table: Iterable[Iterable[Candidate]]) -> str:
    """Aligned plain text, a line a candidate."""
    rows = [(c.node, c.interface, f"{c.address}/{c.prefix}", c.rejected or "usable") for row in table for c in row]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    return "\n".join(
        "  " + "  ".join([*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]])
        for row in rows
    )


def _wished(node: Node) -> bool:
    return bool(node.address) or node.network.interface != "auto" or node.network.subnet is not None


def _against(node: Node, interface: Interface, address: Address) -> str:
    """Why this node can't or shall not use this address, whatever the others have."""
    network = node.network
    if node.address and ip_address(address.address) != ip_address(node.address):
        return f"not the address {node.address} that the cluster file wants"
    if network.interface not in ("auto", interface.name):
        return f"not the interface {network.interface} that the cluster file wants"
    if network.subnet is not None and ip_address(address.address) not in network.subnet:
        return f"not in {network.subnet}, which the cluster file wants"
    if network.family not in ("auto", address.family):
        return f"not {network.family}, which the cluster file wants"
    if not interface.up:
        return "interface is down"
    if not interface.running:
        return "interface has no carrier"
    if node.address or network.interface != "auto":
        return ""
    if interface.loopback:
        return "loopback: ends in this host"
    if CONTAINER_BRIDGE.match(interface.name):
        return "container or VM bridge: ends in this host"
    if address.scope == "link":
        return "link-local"
    return ""


def _elsewhere(owners: Mapping[str, str], machine: str) -> str:
    others = [name for other, name in owners.items() if other != machine]
    return f"{', '.join(others)} has the same address" if others else ""


def _one_machine(nodes: Sequence[Node], table: Sequence[Sequence[Candidate]]) -> tuple[Endpoint, ...]:
    """All nodes are one machine: its loopback joins them whatever the network does."""
    wanted = "::1" if any(node.network.family == "ipv6" for node in nodes) else "127.0.0.1"
    endpoints = []
    for node, row in zip(nodes, table, strict=True):
        loopback = next((c for c in row if c.address == wanted), None)
        if loopback is None:
            raise PlanError(
                f"{node.name}: no loopback address {wanted}, and all nodes are one machine\n{candidate_table([row])}",
                fix="bring the loopback up (ip link set lo up), or name an interface:  network: {interface: NAME}",
            )
        endpoints.append(_endpoint(node, loopback, "all nodes are one machine"))
    return tuple(endpoints)


def _shared_subnets(
    nodes: Sequence[Node], usable: Mapping[str, list[Candidate]], family: str
) -> dict[IPNetwork, tuple[Candidate, ...]]:
    """The subnets in which every node has an address, with each node's first address there; twins are told once.

    A node with two interfaces in one subnet counts as two answers: it appears under the subnet once for each interface.
    """
    networks: dict[IPNetwork, None] = {node.network.subnet: None for node in nodes if node.network.subnet is not None}
    networks.update({c.network: None for row in usable.values() for c in row if c.family == family})
    answers: dict[IPNetwork, tuple[Candidate, ...]] = {}
    for network in networks:
        picks = [_in_network(usable[node.name], network, family) for node in nodes]
        if not all(picks):
            continue
        first = tuple(row[0] for row in picks)
        if first not in answers.values():
            answers[network] = first
        crowded = next((row for row in picks if len({c.interface for c in row}) > 1), None)
        if crowded:
            raise _two_in_one_subnet(network, crowded)
    return answers


def _in_network(row: Iterable[Candidate], network: IPNetwork, family: str) -> list[Candidate]:
    return [c for c in row if c.family == family and ip_address(c.address) in network]


def _single_wish(node: Node, row: Sequence[Candidate]) -> Candidate | None:
    """The interface that the user named: then no common subnet is asked for (a routed cluster)."""
    named = bool(node.address) or node.network.interface != "auto"
    ordered = sorted(row, key=lambda c: (c.family == "ipv6", ip_address(c.address).is_link_local))
    return ordered[0] if named and ordered else None


def _endpoint(node: Node, pick: Candidate, why: str) -> Endpoint:
    if node.address:
        why = "the cluster file names the address"
    elif node.network.interface != "auto":
        why = "the cluster file names the interface"
    elif node.network.subnet is not None:
        why = f"the cluster file names the subnet {node.network.subnet}"
    return Endpoint(interface=pick.interface, address=pick.address, why=why)


def _refuse_impossible_wishes(nodes: Sequence[Node], table: Sequence[Sequence[Candidate]]) -> None:
    """All nodes at once whose own wish leaves them nothing."""
    problems, rows = [], []
    for node, row in zip(nodes, table, strict=True):
        if _wished(node) and all(c.rejected for c in row):
            wish = node.address or (
                node.network.interface if node.network.interface != "auto" else f"an address in {node.network.subnet}"
            )
            problems.append(f"{node.name} can't use {wish}, which the cluster file wants")
            rows.append(row)
    if problems:
        raise PlanError(
            "\n".join(problems) + "\n" + candidate_table(rows),
            fix="correct network.interface, network.subnet or the node's address: the table shows what the nodes have",
        )


def _two_in_one_subnet(network: IPNetwork, row: Sequence[Candidate]) -> PlanError:
    return PlanError(
        f"{row[0].node} has several interfaces in {network}, so the subnet does not decide\n{candidate_table([row])}",
        fix=f"name one on that node:  - {{host: …, name: {row[0].node}, interface: {row[0].interface}}}",
    )


def _too_many(
    nodes: Sequence[Node], table: Sequence[Sequence[Candidate]], answers: Mapping[IPNetwork, Sequence[Candidate]]
) -> PlanError:
    lines = [
        f"  {network}: " + ", ".join(f"{c.node} {c.interface} {c.address}" for c in picks)
        for network, picks in answers.items()
    ]
    first, *others = answers
    return PlanError(
        f"the nodes share {len(answers)} subnets, so none of them is the answer:\n"
        + "\n".join(lines)
        + "\nall addresses:\n"
        + candidate_table(table),
        fix=f"add to the cluster file:  network: {{subnet: {first}}}   # or {', '.join(map(str, others))}",
    )


def _no_answer(
    nodes: Sequence[Node], table: Sequence[Sequence[Candidate]], usable: Mapping[str, Sequence[Candidate]]
) -> PlanError:
    empty = [node.name for node in nodes if not usable[node.name]]
    reason = (
        f"no usable address on {', '.join(empty)}"
        if empty
        else "there is no subnet in which every node has a usable address"
    )
    node = nodes[0]
    example = next((c.interface for c in usable[node.name]), "NAME")
    return PlanError(
        f"{reason}\n{candidate_table(table)}",
        fix=f"name the interface that reaches the others on each node:  - {{host: {node.host}, interface: {example}}}",
    )
