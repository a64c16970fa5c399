"""Rounds in which every node meets every other once, and is in one pair at a time."""

from __future__ import annotations


def rounds(nnodes: int) -> list[list[tuple[int, int]]]:
    """Pairs (lower node_rank first) by round, as a round-robin tournament has them.

    There are nnodes - 1 rounds, or nnodes of an odd number, where one node rests in each; none for fewer than two.
    """
    seats = [*range(nnodes), *([None] if nnodes % 2 else [])]
    half = len(seats) // 2
    plan = []
    for _ in range(len(seats) - 1 if nnodes > 1 else 0):
        across = zip(seats[:half], reversed(seats[half:]), strict=True)
        plan.append([(min(a, b), max(a, b)) for a, b in across if a is not None and b is not None])
        seats.insert(1, seats.pop())  # the first stays, the others move on by one seat
    return plan
