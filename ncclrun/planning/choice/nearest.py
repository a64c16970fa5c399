"""The joint answer that comes nearest where none is proven for all: what an error starts from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ncclrun.planning.choice.answers import FAMILIES, Joint
from ncclrun.planning.choice.candidates import Candidate, IPNetwork, Quality, Row, usable
from ncclrun.planning.choice.proof import Proof

MOST_TRIALS = 16
"""Networks that are looked at, those that most nodes have."""
MOST_ROUNDS = 4


@dataclass(frozen=True)
class Nearest:
    """One usable candidate a node, and the subnet in which most of them lie (None: each is in its own)."""

    picks: tuple[Candidate, ...]
    network: IPNetwork | None
    absent: tuple[int, ...]
    """Nodes that work with nobody and have no usable address in ``network``."""
    table: Sequence[Row]

    def address_there(self, node_rank: int) -> Candidate | None:
        """The node's address in the network that can't be used as it is, but could be mended."""
        inside = (c for c in self.table[node_rank] if c.mend and self.network is not None and c.ip in self.network)
        return next(inside, None)

    def owners(self, candidate: Candidate) -> list[str]:
        """The nodes that have this address, each with the interface."""
        found = {c.node: c.interface for row in self.table for c in row if c.address == candidate.address}
        return [f"{node} ({interface})" for node, interface in found.items()]

    def kept_from(self, node_rank: int) -> Candidate | None:
        """The node's address in the network that only the cluster file's wish for another one speaks against."""
        inside = (c for c in self.table[node_rank] if c.unwanted and self.network is not None and c.ip in self.network)
        return next(inside, None)


def nearest(table: Sequence[Row], proof: Proof) -> Nearest:
    """The picks with the most proven pairs; of equals those in the subnet that most nodes have, then the best."""
    rows = usable(table)
    inside: dict[IPNetwork, set[int]] = defaultdict(set)
    mendable: dict[IPNetwork, set[int]] = defaultdict(set)
    for at, row in enumerate(table):
        for candidate in row:
            if not candidate.rejected:
                inside[candidate.network].add(at)
            elif candidate.mend:
                mendable[candidate.network].add(at)
    networks = sorted(inside, key=lambda net: (-len(inside[net]), -len(mendable[net] - inside[net])))[:MOST_TRIALS]
    trials = [(_climb(_start(rows, proof, net), rows, proof), net) for net in (*networks, *_families(rows))]

    def worth(trial: tuple[list[int], IPNetwork | str]) -> tuple[int, int, int, Quality]:
        picks, net = trial
        had = (len(inside[net]), len(mendable[net] | inside[net])) if not isinstance(net, str) else (1, 1)
        return proof.proven(picks), *had, Joint(_picked(table, picks), None).quality

    picks, wanted = max(trials, key=worth)
    return _judged(table, _like_the_others(picks, rows, proof), wanted, proof)


def _families(rows: Sequence[Row]) -> list[str]:
    """The families that every node has: there may be an answer over routers."""
    return [family for family in FAMILIES if all(any(c.family == family for c in row) for row in rows)]


def _picked(table: Sequence[Row], picks: Sequence[int]) -> tuple[Candidate, ...]:
    return tuple(row[number] for row, number in zip(table, picks, strict=True))


def _start(rows: Sequence[Row], proof: Proof, wanted: IPNetwork | str) -> list[int]:
    """For each node its address in that subnet, or of that family; else what works with most others, then the best."""
    everything = [sum(1 << c.order for c in row) for row in rows]
    family = wanted if isinstance(wanted, str) else f"ipv{wanted.version}"

    def worth(at: int) -> Callable[[Candidate], tuple[object, ...]]:
        return lambda c: (
            c.network == wanted,
            c.family == family,
            -len(proof.alone(at, c.order, everything)),
            c.quality,
            -c.order,
        )

    return [max(row, key=worth(at)).order for at, row in enumerate(rows)]


def _climb(picks: list[int], rows: Sequence[Row], proof: Proof) -> list[int]:
    """Lets each node in turn take what works with more of the others' picks, until none can."""
    for _ in range(MOST_ROUNDS):
        changed = False
        for at, row in enumerate(rows):
            held = proof.partners_with(at, picks[at], picks)
            for candidate in row:
                more = proof.partners_with(at, candidate.order, picks)
                if more > held:
                    picks[at], held, changed = candidate.order, more, True
        if not changed:
            break
    return picks


def _like_the_others(picks: Sequence[int], rows: Sequence[Row], proof: Proof) -> list[int]:
    """Over routers nothing but its name tells which address a lone node should have been reached at."""
    lone = [not proof.partners_with(at, number, picks) for at, number in enumerate(picks)]
    by_number = [{c.order: c for c in row} for row in rows]
    good = [by_number[at][number] for at, number in enumerate(picks) if not lone[at]]
    names, networks = Counter(c.interface for c in good), {c.network for c in good}

    def alike(at: int, held: int) -> int:
        if not lone[at] or by_number[at][held].network in networks:
            return held
        family = by_number[at][held].family
        return max(rows[at], key=lambda c: (c.family == family, names[c.interface], c.order == held)).order

    return [alike(at, held) for at, held in enumerate(picks)]


def _judged(table: Sequence[Row], numbers: Sequence[int], wanted: IPNetwork | str, proof: Proof) -> Nearest:
    picks = _picked(table, numbers)
    lone = {at for at, number in enumerate(numbers) if not proof.partners_with(at, number, numbers)}
    # Where groups have a subnet each, the one that was started from may have been left by most.
    networks = dict.fromkeys([*([] if isinstance(wanted, str) else [wanted]), *(pick.network for pick in picks)])
    joined = {net: [at for at, pick in enumerate(picks) if pick.ip in net] for net in networks}
    network = max(joined, key=lambda net: (len(joined[net]), net == wanted))
    absent = tuple(at for at in sorted(lone) if at not in joined[network])
    found = Nearest(picks, network, absent, table)
    proven = any(at not in lone for at in joined[network])
    mendable = any(found.address_there(at) is not None for at in absent)
    if mendable or (len(joined[network]) > 1 and (proven or 2 * len(joined[network]) > len(picks))):
        return found
    return Nearest(picks, None, (), table)
