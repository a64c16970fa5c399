"""From the entries of a cluster file to nodes: ranges expanded, names given, overrides applied and checked."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TypeVar

from ncclrun.model.cluster import ClusterFile, Launch, Network, Node, NodeEntry, Section, Ssh
from ncclrun.planning.hostlist import HostlistError, expand
from ncclrun.planning.scalars import shorten
from ncclrun.planning.strictyaml import Document, Path

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,62}")
MAX_NODES = 4096
ONE_FOR_ALL = ("master_port", "rendezvous", "max_restarts", "lease")
"""Fields of `launch` that must be alike on every node: torchrun's, and what the nodes think of each other's silence."""

Block = TypeVar("Block", bound=Section)


@dataclass
class _Member:
    """A node in the making; ``name`` is "" until it has one."""

    name: str
    host: str
    path: Path
    entry: NodeEntry
    ssh: Ssh
    network: Network
    launch: Launch


def build_nodes(file: ClusterFile, indexes: tuple[int, ...], document: Document) -> tuple[Node, ...]:
    """The nodes of ``file``, in its order. Faults go to ``document``, where its entries stand at ``indexes``."""
    members: list[_Member] = []
    for index, entry in zip(indexes, file.nodes, strict=True):
        members += _members(file, entry, ("nodes", index), document)
        if len(members) > MAX_NODES:
            document.report(("nodes", index), f"here the nodes become more than {MAX_NODES}")
            return ()
    _give_names(members)
    _check_names(members, document)
    for member in members:
        _check_network(member, document)
    if indexes[0] == 0 and members:  # else the master has faults of its own, and nothing can be held against it
        _check_alike(members, document)
    return tuple(_node(member) for member in members)


def _node(member: _Member) -> Node:
    entry = member.entry
    own = tuple(name for name in Network.model_fields if name in entry.model_fields_set)
    return Node(
        name=member.name,
        host=member.host,
        ssh=member.ssh,
        network=member.network,
        launch=member.launch,
        address=entry.address,
        gpus=entry.gpus,
        own_network=own,
    )


def _members(file: ClusterFile, entry: NodeEntry, path: Path, document: Document) -> list[_Member]:
    hosts = _expanded(entry.host, (*path, "host"), document)
    names = _expanded(entry.name, (*path, "name"), document) if entry.name else [""] * len(hosts)
    if hosts and names and len(hosts) != len(names):
        message = f"this makes {len(names)} names for {len(hosts)} hosts; write a range as long as that of `host`"
        document.report((*path, "name"), message)
        return []
    if len(hosts) > 1 and entry.address:
        document.report((*path, "address"), "an address belongs to one node; give each node of the range its own entry")
    wrong = next((name for name in names if name and not NAME.fullmatch(name)), None)
    if wrong is not None:
        wanted = "letters, digits and _ . : - are wanted, at most 63, no sign first"
        document.report((*path, "name"), f"{shorten(wrong)!r} is no name for a node: {wanted}")
    ssh, network, launch = _with(file.ssh, entry), _with(file.network, entry), _launch(file.launch, entry)
    return [
        _Member(name, host, path, entry, ssh, network, launch)
        for host, name in zip(hosts, names, strict=False)  # one is empty where its range has a fault
    ]


def _expanded(pattern: str, path: Path, document: Document) -> list[str]:
    try:
        return expand(pattern)
    except HostlistError as error:
        document.report(path, str(error))
        return []


def _with(block: Block, entry: NodeEntry) -> Block:
    """The block with what the entry says otherwise."""
    given = entry.model_fields_set & set(type(block).model_fields)
    return block.model_copy(update={name: getattr(entry, name) for name in given})


def _launch(launch: Launch, entry: NodeEntry) -> Launch:
    """As any block, but variables add up."""
    env = launch.env | (entry.env or {})
    forward_env = tuple(dict.fromkeys(launch.forward_env + (entry.forward_env or ())))
    return _with(launch, entry).model_copy(update={"env": env, "forward_env": forward_env})


def is_loopback(host: str) -> bool:
    """Whether ``host`` means this very machine by its name alone."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _give_names(members: list[_Member]) -> None:
    """The host is the name; where a host comes more than once, with the port, or for this machine with a number."""
    groups: dict[str, list[_Member]] = defaultdict(list)
    for member in members:
        if not member.name:
            groups[member.host].append(member)
    for host, group in groups.items():
        ports = [member.ssh.port for member in group]
        by_port = len(group) > 1 and len(set(ports)) == len(ports)
        for number, member in enumerate(group):
            member.name = host
            if by_port and member.ssh.port is not None:
                member.name = f"{host}-{member.ssh.port}"
            elif not by_port and number and is_loopback(host):
                member.name = f"{host}-{number}"


def _check_names(members: list[_Member], document: Document) -> None:
    first: dict[str, _Member] = {}
    for member in members:
        other = first.setdefault(member.name, member)
        if other is member:
            continue
        line, column = document.place((*other.path, "name" if other.entry.name else "host"))
        message = f"a node named {member.name!r} stands at line {line}, column {column} already"
        if not document.named:
            message += "; list each host once"
        elif not member.entry.name:
            message += "; give one of them a `name`, or the `port` that tells them apart"
        document.report((*member.path, "name" if member.entry.name else "host"), message)


def _check_network(member: _Member, document: Document) -> None:
    family, subnet, address = member.network.family, member.network.subnet, member.entry.address
    subnet_path: Path = (*member.path, "subnet") if member.entry.subnet else ("network", "subnet")
    if subnet and family not in ("auto", f"ipv{subnet.version}"):
        document.report(subnet_path, f"{subnet} is IPv{subnet.version}, but `family` says {family}; change one of them")
    if not address:
        return
    version = ip_address(address).version
    if family not in ("auto", f"ipv{version}"):
        message = f"{address} is IPv{version}, but `family` says {family}; change one of them"
        document.report((*member.path, "address"), message)
    if member.entry.subnet and ip_address(address) not in member.entry.subnet:
        document.report((*member.path, "address"), f"{address} is not in this node's `subnet` {subnet}")


def _check_alike(members: list[_Member], document: Document) -> None:
    master = members[0]
    for member in members[1:]:
        for name in ONE_FOR_ALL:
            value, common = getattr(member.launch, name), getattr(master.launch, name)
            if name in member.entry.model_fields_set and value != common:
                message = f"all nodes need the same, and the master has {common}; write it under `launch:`"
                document.report((*member.path, name), message)
