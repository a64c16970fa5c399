"""What an interface is good for: where it ends, how fast its wire is, and whether RDMA goes over it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_address

from ncclrun.model.facts import Address, Interface, NodeFacts, RdmaPort

CONTAINER_BRIDGE = re.compile(
    r"docker\d|docker_gwbridge|virbr\d|br-[0-9a-f]{12}\Z|veth|lxcbr\d|lxdbr\d|incusbr\d|podman\d|nerdctl\d|cni\d|cni-podman"
    r"|flannel|cali|cilium|weave|kube-|nodelocaldns|vboxnet\d|vmnet\d"
)
"""Names that container and virtual machine software gives to networks which end inside their own host."""
NO_TRUE_SPEED = frozenset(
    (
        *("tun", "tap", "veth", "wireguard", "vxlan", "geneve", "gre", "gretap", "ip6gre", "ip6gretap"),
        *("ipip", "ip6tnl", "sit", "vti", "vti6", "xfrm", "dummy"),
    )
)
"""Kinds whose driver reports a number that no wire stands for (10 Mbit/s of tun, 10 Gbit/s of veth)."""


def is_link_local(address: Address) -> bool:
    """Whether the address is good on its own wire alone (169.254.0.0/16, fe80::/10)."""
    return address.scope == "link" or ip_address(address.address).is_link_local


def below(fact: NodeFacts, interface: Interface) -> tuple[Interface, ...]:
    """Everything that a bond, bridge or VLAN stands on, at any depth."""
    by_name = {other.name: other for other in fact.interfaces}
    found: dict[str, Interface] = {}
    waiting = list(interface.lower)
    while waiting:
        name = waiting.pop()
        if name in by_name and name not in found:
            found[name] = by_name[name]
            waiting += by_name[name].lower
    return tuple(found.values())


def ends_here(fact: NodeFacts, interface: Interface) -> str:
    """Why nothing that another machine sends can arrive at this interface's addresses; "" if it can."""
    if interface.loopback:
        return "loopback: ends in this host"
    if CONTAINER_BRIDGE.match(interface.name):
        return "container or VM bridge: ends in this host"
    if interface.master and not _is_vrf(fact, interface.master):
        return f"a port of {interface.master}, which takes what arrives here: the address belongs on {interface.master}"
    return ""


def _is_vrf(fact: NodeFacts, name: str) -> bool:
    """A VRF only gives its members a routing table of their own; they keep their addresses."""
    return any(interface.name == name and interface.kind == "vrf" for interface in fact.interfaces)


def leads_out(fact: NodeFacts, interface: Interface) -> bool:
    """Whether the facts speak for a way out of this host; of a bridge alone they may not, and then proof decides.

    They do if it has a card in it, carries a default route, or has the only address of this host. In hosts that are
    containers themselves cards are veths, told from those of their own containers by name alone.
    """
    if interface.kind != "bridge" or interface.default_route:
        return True
    ports = below(fact, interface)
    if any(not port.virtual or (port.kind == "veth" and not CONTAINER_BRIDGE.match(port.name)) for port in ports):
        return True
    others = (i for i in fact.interfaces if i.name != interface.name and not i.loopback and not i.master)
    named = (i for i in others if not CONTAINER_BRIDGE.match(i.name))
    return not any(not is_link_local(address) for other in named for address in other.addresses)


def speed(fact: NodeFacts, interface: Interface) -> int:
    """Mbit/s, 0 where nobody knows."""
    if interface.kind == "bridge":  # its own number counts the cables of containers, too
        return max((port.speed or 0 for port in below(fact, interface) if not port.virtual), default=0)
    no_wire = interface.kind in NO_TRUE_SPEED or interface.link_type == "none" or interface.loopback
    return 0 if no_wire else max(interface.speed or 0, 0)


def usable_ports(fact: NodeFacts) -> tuple[tuple[str, RdmaPort], ...]:
    """All RDMA ports that NCCL would use if it were left alone, with their device's name, sorted."""
    if fact.verbs:
        return ()
    return tuple(
        (device.name, port)
        for device in sorted(fact.rdma, key=lambda device: device.name)
        for port in device.ports
        if port.state == "ACTIVE" and (port.link_layer == "InfiniBand" or port.netdevs or port.gids)
    )


def own_ports(fact: NodeFacts, interface: Interface) -> tuple[tuple[str, RdmaPort], ...]:
    """Those of them that are on the wire of this interface."""
    stack: Sequence[Interface] = (interface, *below(fact, interface))
    names = {one.name for one in stack}
    devices = {device for one in stack for device in one.rdma}
    return tuple(
        (device, port)
        for device, port in usable_ports(fact)
        if names & set(port.netdevs) or (not port.netdevs and device in devices)
    )
