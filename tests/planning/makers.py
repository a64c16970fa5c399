"""Nodes and facts for tests of the pure parts, as short as a test wants to write them."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any, Literal

from ncclrun.model.cluster import ClusterSpec, Launch, Nccl, Network, Node, Ssh
from ncclrun.model.facts import Address, Gpu, Interface, NodeFacts, PythonFacts

Family = Literal["auto", "ipv4", "ipv6"]


def node(
    name: str,
    *,
    host: str = "",
    interface: str = "auto",
    subnet: str | None = None,
    family: Family = "auto",
    address: str | None = None,
    gpus: tuple[int, ...] | None = None,
    own: tuple[str, ...] = (),
    **launch: Any,
) -> Node:
    """A node with these wishes, those in ``own`` from its own entry; ``launch`` are fields of its launch block."""
    network = Network(interface=interface, subnet=ip_network(subnet) if subnet else None, family=family)
    return Node(name, host or name, Ssh(), network, Launch(**launch), address=address, gpus=gpus, own_network=own)


def card(
    name: str,
    *addresses: str,
    up: bool = True,
    running: bool = True,
    loopback: bool = False,
    scope: str = "global",
    **others: Any,
) -> Interface:
    """An interface with addresses written as ``10.0.0.1/24``; ``others`` are further fields of it."""
    split = [text.split("/") for text in addresses]
    fields: dict[str, Any] = {"index": 1, "kind": "", "mtu": 1500, "speed": None, "mac": "", "virtual": False}
    return Interface(
        name=name,
        up=up,
        running=running,
        loopback=loopback,
        addresses=tuple(Address(address, int(prefix), scope) for address, prefix in split),
        **{**fields, **others},
    )


LO = card("lo", "127.0.0.1/8", "::1/128", loopback=True, scope="host")


def facts(
    machine: str,
    *cards: Interface,
    gpus: int = 0,
    visible: int | None = None,
    python: PythonFacts | None = None,
    **others: Any,
) -> NodeFacts:
    """A machine with a loopback and these interfaces; its Python is /usr/bin/python3 with torch 2.5.1."""
    fields: dict[str, Any] = {
        "hostname": machine,
        "user": "u",
        "machine": machine,
        "boot_id": "b",
        "clock_offset": 0.0,
        "round_trip": 0.0,
        "interfaces": (LO, *cards),
        "gpus": tuple(Gpu(index, "H100", f"GPU-{index}") for index in range(gpus)),
        "visible_gpus": gpus if visible is None else visible,
        "python": python or PythonFacts("/usr/bin/python3", "3.11.4", torch="2.5.1", cuda="12.4", nccl="2.21.5"),
        "cpus": 4,
        "state_dir": "/var/state",
        "free_bytes": 100 << 30,
    }
    return NodeFacts(**{**fields, **others})


def cluster(*nodes: Node, **nccl: Any) -> ClusterSpec:
    """A cluster of these nodes; ``nccl`` are fields of its nccl block."""
    return ClusterSpec("lab", "cluster.yaml", Nccl(**nccl), nodes)
