"""What the cluster file wants of the network: in words, as a line of the file, and refused where it can't be had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address

from ncclrun.model.cluster import Network, Node
from ncclrun.model.errors import PlanError
from ncclrun.model.words import listed
from ncclrun.planning.choice.candidates import Row
from ncclrun.planning.choice.wording import MOST_SHOWN, first_of

MOST_OFFERED = 6
"""Addresses of a node that are named in a line."""


def wish(node: Node) -> str:
    """The wish that decides, as a reason; "" if there is none."""
    if node.address:
        return "the cluster file names the address"
    if node.network.interface != "auto":
        return "the cluster file names the interface"
    if node.network.subnet is not None:
        return f"the cluster file names the subnet {node.network.subnet}"
    return ""


def wished(node: Node) -> str:
    """What is wished for, as the file has it: an address, an interface, a subnet or a family; "" if nothing is."""
    if node.address:
        return f"address: {node.address}"
    if node.network.interface != "auto":
        return f"interface: {node.network.interface}"
    if node.network.subnet is not None:
        return f"subnet: {node.network.subnet}"
    return "" if node.network.family == "auto" else f"family: {node.network.family}"


def without_wishes(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The same nodes, left to the choice."""
    return tuple(replace(node, address=None, network=Network()) for node in nodes)


def entry(node: Node, interface: str) -> str:
    """The node's line in the cluster file, with the interface named."""
    name = "" if node.name == node.host else f"name: {node.name}, "
    return f"- {{host: {node.host}, {name}interface: {interface}}}"


def refuse_impossible_wishes(nodes: Sequence[Node], table: Sequence[Row]) -> None:
    """Raises PlanError with all nodes at once whose own wish leaves them nothing."""
    refused = [at for at, (node, row) in enumerate(zip(nodes, table, strict=True)) if _impossible(node, row)]
    if not refused:
        return
    wants: dict[str, list[str]] = {}
    for at in refused:
        wants.setdefault(_in_full(nodes[at]), []).append(nodes[at].name)
    lines = [f"{listed(who, MOST_SHOWN)} can't use {what}, which the cluster file wants" for what, who in wants.items()]
    # Where a family is missing, its absence says all.
    named = [at for at in refused if wish(nodes[at]) and table[at]]
    lines += first_of([f"  {nodes[at].name} has {_offers(table[at])}" for at in named], "nodes")
    mend = next((c.mend for at in refused for c in table[at] if c.mend and not c.unwanted), "")
    out = f"{take_out([nodes[at] for at in refused], [table[at] for at in refused])}: the nodes find what joins them"
    raise PlanError(
        "\n".join(lines),
        fix=f"{mend}\nor {out}" if mend else out,
        nodes=tuple(nodes[at].name for at in refused) if len(refused) < len(nodes) else (),
    )


def _impossible(node: Node, row: Row) -> bool:
    # A family alone is a wish that can't be had only where there are addresses of the other one.
    return bool(wish(node) or (wished(node) and any(c.unwanted for c in row))) and all(c.rejected for c in row)


def take_out(nodes: Sequence[Node], table: Sequence[Row]) -> str:
    """The step that ends wishes, with the lines of the file: ``take out "interface: e" of gpu2``.

    Those lines are meant which no address in the node's row fulfils; all, where that takes several together.
    """
    owners: dict[str, list[str]] = {}
    for node, row in zip(nodes, table, strict=True):
        for line, own in _lines(node, row):
            owners.setdefault(f'"{line}"' if own else f'"network.{line}"', []).extend([node.name] if own else [])
    lines = [f"{line} of {listed(who, MOST_SHOWN)}" if who else line for line, who in owners.items()]
    return f"take out {' and '.join(lines)}"


def _lines(node: Node, row: Row) -> list[tuple[str, bool]]:
    """The lines that stand in the way, and whether they are the node's own."""
    wants = node.network
    wishes = [
        ("address", node.address, lambda c: c.ip == ip_address(str(node.address))),
        ("interface", "" if wants.interface == "auto" else wants.interface, lambda c: c.interface == wants.interface),
        ("subnet", wants.subnet, lambda c: wants.subnet is not None and c.ip in wants.subnet),
        ("family", "" if wants.family == "auto" else wants.family, lambda c: c.family == wants.family),
    ]
    there = [(name, value, any(map(fits, row))) for name, value, fits in wishes if value]
    missing = [one for one in there if not one[2]] or there
    return [(f"{name}: {value}", name == "address" or name in node.own_network) for name, value, _ in missing]


def _in_full(node: Node) -> str:
    """All that is wished for, in words: where an address is not on the interface, it takes both to see that."""
    wants = node.network
    what = node.address or (f"an address in {wants.subnet}" if wants.subnet is not None else "")
    what = what or ("" if wants.family == "auto" else f"an {wants.family} address")
    if wants.interface == "auto":
        return what
    return f"{what} on {wants.interface}" if what else wants.interface


def _offers(row: Row) -> str:
    """What a node could be asked to use, in one line; what is wrong with an address beside the wish itself is said."""
    return listed(
        [
            f"{c.interface} {c.address}/{c.prefix}" + ("" if c.unwanted else f" ({c.rejected})")
            for c in row
            if not (c.unwanted and c.noise)
        ],
        MOST_OFFERED,
    )
