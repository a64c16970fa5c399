"""Who takes part in the next attempt."""

from __future__ import annotations

import pytest

from ncclrun.planning.spares import Lineup, changes_text, next_lineup
from tests.planning.makers import node

GPUS = tuple(node(f"gpu{number}") for number in range(1, 5))
SPARES = (node("spare1"), node("spare2"))
DEAD = "host lost"


def names(lineup: Lineup) -> list[str]:
    return [one.name for one in lineup.nodes]


def test_a_spare_takes_the_place_of_a_lost_node_and_the_others_keep_theirs() -> None:
    after = next_lineup(Lineup(GPUS, SPARES), {"gpu2": DEAD}, None)
    assert names(after) == ["gpu1", "spare1", "gpu3", "gpu4"]
    assert after.spares == SPARES[1:]
    assert changes_text(after.changes) == "gpu2 replaced by spare1 (host lost)"


def test_a_spare_that_is_lost_itself_is_replaced_by_the_next() -> None:
    first = next_lineup(Lineup(GPUS, SPARES), {"gpu1": DEAD}, None)
    after = next_lineup(first, {"spare1": "unreachable"}, None)
    assert names(after) == ["spare2", "gpu2", "gpu3", "gpu4"]
    assert after.spares == ()


def test_where_no_spare_is_left_nodes_are_left_out_down_to_the_least_number() -> None:
    after = next_lineup(Lineup(GPUS, SPARES[:1]), dict.fromkeys(("gpu1", "gpu2", "gpu3", "gpu4"), DEAD), 3)
    assert names(after) == ["spare1", "gpu3", "gpu4"]
    said = "gpu1 replaced by spare1 (host lost); without gpu2 (host lost)"
    assert changes_text(after.changes) == f"{said}; gpu3 tried again (host lost); gpu4 tried again (host lost)"


@pytest.mark.parametrize("least", [None, 4])
def test_where_none_may_be_missing_a_lost_node_is_tried_again(least: int | None) -> None:
    after = next_lineup(Lineup(GPUS, ()), {"gpu3": DEAD}, least)
    assert names(after) == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert changes_text(after.changes) == "gpu3 tried again (host lost)"


def test_when_none_was_lost_nothing_changes() -> None:
    after = next_lineup(Lineup(GPUS, SPARES), {}, 1)
    assert (after.nodes, after.spares, changes_text(after.changes)) == (GPUS, SPARES, "")
