"""Why there is no network for all nodes: errors with the evidence, and the line that mends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ncclrun.model.cluster import Node
from ncclrun.model.errors import PlanError
from ncclrun.model.words import listed
from ncclrun.planning.choice.answers import FAMILIES, Joint, of_family
from ncclrun.planning.choice.blame import Blame, blame
from ncclrun.planning.choice.candidates import Candidate, Row, usable
from ncclrun.planning.choice.nearest import Nearest, nearest
from ncclrun.planning.choice.proof import Proof, bits
from ncclrun.planning.choice.wishes import entry, take_out, wished
from ncclrun.planning.choice.wording import MOST_SHOWN, first_of, leaving_out

MOST_NETWORKS = 3
"""Networks that work among some of the nodes."""
MOST_ADDRESSES = 4
"""Addresses of a node that are named in a line."""


class _Cause(NamedTuple):
    """What keeps the nodes apart, a line each, what mends it, and the names of those whose trouble it is."""

    lines: list[str]
    fix: str
    whose: tuple[str, ...]


def no_loopback(node: Node, row: Row, wanted: str) -> PlanError:
    """All nodes are one machine, and it has no loopback."""
    return PlanError(
        f"{node.name}: no loopback address {wanted}, and all nodes are one machine",
        fix="bring the loopback up:  sudo ip link set lo up\nor name an interface:  network: {interface: NAME}",
    )


def no_address(nodes: Sequence[Node], table: Sequence[Row]) -> PlanError:
    """The facts alone rule it out: a node has no usable address, or none of the others' family."""
    rows = usable(table)
    out = [at for at, row in enumerate(rows) if all(c.link_local for c in row)]
    outside = tuple(nodes[at].name for at in out)
    lines = [f"no usable address on {listed(outside, MOST_SHOWN)}"]
    if not outside:
        lines = ["some nodes have IPv4 addresses only, others IPv6"]
        for family, other in (FAMILIES, FAMILIES[::-1]):
            without = [node.name for node, row in zip(nodes, of_family(rows, other), strict=True) if not row]
            lines.append(f"  {family} alone on {listed(without, MOST_SHOWN)}")
    lines += [f"  {nodes[at].name} has {_haves(table[at])}" for at in out[:MOST_SHOWN]]
    steps = [c.mend for at in out for c in table[at] if c.mend][:1]
    steps += [f"go on without:  {leaving_out(outside)}"] if 0 < len(outside) < len(nodes) else []
    return PlanError(
        "\n".join(lines),
        fix=_any_of(*steps, f"name the interface that reaches the others:  {_line(nodes, rows)}"),
        nodes=outside,
    )


def nothing_proven(nodes: Sequence[Node], table: Sequence[Row], proof: Proof, unwished: Joint | None) -> PlanError:
    """No answer works for all pairs that were tried: who or what is in the way of the one that comes nearest.

    ``unwished`` is what works for all if the cluster file's wishes are left out.
    """
    if proof.by_pairs([bits(c.order for c in row if not c.rejected) for row in table]):
        cause = _by_pairs_alone(table, proof)
    else:
        cause = _in_the_way(nodes, table, proof)
    head = "no network works for all nodes"
    if wishes := list(dict.fromkeys(filter(None, map(wished, nodes)))):
        head = f"the cluster file's wish ({listed(wishes)}) does not work for all nodes"
        if unwished is not None:
            cause = cause._replace(fix=_without_the_wish(nodes, table, unwished))
        else:
            head += ", and nothing else does"
    return PlanError(
        "\n".join([head, *cause.lines]),
        fix=cause.fix,
        nodes=cause.whose if len(cause.whose) < len(nodes) else (),
    )


def _without_the_wish(nodes: Sequence[Node], table: Sequence[Row], unwished: Joint) -> str:
    """``unwished`` is what works for all; those whose wish is against it are named, with the line that says so."""
    against = [at for at, pick in enumerate(unwished.picks) if table[at][pick.order].unwanted]
    against = against or [at for at, node in enumerate(nodes) if wished(node)]
    out = take_out([nodes[at] for at in against], [(unwished.picks[at],) for at in against])
    fix = f"{out}: without it {unwished.name} is proven for all nodes"
    if len(against) == len(nodes) and len({pick.interface for pick in unwished.picks}) == 1:
        return _any_of(fix, f"name it:  network: {{interface: {unwished.picks[0].interface}}}")
    return fix


def _any_of(*steps: str) -> str:
    """Steps of which one is enough, a line each."""
    return "\nor ".join(steps)


def _by_pairs_alone(table: Sequence[Row], proof: Proof) -> _Cause:
    """Cables from node to node, say: NCCL has one address of each node for all its peers."""
    lines = [
        "each pair works by some of its addresses, but no choice of one address a node works for all:",
        *_works_among(table, proof),
        *(f"  {row[0].node} has {_haves(row)}" for row in table[:MOST_SHOWN]),
    ]
    fix = (
        "join all nodes by one subnet (a switch); or let the cables carry one address of each node, on the nodes that"
        " do not reach it:  ip route add ADDRESS via NEIGHBOUR"
    )
    return _Cause(lines, fix, ())


def _in_the_way(nodes: Sequence[Node], table: Sequence[Row], proof: Proof) -> _Cause:
    """Who or what is."""
    near = nearest(table, proof)
    rest = [at for at in range(len(nodes)) if at not in near.absent]
    verdict = blame([near.picks[at] for at in rest], proof.evidence.only(rest))
    outside = (*(nodes[at].name for at in near.absent), *verdict.nodes)
    lines = [*_joined(near, verdict, outside), *_about_absent(nodes, near), *verdict.lines]
    if not (outside and verdict.others_work):
        lines += _works_among(table, proof)
    fix = _fix(nodes, near, verdict, outside if 2 * len(outside) < len(nodes) else ())
    return _Cause(lines, fix, tuple(dict.fromkeys((*outside, *verdict.ends))))


def _joined(near: Nearest, verdict: Blame, outside: Sequence[str]) -> list[str]:
    """What there is: the sentence that tells the network which most nodes are to be on."""
    every = len(near.picks)
    joined = every - len(outside)
    but = f"but not {listed(outside, MOST_SHOWN)}:"
    if outside and verdict.others_work and joined > 1:
        members = [pick for pick in near.picks if pick.node not in outside]
        if near.network is not None and all(pick.ip in near.network for pick in members):
            return [f"{near.network} joins {joined} of {every} nodes (proven), {but}"]
        return [f"{joined} of {every} nodes reach each other (proven), {but}"]
    return [f"{near.network} could join the nodes, {but}"] if near.absent else []


def _about_absent(nodes: Sequence[Node], near: Nearest) -> list[str]:
    """A line for each node that has no usable address in the network of the others."""
    lines = []
    for at in near.absent:
        node, there = near.picks[at].node, near.address_there(at)
        owners = near.owners(there) if there is not None else []
        if there is not None and len(owners) > 1:
            told = f"{listed(owners[:-1])} and {owners[-1]} have the same address {there.address}"
            lines += [told] if told not in lines else []
        elif there is not None:
            lines.append(f"{node} ({there.interface} {there.address}): {there.rejected}")
        elif (kept := near.kept_from(at)) is not None:
            keeps = f'"{wished(nodes[at])}" in the cluster file keeps it out of {near.network}'
            lines.append(f"{node} ({kept.interface} {kept.address}): {keeps}")
        else:
            lines.append(f"{node} has no address in {near.network}; it has {_haves(near.table[at])}")
    return first_of(lines, "nodes")


def _fix(nodes: Sequence[Node], near: Nearest, verdict: Blame, outside: Sequence[str]) -> str:
    fix = _fix_absent(nodes, near, near.absent[0]) if near.absent else verdict.fix
    return _any_of(fix, f"go on without:  {leaving_out(outside)}") if outside else fix


def _fix_absent(nodes: Sequence[Node], near: Nearest, at: int) -> str:
    """What brings a node into the network of the others."""
    there, network = near.address_there(at), near.network
    if there is not None:
        owners = near.owners(there)
        return f"give one of {listed(owners)} another address than {there.address}" if len(owners) > 1 else there.mend
    if (kept := near.kept_from(at)) is not None:
        return take_out([nodes[at]], [(kept,)])
    ours = "ip -6 addr" if network is not None and network.version == 6 else "ip addr"
    give = f"give {near.picks[at].node} an address in {network} on the card that is on this wire:  sudo {ours} add"
    return f"{give} ADDRESS/{network.prefixlen if network else ''} dev INTERFACE"


def _haves(row: Row) -> str:
    """The node's addresses in one line, with what is wrong with each."""
    shown = [
        f"{c.interface} {c.address}/{c.prefix}"
        + (f" ({c.rejected or 'link-local, and not shared'})" if c.rejected or c.link_local else "")
        for c in row
        if not c.noise
    ]
    return listed(shown, MOST_ADDRESSES) or "no address but loopback and link-local ones"


def _works_among(table: Sequence[Row], proof: Proof) -> list[str]:
    """Networks that join some of the nodes, at least two."""
    groups: dict[object, dict[int, Candidate]] = {}
    for at, row in enumerate(table):
        for candidate in row:
            if not candidate.rejected:
                groups.setdefault(candidate.network, {}).setdefault(at, candidate)
    lines = []
    pairs = [*proof.pairs()]
    for network in sorted(groups, key=lambda network: -len(groups[network])):
        members = groups[network]
        inside = [(a, b) for a, b in pairs if a in members and b in members]
        good = {at for a, b in inside if _work(proof, members, a, b) for at in (a, b)}
        tried = [(a, b) for a, b in inside if a in good and b in good]
        if tried and all(_work(proof, members, a, b) for a, b in tried):
            lines.append(f"  {network} works among {listed([table[at][0].node for at in sorted(good)], MOST_SHOWN)}")
    return lines[:MOST_NETWORKS]


def _work(proof: Proof, members: dict[int, Candidate], a: int, b: int) -> bool:
    return proof.works(a, members[a].order, b, members[b].order)


def _line(nodes: Sequence[Node], rows: Sequence[Row]) -> str:
    """What to write into the cluster file, with an interface that there is."""
    common = set.intersection(*({c.interface for c in row} for row in rows))
    example = next((c.interface for row in rows for c in row if not common or c.interface in common), "NAME")
    return f"network: {{interface: {example}}}" if common else f"on each node:  {entry(nodes[0], example)}"
