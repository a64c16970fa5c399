"""Whom each node tries: everybody in a small cluster, enough of a large one."""

from __future__ import annotations

import pytest

from ncclrun.planning.partners import ALL_PAIRS, partners, scheme

SIZES = [65, 66, 100, 250, 1000]


@pytest.mark.parametrize("nnodes", [0, 1, 2, 3, 64])
def test_up_to_the_limit_each_tries_all_others(nnodes: int) -> None:
    assert partners(nnodes) == tuple(frozenset(range(nnodes)) - {node} for node in range(nnodes))


@pytest.mark.parametrize("nnodes", SIZES)
def test_whom_one_tries_tries_it_too_and_nobody_tries_itself(nnodes: int) -> None:
    found = partners(nnodes)
    assert len(found) == nnodes
    assert all(node in found[peer] and peer != node for node, peers in enumerate(found) for peer in peers)


@pytest.mark.parametrize("nnodes", SIZES)
def test_above_it_each_tries_its_neighbours_the_master_and_a_few_more(nnodes: int) -> None:
    found = partners(nnodes)
    for node in range(1, nnodes):
        assert {0, (node + 1) % nnodes, node - 1} - {node} <= found[node]
    assert found[0] == frozenset(range(1, nnodes))
    others = sorted(len(peers) for peers in found[1:])
    assert others[0] >= 5
    assert others[-1] <= 24


def test_the_same_numbers_give_the_same_partners_and_another_seed_gives_others() -> None:
    assert partners(100) == partners(100)
    assert partners(100, seed=1) != partners(100)


def test_a_lower_limit_and_fewer_random_partners_can_be_asked_for() -> None:
    assert partners(5, limit=3, random_count=0)[2] == {0, 1, 3}


def test_the_scheme_is_said_in_words() -> None:
    assert scheme(ALL_PAIRS) == "all pairs"
    assert scheme(ALL_PAIRS + 1) == "ring, star to node 0 and 4 random partners each"
