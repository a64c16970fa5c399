"""From measured throughput to the culprit: which node or link is slow, and what must be measured again to tell."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ncclrun.model.netevents import Problem
from ncclrun.model.plan import Endpoint
from ncclrun.model.words import listed

Pair = tuple[int, int]
"""Who sends, who receives."""
Rates = Mapping[Pair, float]
"""Gbit/s from one node to another; 0 where the transfer failed."""

SENDING, RECEIVING = WAYS = (0, 1)
"""The place of a node in a pair."""
WORDS = ("sending", "receiving")
SLOW = 0.5
"""Slow is what is below this share of the usual."""
PARTNERS = 2
"""With how many others a doubtful node is measured again."""


@dataclass(frozen=True)
class Suspects:
    """What is slow or fails by the first measurement, in which all nodes were busy at once.

    ``nodes``: for each way those that are slow with more than half of the others; ``pairs``: those slow pairs that
    are not theirs.
    """

    usual: float
    """Gbit/s of a sound pair."""
    slow: tuple[Pair, ...]
    """All slow pairs."""
    nodes: tuple[frozenset[int], frozenset[int]]
    pairs: tuple[Pair, ...]

    def is_slow(self, rate: float) -> bool:
        """Whether a rate is far below the usual."""
        return rate < SLOW * self.usual


@dataclass(frozen=True)
class Verdict:
    """What is wrong, and the nodes that it concerns: one, or the two ends of a link, or more."""

    nodes: tuple[int, ...]
    problem: Problem


def usual_rate(rates: Rates) -> float:
    """What a sound pair does here: the median of the nodes' best rates, Gbit/s.

    The median of all rates would do for many nodes; among three, one bad node spoils four pairs of six.
    """
    best: dict[int, float] = defaultdict(float)
    for pair, rate in rates.items():
        for node in pair:
            best[node] = max(best[node], rate)
    return median(best.values()) if best else 0.0


def suspects(rates: Rates) -> Suspects:
    """Which nodes and pairs are in doubt."""
    usual = usual_rate(rates)
    slow = tuple(pair for pair, rate in sorted(rates.items()) if rate < SLOW * usual or not rate)
    every, bad = ([Counter(pair[way] for pair in pairs) for way in WAYS] for pairs in (rates, slow))
    sending, receiving = (frozenset(n for n in bad[way] if 2 * bad[way][n] > every[way][n]) for way in WAYS)
    dead = [Counter(pair[way] for pair in slow if not rates[pair]) for way in WAYS]
    # What fails for a node here and there is no slowness of its own.
    rest = tuple(
        pair
        for pair in slow
        if (pair[SENDING] not in sending and pair[RECEIVING] not in receiving)
        or (not rates[pair] and all(2 * dead[way][pair[way]] <= every[way][pair[way]] for way in WAYS))
    )
    return Suspects(usual, slow, (sending, receiving), rest)


# --- what to measure again


def retests(rates: Rates) -> list[list[Pair]]:
    """Rounds of pairs to measure again, both ways; no node is in two pairs of a round. [] where nothing is in doubt.

    Each suspect node meets those with which it did best; of a suspect pair both ends do so, and then each other.
    Between two nodes nothing more can be told.
    """
    doubt = suspects(rates)
    if not doubt.usual or len({node for pair in rates for node in pair}) < 3:
        return []
    wanted: list[Pair] = []
    for way in WAYS:
        for node in sorted(doubt.nodes[way]):
            wanted += ((node, other) for other in _best_partners(rates, doubt, node, way)[:PARTNERS])
    for pair in doubt.pairs:
        for way in WAYS:
            wanted += ((pair[way], other) for other in _best_partners(rates, doubt, pair[way], way)[:1])
    return _apart(dict.fromkeys((min(pair), max(pair)) for pair in (*wanted, *doubt.pairs)))


def _best_partners(rates: Rates, doubt: Suspects, node: int, way: int) -> list[int]:
    """The others by how well it went with them: with the best of them a sound node is not slow, whatever the rest."""
    with_it = {pair[1 - way]: rate for pair, rate in rates.items() if pair[way] == node}
    dubious = doubt.nodes[SENDING] | doubt.nodes[RECEIVING]
    return sorted(with_it, key=lambda other: (doubt.is_slow(with_it[other]), other in dubious, -with_it[other], other))


def _apart(pairs: Iterable[Pair]) -> list[list[Pair]]:
    rounds: list[list[Pair]] = []
    for pair in pairs:
        free = (found for found in rounds if not any(set(pair) & set(other) for other in found))
        found = next(free, None)
        if found is None:
            rounds.append(found := [])
        found.append(pair)
    return rounds


# --- what it comes to


def verdicts(names: Sequence[str], endpoints: Sequence[Endpoint], first: Rates, again: Rates) -> tuple[Verdict, ...]:
    """What is slow for sure; ``again`` has the rates of ``retests``. () where nothing is slow."""
    doubt = suspects(first)
    if not doubt.slow:
        return ()
    if not doubt.usual:
        return (_nothing(sorted({node for pair in first for node in pair})),)
    if len({node for pair in first for node in pair}) < 3:
        return (_undecided(names, doubt.slow[0], first),)
    return tuple(_Judge(names, endpoints, doubt, again).verdicts())


class _Judge:
    """Puts each slow pair down to a node, to the link, to chance, or to what several links share, in this order."""

    def __init__(self, names: Sequence[str], endpoints: Sequence[Endpoint], doubt: Suspects, again: Rates) -> None:
        self._names = names
        self._endpoints = endpoints
        self._doubt = doubt
        self._again = again

    def verdicts(self) -> Iterator[Verdict]:
        """All of them."""
        bad = [{node for node in self._candidates(way) if self._is_bad(node, way)} for way in WAYS]
        now = usual_rate(self._again)
        if 2 * len(bad[SENDING] | bad[RECEIVING]) > len(self._names) and self._doubt.is_slow(now):
            yield self._unsteady(now)
            return
        for node in sorted(bad[SENDING] | bad[RECEIVING]):
            yield self._node(node, [way for way in WAYS if node in bad[way]])
        rest = [
            pair
            for pair in self._doubt.slow
            if not any(self._explains(node, way, pair) for way in WAYS for node in bad[way])
        ]
        slow = [pair for pair in rest if pair in self._again and self._doubt.is_slow(self._again[pair])]
        sound = [pair for pair in rest if pair in self._again and pair not in slow]
        well = [{pair[way] for pair in sound} & self._doubt.nodes[way] for way in WAYS]
        links = [pair for pair in slow if pair in self._doubt.pairs or any(pair[way] in well[way] for way in WAYS)]
        for ends in sorted({(min(pair), max(pair)) for pair in links}):
            yield self._link([pair for pair in links if set(pair) == set(ends)])
        rest = [pair for pair in rest if pair not in links]
        # A node that was slow with everybody and is so no more does not need each of its pairs measured again.
        chance = [p for p in rest if p in sound or (p not in slow and any(p[way] in well[way] for way in WAYS))]
        if chance:
            yield self._chance(chance)
        shared = [pair for pair in rest if pair not in chance]
        if shared:
            yield self._shared(shared)

    def _candidates(self, way: int) -> set[int]:
        return {*self._doubt.nodes[way], *(pair[way] for pair in self._doubt.pairs)}

    def _rates(self, node: int, way: int) -> list[float]:
        """How it did again, without the pairs that are in doubt themselves."""
        return [r for pair, r in self._again.items() if pair[way] == node and pair not in self._doubt.pairs]

    def _is_bad(self, node: int, way: int) -> bool:
        rates = self._rates(node, way)
        return bool(rates) and all(self._doubt.is_slow(rate) for rate in rates)

    def _explains(self, node: int, way: int, pair: Pair) -> bool:
        """Whether a bad node is what is wrong with a pair: not with one that fails while others of it are but slow."""
        fails = self._again.get(pair) == 0 and max(self._rates(node, way), default=0.0) > 0
        return pair[way] == node and not fails

    def _node(self, node: int, ways: list[int]) -> Verdict:
        name, best = self._names[node], {way: max(self._rates(node, way), default=0.0) for way in WAYS}
        told = " and ".join(f"{_speed(best[way])} {WORDS[way]}" for way in ways)
        well = [way for way in WAYS if way not in ways and not self._doubt.is_slow(best[way])]
        but = "".join(f"; {WORDS[way]} it does {_speed(best[way])}" for way in well)
        message = f"{name} itself is slow: {told}, with the best of the others too, where {self._usual} is usual{but}"
        card = self._endpoints[node].interface
        look = f"sudo ethtool {card}; ip -s link show dev {card}"
        fix = f"look at the card's speed and errors on {name}:  {look};  then at cable and switch port"
        return Verdict((node,), _problem("slow_node", message, fix, dead=not any(best[way] for way in ways)))

    def _link(self, pairs: list[Pair]) -> Verdict:
        told = ", ".join(f"{self._arrow(pair)} {_speed(self._again[pair])}" for pair in pairs)
        dead = not any(self._again[pair] for pair in pairs)
        message = (
            f"nothing comes through {', '.join(map(self._arrow, pairs))}, twice; with others something does"
            if dead
            else f"only the link is slow: {told}, twice; with others both ends are well ({self._usual} is usual)"
        )
        one, other = sorted(pairs[0])
        ways = [
            f"ip route get {self._endpoints[there].address}  on {self._names[here]}"
            for here, there in ((one, other), (other, one))
        ]
        fix = f"look at what lies between these two alone:  {',  '.join(ways)},  and the switches"
        return Verdict(tuple(sorted(pairs[0])), _problem("slow_link", message, fix, dead=dead))

    def _unsteady(self, now: float) -> Verdict:
        message = (
            f"most are slower when measured again: {_speed(now)}, where {self._usual} was usual at first; something "
            "else keeps the network or the hosts busy, and nothing can be told of single nodes"
        )
        fix = "measure again when they are idle, or longer:  --seconds 10"
        return Verdict(_nodes([*self._doubt.slow, *self._again]), _problem("unsteady", message, fix))

    def _chance(self, pairs: list[Pair]) -> Verdict:
        message = (
            f"slow at first, and well when measured again: {self._list(pairs)}; other traffic may have been in the way"
        )
        return Verdict(_nodes(pairs), _problem("not_confirmed", message, "measure again when the network is idle"))

    def _shared(self, pairs: list[Pair]) -> Verdict:
        message = (
            f"slow: {self._list(pairs)}, though each of these nodes is well with others ({self._usual} is usual): "
            "what these pairs share is the bottleneck"
        )
        fix = "look at what lies between these groups: the uplink between two switches, a router"
        return Verdict(_nodes(pairs), _problem("slow_paths", message, fix))

    @property
    def _usual(self) -> str:
        return _speed(self._doubt.usual)

    def _arrow(self, pair: Pair) -> str:
        return f"{self._names[pair[SENDING]]} → {self._names[pair[RECEIVING]]}"

    def _list(self, pairs: list[Pair]) -> str:
        return listed([self._arrow(pair) for pair in pairs])


def _nodes(pairs: Iterable[Pair]) -> tuple[int, ...]:
    return tuple(sorted({node for pair in pairs for node in pair}))


def _nothing(nodes: Sequence[int]) -> Verdict:
    fix = "see the errors of the single pairs; a firewall that lets no high ports through looks like this"
    return Verdict(tuple(nodes), _problem("no_transfer", "nothing came through between any two nodes", fix, dead=True))


def _undecided(names: Sequence[str], pair: Pair, rates: Rates) -> Verdict:
    one, other = names[pair[SENDING]], names[pair[RECEIVING]]
    there, back = _speed(rates[pair]), _speed(rates.get((pair[RECEIVING], pair[SENDING]), 0.0))
    message = (
        f"{one} → {other} {there}, back {back}: with two nodes it can't be told whether one of them or the link is slow"
    )
    problem = _problem("undecided", message, "measure with a third node beside them", dead=not rates[pair])
    return Verdict(_nodes([pair]), problem)


def _problem(code: str, message: str, fix: str, *, dead: bool = False) -> Problem:
    return Problem(code=code, message=message, fix=fix, level="error" if dead else "warning")


def _speed(gbits: float) -> str:
    return f"{gbits:.3g} Gbit/s" if gbits else "nothing"
