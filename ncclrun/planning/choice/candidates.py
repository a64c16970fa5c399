"""Every address of every node, with the reason against it and what speaks for it, from the facts alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from ncclrun.model.cluster import Node
from ncclrun.model.facts import Address, Interface, NodeFacts
from ncclrun.planning.interfaces import ends_here, is_link_local, leads_out, own_ports, speed

IPNetwork = IPv4Network | IPv6Network


WISHED = "the cluster file wants"
"""In the reason against an address where another one is wished for."""


class Quality(NamedTuple):
    """What speaks for an address, in the order in which it counts; the greater the better."""

    routable: bool
    """Not 169.254.0.0/16: a direct cable, or a card that found no DHCP; only taken for want of anything else."""
    announced: bool
    """The first address of its interface, which NCCL announces."""
    outward: bool
    """Not a bridge in which no card is seen: that may end in its own host, only proof can tell."""
    ipv4: bool
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
    instead: str = ""
    """The address that NCCL would announce in its place, the interface's first of its family; "" if it is that."""
    mend: str = ""
    """What would make a rejected one usable, a sentence or a command; "" if nothing would."""
    unwanted: bool = False
    """Rejected for a wish alone: the cluster file wants another one."""

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

    @property
    def link_local(self) -> bool:
        """Whether it is good on its own wire alone."""
        return not self.quality.routable

    @property
    def noise(self) -> bool:
        """Whether every interface has such an address (loopback, IPv6 link-local), so that no table needs it."""
        return self.ip.is_loopback or (self.family == "ipv6" and self.ip.is_link_local)


class _Against(NamedTuple):
    """Why an address is out of the question, and what would mend that; both "" if it is not."""

    reason: str = ""
    mend: str = ""


Row = Sequence[Candidate]
"""Candidates of one node."""


def usable(table: Sequence[Row]) -> list[Row]:
    """The rows without what is out of the question."""
    return [[c for c in row if not c.rejected] for row in table]


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


def _row(node: Node, fact: NodeFacts, owners: Mapping[str, Mapping[str, str]]) -> tuple[Candidate, ...]:
    pairs = [(interface, address) for interface in fact.interfaces for address in interface.addresses]
    row = []
    for order, (interface, address) in enumerate(pairs):
        unwanted = _against_wish(node, interface, address)
        against = _Against(unwanted) if unwanted else _against(node, fact, interface, address)
        if not against.reason:
            against = _elsewhere(node, interface, owners[address.address], fact.machine)
        instead = _announced_instead(interface, address)
        row.append(
            Candidate(
                node=node.name,
                interface=interface.name,
                address=address.address,
                prefix=address.prefix,
                rejected=against.reason,
                quality=_quality(fact, interface, address, announced=not instead),
                order=order,
                instead=instead,
                mend=against.mend,
                unwanted=bool(unwanted),
            )
        )
    return tuple(row)


def _announced_instead(interface: Interface, address: Address) -> str:
    """NCCL goes through the interface's addresses as the kernel lists them, and takes the first of the family."""
    alike = [
        other.address
        for other in interface.addresses
        if other.family == address.family and not (other.family == "ipv6" and is_link_local(other))
    ]
    return alike[0] if address.address in alike[1:] else ""


def _against_wish(node: Node, interface: Interface, address: Address) -> str:
    """Why it is not what the node's user wishes for; "" if it is."""
    network, ip = node.network, ip_address(address.address)
    if node.address and ip != ip_address(node.address):
        return f"not the address {node.address} that {WISHED}"
    if network.interface not in ("auto", interface.name):
        return f"not the interface {network.interface} that {WISHED}"
    if network.subnet is not None and ip not in network.subnet:
        return f"not in {network.subnet}, which {WISHED}"
    return "" if network.family in ("auto", address.family) else f"not {network.family}, which {WISHED}"


def _against(node: Node, fact: NodeFacts, interface: Interface, address: Address) -> _Against:
    """Why this node can't use this address, whatever the others have."""
    if not interface.up or not interface.running:
        command = f"sudo ethtool {interface.name}" if interface.up else f"sudo ip link set {interface.name} up"
        what = "look at the cable and the switch port" if interface.up else "bring it up"
        # What ends in its own host anyway is no help to anybody.
        mend = "" if ends_here(fact, interface) else f"{what} on {node.name}:  {command}"
        return _Against("interface has no carrier" if interface.up else "interface is down", mend)
    if is_link_local(address) and address.family == "ipv6":
        return _Against("link-local: nobody else can use it without naming a zone")
    if "," in interface.name:
        return _Against(
            "NCCL and Gloo take the comma in the interface's name for two names",
            f"rename it on {node.name}:  sudo ip link set {interface.name} name {interface.name.replace(',', '_')}",
        )
    taken = _announced_instead(interface, address)
    if interface.loopback and address.family == "ipv4" and taken and not ip_address(address.address).is_loopback:
        # Routing on the host (BGP) puts a machine's address there; it is reached, but NCCL can't be told it.
        there = f"{address.address}/{address.prefix} dev"
        return _Against(
            f"on {interface.name}, of which NCCL takes {taken}",
            f"move it to an interface of its own on {node.name}:\n  sudo ip link add dummy0 up type dummy\n"
            f"  sudo ip addr del {there} {interface.name}\n  sudo ip addr add {there} dummy0",
        )
    if node.address or node.network.interface != "auto":
        return _Against()
    return _Against(ends_here(fact, interface))


def _elsewhere(node: Node, interface: Interface, owners: Mapping[str, str], machine: str) -> _Against:
    others = [name for other, name in owners.items() if other != machine]
    if not others:
        return _Against()
    who = f"{others[0]} and {len(others) - 1} more have" if len(others) > 1 else f"{others[0]} has"
    return _Against(f"{who} the same address", f"give {node.name} ({interface.name}), or {others[0]}, another address")


def _quality(fact: NodeFacts, interface: Interface, address: Address, *, announced: bool) -> Quality:
    return Quality(
        routable=not is_link_local(address),
        announced=announced,
        outward=leads_out(fact, interface),
        ipv4=address.family == "ipv4",
        rdma=bool(own_ports(fact, interface)),
        speed=speed(fact, interface),
        mtu=interface.mtu,
        plain=not interface.virtual,
        apart=not interface.default_route and fact.ssh_address not in {a.address for a in interface.addresses},
    )
