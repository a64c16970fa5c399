"""What became of each candidate and why, with the evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from ncclrun.model.network import Link
from ncclrun.planning.choice.answers import Joint
from ncclrun.planning.choice.candidates import Candidate, Quality, Row
from ncclrun.planning.choice.proof import Proof, bits
from ncclrun.planning.choice.wording import about_address


@dataclass(frozen=True)
class Verdict:
    """One candidate, what became of it, and the reason with its evidence."""

    candidate: Candidate
    verdict: Literal["chosen", "usable", "rejected"]
    reason: str


def difference(lower: Quality, higher: Quality) -> str:
    """The first thing in which one answer is poorer than another; "" if they are equal."""
    if lower.routable != higher.routable:
        return "link-local"
    if lower.announced != higher.announced:
        return "not the first address of its interface, and NCCL announces the first"
    if lower.outward != higher.outward:
        return "a bridge without a network card in it"
    if lower.ipv4 != higher.ipv4:
        return "IPv6, and IPv4 works as well"
    if lower.rdma != higher.rdma:
        return "no RDMA port that NCCL could use, the other has one on every node"
    if lower.speed != higher.speed:
        return f"lower speed: {_gbits(lower.speed)} against {_gbits(higher.speed)}"
    if lower.mtu != higher.mtu:
        return f"smaller MTU: {lower.mtu} against {higher.mtu}"
    if lower.plain != higher.plain:
        return "virtual, the other is a card"
    return "carries the SSH connection or the default route" if lower.apart != higher.apart else ""


def _gbits(speed: int) -> str:
    return f"{speed / 1000:g} Gbit/s" if speed else "unknown"


def table_of_verdicts(
    table: Sequence[Row],
    choice: Joint | None,
    others: Sequence[Joint],
    proof: Proof | None,
) -> tuple[tuple[Verdict, ...], ...]:
    """A verdict for every candidate of every node; ``choice`` is None when there is no answer."""
    words = _Words(table, choice, others, proof)
    return tuple(tuple(words.judge(node_rank, c) for c in row) for node_rank, row in enumerate(table))


class _Words:
    """The reasons, from what all candidates have in common."""

    def __init__(
        self, table: Sequence[Row], choice: Joint | None, others: Sequence[Joint], proof: Proof | None
    ) -> None:
        self._choice, self._proof = choice, proof
        self._names = [row[0].node if row else "" for row in table]
        self._usable = [bits(c.order for c in row if not c.rejected) for row in table]
        self._lost = {(node_rank, pick.order): other for other in others for node_rank, pick in enumerate(other.picks)}
        self._addresses = [{c.address: c for c in row} for row in table]
        self._links: dict[tuple[int, str], list[Link]] = defaultdict(list)
        for link in proof.evidence.links if proof is not None else ():
            self._links[link.peer, link.address].append(link)

    def judge(self, node_rank: int, candidate: Candidate) -> Verdict:
        """The verdict on one candidate."""
        if self._choice is not None and self._choice.picks[node_rank] == candidate:
            return Verdict(candidate, "chosen", self._evidence(node_rank, candidate) or _standing(self._choice))
        if candidate.rejected:
            return Verdict(candidate, "rejected", candidate.rejected)
        if self._proof is not None and (node_rank, candidate.address) not in self._links:
            return Verdict(candidate, "usable", "not tried")
        alone = self._proof.alone(node_rank, candidate.order, self._usable) if self._proof is not None else []
        evidence = self._evidence(node_rank, candidate, alone)
        if alone:
            return Verdict(candidate, "rejected", evidence)
        return Verdict(candidate, "usable", "; ".join(filter(None, [self._lost_by(node_rank, candidate), evidence])))

    def _lost_by(self, node_rank: int, candidate: Candidate) -> str:
        if candidate.instead:
            return f"NCCL would announce {candidate.instead}, the first address of {candidate.interface}"
        if self._choice is None:
            if self._proof is not None:
                return ""
            return "link-local, and not shared" if candidate.link_local else "not tried"
        pick = self._choice.picks[node_rank]
        if self._choice.network is not None and candidate.ip in self._choice.network:
            return f"{pick.interface} {pick.address} is in the same subnet and comes first"
        joint = self._lost.get((node_rank, candidate.order))
        if joint is not None:
            return (
                difference(joint.quality, self._choice.quality)
                or f"equal to {self._choice.name}, which is listed first"
            )
        return "not in a subnet that all nodes share"

    def _evidence(self, node_rank: int, candidate: Candidate, alone: Collection[int] = ()) -> str:
        """From addresses of other networks an attempt may well fail: that says nothing against the candidate."""
        return about_address(
            [
                link
                for link in self._links.get((node_rank, candidate.address), ())
                if link.source is None or self._belongs(link, candidate)
            ],
            self._names,
            alone,
        )

    def _belongs(self, link: Link, candidate: Candidate) -> bool:
        if self._choice is not None and self._choice.picks[link.peer] == candidate:
            return link.source == self._choice.picks[link.node_rank].address
        source = self._addresses[link.node_rank].get(link.source or "")
        return source is not None and source.ip in candidate.network


def _standing(choice: Joint) -> str:
    return f"in the subnet {choice.network} that they share" if choice.network else "the best that this node has"
