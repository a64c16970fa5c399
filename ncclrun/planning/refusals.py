"""Why there is no network for all nodes: errors with every candidate, the evidence, and the line that mends it."""

from __future__ import annotations

from collections.abc import Sequence

from ncclrun.model.cluster import Node
from ncclrun.model.errors import PlanError
from ncclrun.model.facts import NodeFacts
from ncclrun.model.network import Evidence
from ncclrun.planning.blame import blame
from ncclrun.planning.candidates import Candidate, Row, aligned, candidate_table
from ncclrun.planning.joint import Joint, Rank
from ncclrun.planning.links import listed
from ncclrun.planning.proof import Proof
from ncclrun.planning.verdicts import table_of_verdicts
from ncclrun.planning.wishes import entry, wished

MOST_SHOWN = 8
"""Nodes in the table of an error."""


def no_loopback(node: Node, row: Row, wanted: str) -> PlanError:
    """All nodes are one machine, and it has no loopback."""
    return PlanError(
        f"{node.name}: no loopback address {wanted}, and all nodes are one machine\n{candidate_table([row])}",
        fix="bring the loopback up (ip link set lo up), or name an interface:  network: {interface: NAME}",
    )


def no_address(nodes: Sequence[Node], table: Sequence[Row], usable: Sequence[Row]) -> PlanError:
    """The facts alone rule it out: a node has no usable address, or none of the others' family."""
    outside = tuple(node.name for node, row in zip(nodes, usable, strict=True) if all(c.link_local for c in row))
    if outside:
        reason = f"no usable address on {listed(outside, MOST_SHOWN)}"
    else:
        reason = "some nodes have IPv4 addresses only, others IPv6"
    mend = f"mend or leave out {listed(outside, MOST_SHOWN)}, or name" if outside else "name"
    return PlanError(
        f"{reason}\n{_shown(nodes, table, outside)}",
        fix=f"{mend} the interface that reaches the others:  {_line(nodes, usable)}",
        nodes=outside,
    )


def nothing_proven(
    nodes: Sequence[Node],
    facts: Sequence[NodeFacts],
    table: Sequence[Row],
    proof: Proof,
    evidence: Evidence,
    unwished: Joint | None,
) -> PlanError:
    """No answer works for all pairs that were tried: who or what is in the way of the one that comes nearest.

    ``unwished`` is what works for all if the cluster file's wishes are left out.
    """
    names = [node.name for node in nodes]
    nearest = _nearest(table, proof)
    picks = [row[number] for row, number in zip(table, nearest, strict=True)]
    verdict = blame(picks, evidence)
    wishes = list(dict.fromkeys(filter(None, map(wished, nodes))))
    head = "no network works for all nodes"
    fix = verdict.fix
    if wishes:
        head = f"the cluster file's wish ({listed(wishes)}) does not work for all nodes"
        if unwished is not None:
            fix = f"take the wish out: without it {unwished.name} is proven for all nodes"
            if len({pick.interface for pick in unwished.picks}) == 1:
                fix += f";  or name it:  network: {{interface: {unwished.picks[0].interface}}}"
    verdicts = table_of_verdicts(table, None, (), proof, evidence)
    ordered = sorted(zip(names, verdicts, strict=True), key=lambda pair: pair[0] not in verdict.nodes)
    rows = [
        (v.candidate.node, v.candidate.interface, f"{v.candidate.address}/{v.candidate.prefix}", v.reason or v.verdict)
        for _, row in ordered[:MOST_SHOWN]
        for v in row
        if not v.candidate.ip.is_loopback
    ]
    elsewhere = _works_among(table, proof, names)
    return PlanError(
        "\n".join([head, *verdict.lines, *elsewhere, "all addresses:", aligned(rows), *_more(len(nodes))]),
        fix=fix,
        nodes=verdict.nodes,
    )


def _nearest(table: Sequence[Row], proof: Proof) -> list[int]:
    """The picks with the most proven pairs, then the best, of those that lie in the networks that most nodes have."""
    usable = [[c for c in row if not c.rejected] for row in table]
    shared: dict[object, set[int]] = {}
    for at, row in enumerate(usable):
        for candidate in row:
            shared.setdefault(candidate.network, set()).add(at)
    networks = sorted(shared, key=lambda network: -len(shared[network]))[:MOST_SHOWN]
    trials = [[_in(row, network) for row in usable] for network in networks]
    return max(trials, key=lambda picks: (proof.proven(picks), _rank(table, picks)))


def _rank(table: Sequence[Row], picks: Sequence[int]) -> Rank:
    return Joint(tuple(row[number] for row, number in zip(table, picks, strict=True)), None).rank


def _in(row: Sequence[Candidate], network: object) -> int:
    """The node's candidate in that network, else its first that is no link-local address."""
    return min(row, key=lambda c: (c.network != network, c.link_local, c.order)).order


def _works_among(table: Sequence[Row], proof: Proof, names: Sequence[str]) -> list[str]:
    """Networks that join some of the nodes, at least two."""
    groups: dict[object, dict[int, Candidate]] = {}
    for at, row in enumerate(table):
        for candidate in row:
            if not candidate.rejected:
                groups.setdefault(candidate.network, {}).setdefault(at, candidate)
    lines = []
    pairs = [*proof.pairs()]
    for network in sorted(groups, key=lambda network: -len(groups[network]))[:MOST_SHOWN]:
        members = groups[network]
        inside = [(a, b) for a, b in pairs if a in members and b in members]
        good = {at for a, b in inside if _work(proof, members, a, b) for at in (a, b)}
        tried = [(a, b) for a, b in inside if a in good and b in good]
        if tried and all(_work(proof, members, a, b) for a, b in tried):
            lines.append(f"  {network} works among {listed([names[at] for at in sorted(good)], MOST_SHOWN)}")
    return lines


def _work(proof: Proof, members: dict[int, Candidate], a: int, b: int) -> bool:
    return proof.works(a, members[a].order, b, members[b].order)


def _shown(nodes: Sequence[Node], table: Sequence[Row], first: Sequence[str]) -> str:
    """The table of candidates; of many nodes those in ``first`` and some to hold against them."""
    ordered = sorted(zip(nodes, table, strict=True), key=lambda pair: pair[0].name not in first)
    return "\n".join([candidate_table(row for _, row in ordered[:MOST_SHOWN]), *_more(len(nodes))])


def _more(nnodes: int) -> list[str]:
    return [f"  … and {nnodes - MOST_SHOWN} more nodes"] if nnodes > MOST_SHOWN else []


def _line(nodes: Sequence[Node], usable: Sequence[Row]) -> str:
    """What to write into the cluster file, with an interface that there is."""
    common = set.intersection(*({c.interface for c in row} for row in usable))
    example = next((c.interface for row in usable for c in row if not common or c.interface in common), "NAME")
    return f"network: {{interface: {example}}}" if common else f"on each node:  {entry(nodes[0], example)}"
