"""What the evidence allows: which addresses of two nodes work together, and whether one a node can be found for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ncclrun.model.network import Evidence
from ncclrun.planning.choice.candidates import Row


class Proof:
    """For each pair of nodes that was tried, which candidates reach each other both ways.

    A direction counts as proven when an attempt bound to the one address reached the other, and the kernel's own
    routing reaches it, too: NCCL listens on one interface, but leaves it to the kernel by which one it sends.
    Candidates go by their number in the node's row; sets of them are bits of a number, as that keeps a cluster of
    hundreds of nodes below a second.
    """

    def __init__(self, table: Sequence[Row], evidence: Evidence) -> None:
        forward = _Forward(table, evidence)
        self.evidence = evidence
        self.sent = Counter((link.node_rank, link.local) for link in evidence.links if link.source is None and link.ok)
        """How often the kernel chose an address as the source: by node_rank and address."""
        self._mutual: dict[tuple[int, int], list[int]] = {}
        self._neighbours: list[list[int]] = [[] for _ in table]
        for a in range(len(table)):
            for b in range(a + 1, len(table)):
                if evidence.tried(a, b) or evidence.tried(b, a):
                    there, back = forward.get(a, b), forward.get(b, a)
                    both = [bits & _column(back, number) for number, bits in enumerate(there)]
                    self._mutual[a, b] = both
                    self._mutual[b, a] = [_column(both, number) for number in range(len(table[b]))]
                    self._neighbours[a].append(b)
                    self._neighbours[b].append(a)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """All pairs that were tried, the lower node first."""
        return ((a, b) for a, b in self._mutual if a < b)

    def works(self, a: int, number: int, b: int, other: int) -> bool:
        """Whether candidate ``number`` of ``a`` and ``other`` of ``b`` reach each other; for pairs that were tried."""
        return bool(self._mutual[a, b][number] >> other & 1)

    def alone(self, node: int, number: int, usable: Sequence[int]) -> list[int]:
        """Partners none of whose ``usable`` candidates (bits, by node) works with this one."""
        return [b for b in self._neighbours[node] if not self._mutual[node, b][number] & usable[b]]

    def by_pairs(self, usable: Sequence[int]) -> bool:
        """Whether each tried pair works by some of its ``usable`` candidates (bits, by node)."""
        return all(any(self._mutual[a, b][n] & usable[b] for n in members(usable[a])) for a, b in self.pairs())

    def partners_with(self, node: int, number: int, picks: Sequence[int]) -> int:
        """With how many partners' picks this candidate of the node works."""
        return sum(self.works(node, number, b, picks[b]) for b in self._neighbours[node])

    def proven(self, picks: Sequence[int]) -> int:
        """How many of the tried pairs work with these picks."""
        return sum(self.works(a, picks[a], b, picks[b]) for a, b in self.pairs())

    def find(self, options: Sequence[Sequence[int]]) -> list[int] | None:
        """One candidate a node, out of ``options`` (numbers, best first), so that all tried pairs work.

        Looks ahead at each step and goes back on the first node alone, so it never takes more than options x nodes
        steps; where candidates form networks (who reaches one of it reaches all of it) that finds every answer.
        """
        domains = [bits(row) for row in options]
        if not all(domains) or not self._narrow(domains, range(len(domains))):
            return None
        for first in options[0]:
            if domains[0] >> first & 1:
                picks = self._settle(domains, options, first)
                if picks is not None:
                    return picks
        return None

    def _settle(self, domains: list[int], options: Sequence[Sequence[int]], first: int) -> list[int] | None:
        picks: list[int] = []
        for node, row in enumerate(options):
            for number in row if node else (first,):
                if not domains[node] >> number & 1:
                    continue
                trial = [*domains]
                trial[node] = 1 << number
                if trial == domains or self._narrow(trial, (node,)):
                    domains = trial
                    picks.append(number)
                    break
            else:
                return None
        return picks

    def _narrow(self, domains: list[int], changed: Iterable[int]) -> bool:
        """Takes out, in place, what works with nothing that a partner has left; False when a node has none left."""
        waiting = set(changed)
        while waiting:
            b = waiting.pop()
            for a in self._neighbours[b]:
                mutual, left = self._mutual[a, b], 0
                for number in members(domains[a]):
                    if mutual[number] & domains[b]:
                        left |= 1 << number
                if not left:
                    return False
                if left != domains[a]:
                    domains[a] = left
                    waiting.add(a)
        return True


class _Forward:
    """Proven directions: for each directed pair, by candidate of the one who tries, the candidates that it reaches."""

    def __init__(self, table: Sequence[Row], evidence: Evidence) -> None:
        self._table, self._evidence = table, evidence
        self._bound: dict[tuple[int, int], list[int]] = {}
        self._routed: dict[tuple[int, int], int] = {}
        places: list[dict[str, int]] = [{} for _ in table]
        for place, row in zip(places, table, strict=True):
            for number, candidate in enumerate(row):  # an address may be on two interfaces
                place[candidate.address] = place.get(candidate.address, 0) | 1 << number
        for link in evidence.links:
            if link.outcome != "reached":
                continue
            pair = (link.node_rank, link.peer)
            reached = places[link.peer].get(link.address, 0)
            if link.source is None:
                self._routed[pair] = self._routed.get(pair, 0) | reached
            # What the kernel sent from an address by itself proves as much as an attempt bound to it.
            sources = places[link.node_rank].get(link.local if link.source is None else link.source, 0)
            row_bits = self._bound.setdefault(pair, [0] * len(table[link.node_rank]))
            for number in members(sources):
                row_bits[number] |= reached

    def get(self, a: int, b: int) -> list[int]:
        """Nothing was tried: nothing speaks against it."""
        if not self._evidence.tried(a, b):
            return [(1 << len(self._table[b])) - 1] * len(self._table[a])
        routed = self._routed.get((a, b), 0)
        return [bound & routed for bound in self._bound.get((a, b), [0] * len(self._table[a]))]


def bits(numbers: Iterable[int]) -> int:
    """The numbers as a set of bits."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


def members(found: int) -> Iterator[int]:
    """The numbers in a set of bits, ascending."""
    while found:
        lowest = found & -found
        yield lowest.bit_length() - 1
        found ^= lowest


def _column(rows: Sequence[int], number: int) -> int:
    """The rows that have this bit, as bits."""
    return bits(at for at, row in enumerate(rows) if row >> number & 1)
