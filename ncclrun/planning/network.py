"""Which interface and address each node uses to talk to the others: by the facts alone a guess, by evidence proven."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ncclrun.model.cluster import Node
from ncclrun.model.facts import NodeFacts
from ncclrun.model.network import Evidence
from ncclrun.model.plan import Endpoint
from ncclrun.planning.choice import refusals
from ncclrun.planning.choice.answers import FAMILIES, Joint, all_answers, best, of_family
from ncclrun.planning.choice.candidates import Candidate, IPNetwork, Row, all_candidates, one_machine, usable
from ncclrun.planning.choice.notes import Note, notes_on
from ncclrun.planning.choice.proof import Proof
from ncclrun.planning.choice.verdicts import Verdict, difference, table_of_verdicts
from ncclrun.planning.choice.wishes import refuse_impossible_wishes, wish, wished, without_wishes

__all__ = ["Choice", "Note", "Verdict", "choose", "judged_without_choice", "probe_addresses"]

MOST_PROBED = 64
"""Addresses of one node that are probed: it holds five ports open for each, and refuses more (node/doors.py)."""


@dataclass(frozen=True)
class Choice:
    """One endpoint a node; a verdict for each of a node's candidates (rows as the nodes); what else is to be said."""

    endpoints: tuple[Endpoint, ...]
    table: tuple[tuple[Verdict, ...], ...]
    notes: tuple[Note, ...]
    why: str


def choose(nodes: Sequence[Node], facts: Sequence[NodeFacts], evidence: Evidence | None) -> Choice:
    """The best network that is proven for all, or without evidence the one that the facts speak for.

    User's wish, then what works for all, RDMA, speed, MTU, cards over virtual ones, what carries neither SSH nor the
    default route, and the kernels' order; a subnet that all share comes before anything that is routed. Raises
    PlanError, with the evidence and those who keep the others from it, when there is none.
    """
    table = all_candidates(nodes, facts)
    if one_machine(facts) and not any(wish(node) for node in nodes):
        return _on_loopback(nodes, facts, table)
    refuse_impossible_wishes(nodes, table)
    rows, proof = usable(table), None if evidence is None else Proof(table, evidence)
    answers = all_answers(nodes, rows, proof)
    if not answers:
        if proof is None or not any(all(of_family(rows, family)) for family in FAMILIES):
            raise refusals.no_address(nodes, table)
        raise refusals.nothing_proven(nodes, table, proof, _unwished(nodes, facts, proof.evidence))
    choice = best(answers)
    others = [answer for answer in answers if answer is not choice]
    return Choice(
        endpoints=_endpoints(nodes, choice.picks, _standing(choice, proof)),
        table=table_of_verdicts(table, choice, others, proof),
        notes=notes_on(choice, others, table, proof),
        why=_why(nodes, choice, others, proof),
    )


def judged_without_choice(
    nodes: Sequence[Node], facts: Sequence[NodeFacts], evidence: Evidence | None
) -> tuple[tuple[Verdict, ...], ...]:
    """The table of a choice that there was not: each candidate rejected or usable, as far as ``evidence`` tells."""
    table = all_candidates(nodes, facts)
    return table_of_verdicts(table, None, (), None if evidence is None else Proof(table, evidence))


def probe_addresses(
    nodes: Sequence[Node], facts: Sequence[NodeFacts], endpoints: Sequence[Endpoint] | None = None
) -> tuple[tuple[str, ...], ...]:
    """For each node the addresses to probe: its endpoint's alone, or each that could be used.

    These may go against a wish: should that fail, it is known what would have worked. Of a node with more than
    MOST_PROBED the likely ones are taken.
    """
    if endpoints is not None:
        return tuple((endpoint.address,) for endpoint in endpoints)
    wanted, free = all_candidates(nodes, facts), all_candidates(without_wishes(nodes), facts)
    rows = [
        [c for c, other in zip(row, others, strict=True) if not (c.rejected and other.rejected)]
        for row, others in zip(wanted, free, strict=True)
    ]
    spread = Counter(network for row in rows for network in {c.network for c in row})
    return tuple(tuple(dict.fromkeys(c.address for c in _likely(row, spread))) for row in rows)


def _likely(row: Row, spread: Mapping[IPNetwork, int]) -> Row:
    """Those that a node can listen at, in order: what is wished for and announced, and in subnets that most share."""
    if len(row) <= MOST_PROBED:
        return row
    best_first = sorted(
        row, key=lambda c: (not c.unwanted, c.quality.announced, spread[c.network], c.quality), reverse=True
    )
    return sorted(best_first[:MOST_PROBED], key=lambda c: c.order)


def _unwished(nodes: Sequence[Node], facts: Sequence[NodeFacts], evidence: Evidence) -> Joint | None:
    """What the evidence proves if nobody wishes for anything; None if nothing, or if there is no wish."""
    if not any(map(wished, nodes)):
        return None
    free = without_wishes(nodes)
    table = all_candidates(free, facts)
    answers = all_answers(free, usable(table), Proof(table, evidence))
    return best(answers) if answers else None


def _on_loopback(nodes: Sequence[Node], facts: Sequence[NodeFacts], table: Sequence[Row]) -> Choice:
    """All nodes are one machine: its loopback joins them whatever the network does."""
    wanted = "::1" if any(node.network.family == "ipv6" for node in nodes) else "127.0.0.1"
    picks = []
    for node, fact, row in zip(nodes, facts, table, strict=True):
        up = {interface.name for interface in fact.interfaces if interface.up}
        loopback = next((c for c in row if c.address == wanted and c.interface in up), None)
        if loopback is None:
            raise refusals.no_loopback(node, row, wanted)
        picks.append(replace(loopback, rejected=""))
    why = "all nodes are one machine"
    verdicts = tuple(
        tuple(
            Verdict(pick, "chosen", why)
            if c.order == pick.order
            else Verdict(c, "rejected" if c.rejected else "usable", c.rejected or f"{why}: loopback is enough")
            for c in row
        )
        for row, pick in zip(table, picks, strict=True)
    )
    return Choice(endpoints=_endpoints(nodes, picks, why), table=verdicts, notes=(), why=why)


def _endpoints(nodes: Sequence[Node], picks: Sequence[Candidate], why: str) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(interface=pick.interface, address=pick.address, why=wish(node) or why)
        for node, pick in zip(nodes, picks, strict=True)
    )


def _standing(choice: Joint, proof: Proof | None) -> str:
    if choice.network is not None:
        return f"the subnet {choice.network} that they share"
    if proof is None:
        return "no subnet is shared by all nodes: the best address of each, which needs proof"
    return "no subnet works for all nodes: proven over their routes"


def _why(nodes: Sequence[Node], choice: Joint, others: Sequence[Joint], proof: Proof | None) -> str:
    wishes = list(dict.fromkeys(filter(None, map(wish, nodes))))
    parts = [wishes[0] if len(wishes) == 1 and all(map(wish, nodes)) else _standing(choice, proof)]
    if others:
        second = best(others)
        poorer = difference(second.quality, choice.quality) or "equal on all counts, and listed later"
        parts.append(f"{second.name} is second ({poorer})")
    return "; ".join(parts)
