"""Every address of every node, with the reason against it and what speaks for it, from the facts alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from ncclrun.model.cluster import Node
from ncclrun.model.facts import Address, Interface, NodeFacts
from ncclrun.planning.interfaces import ends_here, is_link_local, own_ports, speed

IPNetwork = IPv4Network | IPv6Network


@dataclass(frozen=True)
class Quality:
    """What speaks for an address, in the order in which it counts."""

    rdma: bool
    """An RDMA port that NCCL could use is on the same wire."""
    speed: int
    """Mbit/s; 0 where nobody knows."""
    mtu: int
    plain: bool
    """A card, nothing virtual."""
    apart: bool
    """Carries neither the SSH connection nor the default route."""


@dataclass(frozen=True)
class Candidate:
    """One address of one node; ``rejected`` says why it is out of the question ("" if it is not)."""

    node: str
    interface: str
    address: str
    prefix: int
    rejected: str
    quality: Quality
    order: int
    """Place among the node's addresses, as the kernel lists them."""
    link_local: bool = False
    """169.254.0.0/16: a direct cable, or a card that found no DHCP; only taken for want of anything else."""

    @cached_property
    def ip(self) -> IPv4Address | IPv6Address:
        """The address to reckon with."""
        return ip_address(self.address)

    @cached_property
    def network(self) -> IPNetwork:
        """The subnet that this address and its prefix announce."""
        return ip_network(f"{self.address}/{self.prefix}", strict=False)

    @property
    def family(self) -> str:
        """``ipv4`` or ``ipv6``."""
        return "ipv6" if ":" in self.address else "ipv4"


Row = Sequence[Candidate]
"""Candidates of one node."""


def one_machine(facts: Sequence[NodeFacts]) -> bool:
    """Whether all nodes are one machine."""
    return len({fact.machine for fact in facts}) == 1


def all_candidates(nodes: Sequence[Node], facts: Sequence[NodeFacts]) -> tuple[tuple[Candidate, ...], ...]:
    """Every address of every node, in the order of the facts, each with the reason against it."""
    owners: dict[str, dict[str, str]] = {}
    for node, fact in zip(nodes, facts, strict=True):
        for interface in fact.interfaces:
            for address in interface.addresses:
                owners.setdefault(address.address, {}).setdefault(fact.machine, node.name)
    return tuple(_row(node, fact, owners) for node, fact in zip(nodes, facts, strict=True))


def candidate_table(table: Iterable[Row]) -> str:
    """Aligned plain text, a line a candidate."""
    return aligned(
        (
            c.node,
            c.interface,
            f"{c.address}/{c.prefix}",
            c.rejected or ("link-local, and not shared" if c.link_local else "usable"),
        )
        for row in table
        for c in row
    )


def aligned(lines: Iterable[Sequence[str]]) -> str:
    """Cells in columns, indented by two; the last column is as long as it is."""
    rows = list(lines)
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    return "\n".join(
        "  " + "  ".join([*(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=True)), row[-1]])
        for row in rows
    )


def _row(node: Node, fact: NodeFacts, owners: Mapping[str, Mapping[str, str]]) -> tuple[Candidate, ...]:
    pairs = [(interface, address) for interface in fact.interfaces for address in interface.addresses]
    return tuple(
        Candidate(
            node=node.name,
            interface=interface.name,
            address=address.address,
            prefix=address.prefix,
            rejected=_against(node, fact, interface, address) or _elsewhere(owners[address.address], fact.machine),
            quality=_quality(fact, interface),
            order=order,
            link_local=is_link_local(address),
        )
        for order, (interface, address) in enumerate(pairs)
    )


def _against(node: Node, fact: NodeFacts, interface: Interface, address: Address) -> str:
    """Why this node can't or shall not use this address, whatever the others have."""
    network, ip = node.network, ip_address(address.address)
    if node.address and ip != ip_address(node.address):
        return f"not the address {node.address} that the cluster file wants"
    if network.interface not in ("auto", interface.name):
        return f"not the interface {network.interface} that the cluster file wants"
    if network.subnet is not None and ip not in network.subnet:
        return f"not in {network.subnet}, which the cluster file wants"
    if network.family not in ("auto", address.family):
        return f"not {network.family}, which the cluster file wants"
    if not interface.up:
        return "interface is down"
    if not interface.running:
        return "interface has no carrier"
    if is_link_local(address) and address.family == "ipv6":
        return "link-local: nobody else can use it without naming a zone"
    if node.address or network.interface != "auto":
        return ""
    return ends_here(fact, interface)


def _elsewhere(owners: Mapping[str, str], machine: str) -> str:
    others = [name for other, name in owners.items() if other != machine]
    if len(others) > 1:
        return f"{others[0]} and {len(others) - 1} more have the same address"
    return f"{others[0]} has the same address" if others else ""


def _quality(fact: NodeFacts, interface: Interface) -> Quality:
    return Quality(
        rdma=bool(own_ports(fact, interface)),
        speed=speed(fact, interface),
        mtu=interface.mtu,
        plain=not interface.virtual,
        apart=not interface.default_route and fact.ssh_address not in {a.address for a in interface.addresses},
    )
