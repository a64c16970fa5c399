"""What the supervisors tell of each other -> the node that the others do not hear any more, and why that may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MARGIN = 1.0
"""Seconds beyond the lease after which it counts: by then both ends of a link have told of its silence."""
APART = 2.0
"""Two who began to hear nothing at the same moment tell of it with at most so many seconds between them."""


@dataclass(frozen=True)
class Teller:
    """One node whose part of the run has not ended."""

    node_rank: int
    name: str
    answers: bool
    """Whether ncclrun hears its host."""
    hears: Mapping[int, float | None]
    """Seconds for which its supervisor had not heard those of others, by node_rank; None: that one has said its end.

    Node 0 hears all, the others hear node 0. What a host that does not answer said last is of no account.
    """
    halted: bool
    """Whether a signal has halted its supervisor."""


@dataclass(frozen=True)
class CutOff:
    """A node that the run can't go on with."""

    node_rank: int
    seconds: float
    """For how long it was not heard."""
    why: str


def cut_off(tellers: Sequence[Teller], lease: float) -> CutOff | None:
    """The node whose link to the others is silent for longer than the lease, None where there is none."""
    first = next((teller for teller in tellers if teller.node_rank == 0), None)
    if first is None:
        return None
    others = [teller for teller in tellers if teller is not first]
    silence = {other.node_rank: max(_word(first, other), _word(other, first)) for other in others}
    silent = [other for other in others if silence[other.node_rank] > lease + MARGIN]
    if not silent:
        return None
    halted = next((other for other in silent if other.halted), None)
    if halted is None and (first.halted or _is_node_0(first, others, silence, lease)):
        seconds = max(silence.values())
        return CutOff(0, seconds, _why(first, others, lease))
    other = halted or silent[0]
    return CutOff(other.node_rank, silence[other.node_rank], _why(other, [first], lease))


def _word(teller: Teller, other: Teller) -> float:
    return (teller.hears.get(other.node_rank) or 0.0) if teller.answers else 0.0


def _is_node_0(first: Teller, others: Sequence[Teller], silence: Mapping[int, float], lease: float) -> bool:
    """All links are silent at once, or it is the one of two that tells nothing of it: no fault of the others."""
    if len(others) == 1:
        return _word(first, others[0]) < lease - APART
    return all(seconds > lease - APART for seconds in silence.values())


def _why(node: Teller, peers: Sequence[Teller], lease: float) -> str:
    if node.halted:
        return "its supervisor is halted by a signal (process state T), and the other nodes do not hear it"
    if not node.answers:
        return "the other nodes do not hear it, and its host does not answer ncclrun"
    if any(_word(node, peer) > lease - APART for peer in peers):
        whom = peers[0].name if len(peers) == 1 else "the other nodes"
        return f"the data link is cut: its host answers ncclrun, but it and {whom} do not hear each other"
    return "its supervisor hangs: its host answers ncclrun, but the other nodes do not hear it"
