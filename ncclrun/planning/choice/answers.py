"""Joint answers: one address for each node that may work together, and which of several is the best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ncclrun.model.cluster import Node
from ncclrun.planning.choice.candidates import Candidate, IPNetwork, Quality, Row
from ncclrun.planning.choice.proof import Proof

FAMILIES = ("ipv4", "ipv6")
"""In the order in which they are tried."""


@dataclass(frozen=True)
class Joint:
    """One candidate a node, and the subnet that they share (None: each is in its own)."""

    picks: tuple[Candidate, ...]
    network: IPNetwork | None

    @cached_property
    def quality(self) -> Quality:
        """What speaks for it: the poorest node counts for all."""
        return Quality(*map(min, zip(*(pick.quality for pick in self.picks), strict=True)))

    @property
    def order(self) -> tuple[int, int, int]:
        """Decides between equals: what the kernels list first, all in all; then the lower network."""
        network = self.network
        rest = (0, 0) if network is None else (-int(network.network_address), -network.prefixlen)
        return (-sum(pick.order for pick in self.picks), *rest)

    @property
    def name(self) -> str:
        """The subnet, or the addresses of the first nodes."""
        if self.network is not None:
            return str(self.network)
        shown = ", ".join(f"{pick.interface} {pick.address}" for pick in self.picks[:2])
        return shown + (", …" if len(self.picks) > 2 else "")


def best(answers: Iterable[Joint]) -> Joint:
    """The one that is taken, whatever the order of the nodes."""
    return max(answers, key=lambda answer: (answer.quality, answer.order))


def all_answers(nodes: Sequence[Node], usable: Sequence[Row], proof: Proof | None) -> list[Joint]:
    """The answers to choose from: a subnet that all share comes before anything that is routed.

    Addresses that NCCL would not announce, as another one of the interface comes before them, are taken only by a
    node that has no other, or when nothing else works for all.
    """
    announced = [[c for c in row if not c.instead] or row for row in usable]
    found = in_shared_subnets(nodes, announced, proof) or routed(announced, proof)
    if not found and any(c.instead for row in usable for c in row):
        found = in_shared_subnets(nodes, usable, proof) or routed(usable, proof)
    return found


def shared_subnets(nodes: Sequence[Node], usable: Sequence[Row]) -> dict[IPNetwork, list[Row]]:
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


def of_family(usable: Iterable[Row], family: str) -> list[Row]:
    """The rows with the candidates of one family alone."""
    return [[c for c in row if c.family == family] for row in usable]


def in_shared_subnets(nodes: Sequence[Node], usable: Sequence[Row], proof: Proof | None) -> list[Joint]:
    """One answer for each subnet that all share (and that is proven, where there is proof)."""
    found = []
    for family in FAMILIES:
        for network, rows in shared_subnets(nodes, of_family(usable, family)).items():
            options = [senders_first(at, row, proof) for at, row in enumerate(rows)]
            picks = _search(options, proof)
            if picks is not None:
                found.append(Joint(picks, network))
    return found


def routed(usable: Sequence[Row], proof: Proof | None, above: Callable[[Candidate], bool] | None = None) -> list[Joint]:
    """The best answer over subnet borders, of each family; ``above`` leaves out candidates.

    With proof it is the one whose poorest node is the best that can be had; without, a guess: for each node what
    most others share, then what is best there.
    """
    rows = [[c for c in row if not c.link_local and (above is None or above(c))] for row in usable]
    found = []
    for family in FAMILIES:
        family_rows = of_family(rows, family)
        if not all(family_rows):
            continue
        picks = _guess(family_rows) if proof is None else _best_proven(family_rows, proof)
        if picks is not None:
            found.append(Joint(picks, None))
    return found


def _best_proven(rows: Sequence[Row], proof: Proof) -> tuple[Candidate, ...] | None:
    """Searches for the highest bar at which candidates below it can be done without."""
    ranked = [sorted(row, key=lambda c: (c.quality, -c.order), reverse=True) for row in rows]
    bars = sorted({c.quality for row in rows for c in row})
    low, high = 0, len(bars)
    found = _search(ranked, proof)
    while found is not None and high - low > 1:
        middle = (low + high) // 2
        trial = _search([[c for c in row if c.quality >= bars[middle]] for row in ranked], proof)
        if trial is None:
            high = middle
        else:
            low, found = middle, trial
    return found


def _guess(rows: Sequence[Row]) -> tuple[Candidate, ...]:
    shared = Counter(network for row in rows for network in {c.network for c in row})
    return tuple(max(row, key=lambda c: (shared[c.network], c.quality, -c.order)) for row in rows)


def _search(options: Sequence[Row], proof: Proof | None) -> tuple[Candidate, ...] | None:
    if proof is None:
        return tuple(row[0] for row in options)
    numbers = proof.find([[c.order for c in row] for row in options])
    if numbers is None:
        return None
    return tuple(next(c for c in row if c.order == number) for row, number in zip(options, numbers, strict=True))


def senders_first(node_rank: int, row: Row, proof: Proof | None) -> Row:
    """Several addresses of a node in one subnet: those first that NCCL announces, then those the kernel sends by."""
    if len(row) == 1:
        return row
    sent: Counter[tuple[int, str]] = Counter() if proof is None else proof.sent
    return sorted(row, key=lambda c: (bool(c.instead), -sent[node_rank, c.address], c.order))
