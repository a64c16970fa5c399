"""What the cluster file wants of the network: in words, as a line of the file, and refused where it can't be had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ncclrun.model.cluster import Network, Node
from ncclrun.model.errors import PlanError
from ncclrun.planning.choice.candidates import Row


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
    problems, have = [], []
    for node, row in zip(nodes, table, strict=True):
        # A family alone is a wish that can't be had only where there are addresses of the other one.
        wanted = wish(node) or (wished(node) and any(c.unwanted for c in row))
        if wanted and all(c.rejected for c in row):
            problems.append(f"{node.name} can't use {_in_full(node)}, which the cluster file wants")
            have.append(f"  {node.name} has {_offers(row, named=bool(wish(node)))}" if row else "")
    if problems:
        raise PlanError(
            "\n".join([*problems, *have]),
            fix="correct network.interface, network.subnet, network.family or the node's address to what the nodes "
            "have, or take it out: the nodes find by themselves what joins them",
        )


def _in_full(node: Node) -> str:
    """All that is wished for, in words: where an address is not on the interface, it takes both to see that."""
    wants = node.network
    what = node.address or (f"an address in {wants.subnet}" if wants.subnet is not None else "")
    what = what or ("" if wants.family == "auto" else f"an {wants.family} address")
    if wants.interface == "auto":
        return what
    return f"{what} on {wants.interface}" if what else wants.interface


def _offers(row: Row, *, named: bool) -> str:
    """What a node could be asked to use, in one line; what is wrong with an address beside the wish itself is said.

    ``named``: the wish names what it wants, which is shown though every interface has the like.
    """
    return ", ".join(
        f"{c.interface} {c.address}/{c.prefix}" + ("" if c.unwanted else f" ({c.rejected})")
        for c in row
        if (named and not c.unwanted) or not c.noise
    )
