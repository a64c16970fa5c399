"""Which node tries which: every pair of a small cluster, of a large one as many as say enough about all."""

from __future__ import annotations

ALL_PAIRS = 64
"""Nodes up to which every pair is tried."""
RANDOM_PARTNERS = 4


def partners(
    nnodes: int, limit: int = ALL_PAIRS, random_count: int = RANDOM_PARTNERS, seed: int = 0
) -> tuple[frozenset[int], ...]:
    """For each node_rank the peers that it tries; whom one tries, tries it too.

    Above ``limit`` nodes these are both neighbours of a ring (NCCL's own), node 0 (the master), and ``random_count``
    that each node draws, so that with those who drew it it has twice as many on average. The same numbers give the
    same partners.
    """
    if nnodes <= limit:
        return tuple(frozenset(range(nnodes)) - {node} for node in range(nnodes))
    found: list[set[int]] = [set() for _ in range(nnodes)]
    state = seed
    for node in range(nnodes):
        chosen = {0, (node + 1) % nnodes}
        for _ in range(random_count):
            state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)  # Knuth's MMIX: reproducible
            chosen.add((node + 1 + (state >> 33) % (nnodes - 1)) % nnodes)
        for peer in chosen - {node}:
            found[node].add(peer)
            found[peer].add(node)
    return tuple(map(frozenset, found))


def scheme(nnodes: int) -> str:
    """The same in words."""
    if nnodes <= ALL_PAIRS:
        return "all pairs"
    return f"ring, star to node 0 and {RANDOM_PARTNERS} random partners each"
