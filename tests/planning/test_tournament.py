"""Rounds in which nobody is in two pairs."""

from __future__ import annotations

from itertools import combinations

import pytest

from ncclrun.planning.tournament import rounds

SIZES = [2, 3, 4, 5, 8, 9, 64, 65]


@pytest.mark.parametrize("nnodes", SIZES)
def test_each_pair_meets_once(nnodes: int) -> None:
    played = [pair for pairs in rounds(nnodes) for pair in pairs]
    assert sorted(played) == [*combinations(range(nnodes), 2)]


@pytest.mark.parametrize("nnodes", SIZES)
def test_no_node_is_in_two_pairs_of_a_round(nnodes: int) -> None:
    for pairs in rounds(nnodes):
        players = [node for pair in pairs for node in pair]
        assert len(players) == len(set(players))


@pytest.mark.parametrize(("nnodes", "count"), [(0, 0), (1, 0), (2, 1), (3, 3), (4, 3), (65, 65), (64, 63)])
def test_there_are_as_few_rounds_as_can_be(nnodes: int, count: int) -> None:
    assert len(rounds(nnodes)) == count
