"""Which interface and address each node uses to talk to the others, or a table that shows why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from ncclrun.model.cluster import Node
from ncclrun.model.errors import PlanError
from ncclrun.model.facts import Address, Interface, NodeFacts
from ncclrun.model.plan import Endpoint

IPNetwork = IPv4Network | IPv6Network

FAMILIES = ("ipv4", "ipv6")
"""In the order in which they are tried."""
CONTAINER_BRIDGE = re.compile(
    r"docker\d|docker_gwbridge|virbr\d|br-[0-9a-f]{12}\Z|veth|lxcbr\d|lxdbr\d|incusbr\d|podman\d|nerdctl\d|cni\d|cni-podman"
    r"|flannel|cali|cilium|weave|kube-|nodelocaldns|vboxnet\d|vmnet\d"
)
"""Names that container and virtual machine software gives to networks which end inside their own host."""
MOST_SHOWN = 8
"""Nodes in the table of an error."""


@dataclass(frozen=True)
class Candidate:
    """One address of one node; ``rejected`` says why it is out of the question ("" if it is not)."""

    node: str
    interface: str
    address: str
    prefix: int
    rejected: str

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
        return f"ipv{self.ip.version}"


Row = Sequence[Candidate]
"""Candidates of one node."""


def choose_endpoints(nodes: Sequence[Node], facts: Sequence[NodeFacts]) -> tuple[Endpoint, ...]:
    """One endpoint a node, in order. Raises PlanError with the candidates when there is no answer or several."""
    table = all_candidates(nodes, facts)
    _refuse_impossible_wishes(nodes, table)
    if len({fact.machine for fact in facts}) == 1 and not any(_wish(node) for node in nodes):
        return _one_machine(nodes, facts, table)
    usable = [[c for c in row if not c.rejected] for row in table]
    for family in FAMILIES:
        answers = _shared_subnets(nodes, _of_family(usable, family))
        if len(answers) > 1:
            raise _too_many(nodes, table, answers)
        for network, rows in answers.items():
            picks = [_first(node, row, network) for node, row in zip(nodes, rows, strict=True)]
            return _endpoints(nodes, picks, f"the subnet {network}, which all nodes share")
    if all(_wish(node) for node in nodes):  # then no common subnet is asked for: the cluster may be routed
        for family in FAMILIES:
            rows = _of_family(usable, family)
            if all(rows):
                return _endpoints(nodes, [_first(n, row, n.network.subnet) for n, row in zip(nodes, rows, strict=True)])
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


def candidate_table(table: Iterable[Row]) -> str:
    """Aligned plain text, a line a candidate."""
    rows = [(c.node, c.interface, f"{c.address}/{c.prefix}", c.rejected or "usable") for row in table for c in row]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    return "\n".join(
        "  " + "  ".join([*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]])
        for row in rows
    )


def _against(node: Node, interface: Interface, address: Address) -> str:
    """Why this node can't or shall not use this address, whatever the others have."""
    network, ip = node.network, ip_address(address.address)
    link_local = address.scope == "link" or ip.is_link_local
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
    if link_local and address.family == "ipv6":
        return "link-local: nobody else can use it without naming a zone"
    if node.address or network.interface != "auto":
        return ""
    if interface.loopback:
        return "loopback: ends in this host"
    if CONTAINER_BRIDGE.match(interface.name):
        return "container or VM bridge: ends in this host"
    return "link-local" if link_local else ""


def _elsewhere(owners: Mapping[str, str], machine: str) -> str:
    others = [name for other, name in owners.items() if other != machine]
    if len(others) > 1:
        return f"{others[0]} and {len(others) - 1} more have the same address"
    return f"{others[0]} has the same address" if others else ""


def _one_machine(nodes: Sequence[Node], facts: Sequence[NodeFacts], table: Sequence[Row]) -> tuple[Endpoint, ...]:
    """All nodes are one machine: its loopback joins them whatever the network does."""
    wanted = "::1" if any(node.network.family == "ipv6" for node in nodes) else "127.0.0.1"
    picks = []
    for node, fact, row in zip(nodes, facts, table, strict=True):
        up = {interface.name for interface in fact.interfaces if interface.up}
        loopback = next((c for c in row if c.address == wanted and c.interface in up), None)
        if loopback is None:
            raise PlanError(
                f"{node.name}: no loopback address {wanted}, and all nodes are one machine\n{candidate_table([row])}",
                fix="bring the loopback up (ip link set lo up), or name an interface:  network: {interface: NAME}",
            )
        picks.append(loopback)
    return _endpoints(nodes, picks, "all nodes are one machine")


def _of_family(usable: Iterable[Row], family: str) -> list[Row]:
    return [[c for c in row if c.family == family] for row in usable]


def _shared_subnets(nodes: Sequence[Node], usable: Sequence[Row]) -> dict[IPNetwork, list[Row]]:
    """The subnets in which every node has an address, each with every node's addresses there.

    Where subnets lie within each other, an address counts for the narrowest of them alone, as routing has it; so one
    network that nodes announce with different prefix lengths is one answer.
    """
    wishes = (node.network.subnet for node in nodes if node.network.subnet is not None)
    networks = dict.fromkeys([*wishes, *(c.network for row in usable for c in row)])
    answers: dict[IPNetwork, list[Row]] = {}
    for network in sorted(networks, key=lambda network: -network.prefixlen):
        rows: list[Row] = []
        for row in usable:
            inside = [c for c in row if c.ip in network and not any(c.ip in narrower for narrower in answers)]
            if not inside:  # with a subnet for each node (/32 in clouds) most end here: going on would cost minutes
                break
            rows.append(inside)
        else:
            answers[network] = rows
    return {network: answers[network] for network in networks if network in answers}


def _first(node: Node, row: Row, network: IPNetwork | None) -> Candidate:
    """The node's first address of those that are equally good; on several interfaces they are not."""
    if len({c.interface for c in row}) > 1:
        raise _several_interfaces(node, row, network)
    return row[0]


def _endpoints(nodes: Sequence[Node], picks: Iterable[Candidate], why: str = "") -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(interface=pick.interface, address=pick.address, why=_wish(node) or why)
        for node, pick in zip(nodes, picks, strict=True)
    )


def _wish(node: Node) -> str:
    """The wish that decided, "" if there is none."""
    if node.address:
        return "the cluster file names the address"
    if node.network.interface != "auto":
        return "the cluster file names the interface"
    if node.network.subnet is not None:
        return f"the cluster file names the subnet {node.network.subnet}"
    return ""


def _refuse_impossible_wishes(nodes: Sequence[Node], table: Sequence[Row]) -> None:
    """All nodes at once whose own wish leaves them nothing."""
    problems, rows = [], []
    for node, row in zip(nodes, table, strict=True):
        if _wish(node) and all(c.rejected for c in row):
            wish = node.address or (
                node.network.interface if node.network.interface != "auto" else f"an address in {node.network.subnet}"
            )
            problems.append(f"{node.name} can't use {wish}, which the cluster file wants")
            rows.append(row)
    if problems:
        have = "\n".join(f"  {row[0].node} has {_haves(row)}" if row else "" for row in rows)
        raise PlanError(
            "\n".join(problems) + "\n" + have,
            fix="correct network.interface, network.subnet or the node's address to what the nodes have",
        )


def _haves(row: Row) -> str:
    """What a node could be asked to use, in one line; what is wrong with an address beside the wish itself is said."""
    wished = [c for c in row if not c.rejected.startswith("not ")]
    ends_here = (ip_address(c.address).is_loopback or ip_address(c.address).is_link_local for c in row)
    offers = [c for c, useless in zip(row, ends_here, strict=True) if c in wished or not useless]
    return ", ".join(
        f"{c.interface} {c.address}/{c.prefix}" + (f" ({c.rejected})" if c in wished else "") for c in offers
    )


def _several_interfaces(node: Node, row: Row, network: IPNetwork | None) -> PlanError:
    where = f"in {network}, so the subnet" if network else "with this address family, so the wish"
    return PlanError(
        f"{node.name} has several interfaces {where} does not decide\n{candidate_table([row])}",
        fix=f"name one on that node:  {_entry(node, row[0].interface)}",
    )


def _too_many(nodes: Sequence[Node], table: Sequence[Row], answers: Mapping[IPNetwork, Sequence[Row]]) -> PlanError:
    lines = [
        f"  {network}: "
        + ", ".join(f"{row[0].node} {row[0].interface} {row[0].address}" for row in rows[:MOST_SHOWN])
        + (f" and {len(rows) - MOST_SHOWN} more" if len(rows) > MOST_SHOWN else "")
        for network, rows in answers.items()
    ]
    first, *others = answers
    return PlanError(
        f"the nodes share {len(answers)} subnets, so none of them is the answer:\n"
        + "\n".join(lines)
        + "\nall addresses:\n"
        + _shown(nodes, table, ()),
        fix=f"add to the cluster file:  network: {{subnet: {first}}}   # or {', '.join(map(str, others))}",
    )


def _no_answer(nodes: Sequence[Node], table: Sequence[Row], usable: Sequence[Row]) -> PlanError:
    outside: tuple[str, ...] = tuple(node.name for node, row in zip(nodes, usable, strict=True) if not row)
    if outside:
        reason = f"no usable address on {_names(outside)}"
    elif found := _nearly_shared(nodes, usable):
        network, outside = found
        reason = (
            f"{network} joins {len(nodes) - len(outside)} of {len(nodes)} nodes, "
            f"but no usable address of {_names(outside)} is in it"
        )
    else:
        reason = "there is no subnet in which every node has a usable address"
    common = set.intersection(*({c.interface for c in row} for row in usable))
    example = next((c.interface for c in usable[0] if not common or c.interface in common), "NAME")
    line = f"network: {{interface: {example}}}" if common else f"on each node:  {_entry(nodes[0], example)}"
    mend = f"mend or leave out {_names(outside)}, or " if outside else ""
    return PlanError(
        f"{reason}\n{_shown(nodes, table, outside)}",
        fix=f"{mend}name the interface that reaches the others:  {line}",
        nodes=outside,
    )


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(names[:MOST_SHOWN]) + more


def _nearly_shared(nodes: Sequence[Node], usable: Sequence[Row]) -> tuple[IPNetwork, tuple[str, ...]] | None:
    """The one subnet that all but a few nodes share, and those few; None where it is not as clear as that."""
    names: dict[IPNetwork, set[str]] = {}
    for node, row in zip(nodes, usable, strict=True):
        for candidate in row:
            names.setdefault(candidate.network, set()).add(node.name)
    most = sorted(names, key=lambda network: -len(names[network]))[:2]
    if not most or 2 * len(names[most[0]]) <= len(nodes):
        return None
    if len(most) == 2 and len(names[most[1]]) == len(names[most[0]]):
        return None
    return most[0], tuple(node.name for node in nodes if node.name not in names[most[0]])


def _shown(nodes: Sequence[Node], table: Sequence[Row], first: Sequence[str]) -> str:
    """The table of candidates; of many nodes those in ``first`` and some to hold against them."""
    ordered = sorted(zip(nodes, table, strict=True), key=lambda pair: pair[0].name not in first)
    if len(nodes) <= MOST_SHOWN:
        return candidate_table(table)
    rest = len(nodes) - MOST_SHOWN
    return f"{candidate_table(row for _, row in ordered[:MOST_SHOWN])}\n  … and {rest} more nodes"


def _entry(node: Node, interface: str) -> str:
    """The node's line in the cluster file, with the interface named."""
    name = "" if node.name == node.host else f"name: {node.name}, "
    return f"- {{host: {node.host}, {name}interface: {interface}}}"
