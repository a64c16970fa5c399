"""Of a matrix of throughput, the node or the link that is slow is named, after a second look."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.diagnosis.bandwidth import Verdict, retests, suspects, verdicts
from ncclrun.model.plan import Endpoint

Speed = Callable[[int, int], float]


def matrix(nnodes: int, speed: Speed) -> dict[tuple[int, int], float]:
    return {(a, b): speed(a, b) for a in range(nnodes) for b in range(nnodes) if a != b}


def ends(nnodes: int) -> tuple[list[str], list[Endpoint]]:
    nodes = range(nnodes)
    return [f"n{node}" for node in nodes], [Endpoint(f"eth{node}", f"10.0.0.{node}", "") for node in nodes]


def judged(nnodes: int, speed: Speed, again: Speed | None = None) -> list[tuple[str, tuple[int, ...]]]:
    """Code and nodes of each verdict, where the second measurement goes as the first or as ``again``."""
    return [(verdict.problem.code, verdict.nodes) for verdict in told(nnodes, speed, again)]


def told(nnodes: int, speed: Speed, again: Speed | None = None) -> tuple[Verdict, ...]:
    first = matrix(nnodes, speed)
    pairs = [pair for found in retests(first) for pair in found]
    second = {(a, b): (again or speed)(a, b) for one, other in pairs for a, b in ((one, other), (other, one))}
    return verdicts(*ends(nnodes), first, second)


def one_node(node: int, *, sending: float = 1.0, receiving: float = 1.0) -> Speed:
    return lambda a, b: 10.0 * (sending if a == node else 1.0) * (receiving if b == node else 1.0)


def some(slow: dict[tuple[int, int], float]) -> Speed:
    return lambda a, b: slow.get((a, b), 10.0)


@pytest.mark.parametrize("nnodes", [2, 3, 4, 9])
def test_where_all_are_alike_nothing_is_said_or_measured_again(nnodes: int) -> None:
    assert retests(matrix(nnodes, lambda a, b: 9.4)) == []
    assert judged(nnodes, lambda a, b: 9.4) == []


@pytest.mark.parametrize(
    ("sending", "receiving", "words"),
    [
        (0.1, 1.0, "n1 itself is slow: 1 Gbit/s sending, with the best of the others too, where 10 Gbit/s is usual; "
         "receiving it does 10 Gbit/s"),
        (1.0, 0.1, "n1 itself is slow: 1 Gbit/s receiving, with the best of the others too, where 10 Gbit/s is usual; "
         "sending it does 10 Gbit/s"),
        (0.1, 0.2, "n1 itself is slow: 1 Gbit/s sending and 2 Gbit/s receiving, with the best of the others too, where "
         "10 Gbit/s is usual"),
    ],
)  # fmt: skip
def test_a_bad_node_is_told_with_the_way_that_is_slow(sending: float, receiving: float, words: str) -> None:
    (verdict,) = told(5, one_node(1, sending=sending, receiving=receiving))
    assert (verdict.nodes, verdict.problem.message, verdict.problem.level) == ((1,), words, "warning")
    assert "on n1:  sudo ethtool eth1; ip -s link show dev eth1" in verdict.problem.fix


def test_a_node_through_which_nothing_goes_is_an_error() -> None:
    (verdict,) = told(4, one_node(2, sending=0))
    assert verdict.problem.level == "error"
    assert verdict.problem.message.startswith("n2 itself is slow: nothing sending")


@given(st.integers(3, 12), st.data())
def test_one_bad_node_is_named_and_nobody_else(nnodes: int, data: st.DataObject) -> None:
    node = data.draw(st.integers(0, nnodes - 1))
    sound = data.draw(st.dictionaries(st.tuples(st.integers(0, 11), st.integers(0, 11)), st.floats(8, 12)))
    factor = data.draw(st.floats(0, 0.3))
    ways = data.draw(st.sampled_from([(factor, 1.0), (1.0, factor), (factor, factor)]))
    bad = one_node(node, sending=ways[0], receiving=ways[1])
    assert judged(nnodes, lambda a, b: bad(a, b) / 10 * sound.get((a, b), 10)) == [("slow_node", (node,))]


@given(st.integers(3, 12), st.data())
def test_one_bad_link_is_named_and_neither_of_its_ends(nnodes: int, data: st.DataObject) -> None:
    one, other = sorted(data.draw(st.permutations(range(nnodes)))[:2])
    rates = data.draw(st.sampled_from([(1, 10), (10, 1), (1, 1), (0, 10), (0, 0), (0, 1)]))
    slow = {(one, other): float(rates[0]), (other, one): float(rates[1])}
    assert judged(nnodes, some(slow)) == [("slow_link", (one, other))]


def test_a_link_that_is_slow_one_way_is_told_with_that_way() -> None:
    (verdict,) = told(4, some({(3, 1): 0.5}))
    assert verdict.problem.message == (
        "only the link is slow: n3 → n1 0.5 Gbit/s, twice; with others both ends are well (10 Gbit/s is usual)"
    )
    assert "ip route get 10.0.0.3  on n1,  ip route get 10.0.0.1  on n3" in verdict.problem.fix


def test_two_bad_nodes_of_four_are_both_named() -> None:
    assert judged(4, lambda a, b: 1.0 if {a, b} & {0, 3} else 10.0) == [("slow_node", (0,)), ("slow_node", (3,))]


def test_a_bad_node_beside_a_bad_link() -> None:
    assert judged(6, lambda a, b: 1.0 if 0 in (a, b) or {a, b} == {4, 5} else 10.0) == [
        ("slow_node", (0,)),
        ("slow_link", (4, 5)),
    ]


def test_several_bad_links_of_one_node_are_not_laid_at_its_door() -> None:
    slow = {(0, 1): 1.0, (0, 2): 1.0}
    assert judged(6, some(slow)) == [("slow_link", (0, 1)), ("slow_link", (0, 2))]


@pytest.mark.parametrize("left", [2, 4])
def test_a_slow_uplink_between_two_halves_is_no_fault_of_any_node(left: int) -> None:
    (verdict,) = told(2 * left, lambda a, b: 10.0 if (a < left) == (b < left) else 1.0)
    assert verdict.problem.code == "slow_paths"
    assert verdict.nodes == tuple(range(2 * left))
    assert "what these pairs share is the bottleneck" in verdict.problem.message


@pytest.mark.parametrize("first", [one_node(1, sending=0.1), some({(0, 1): 1.0})])
def test_what_is_well_the_second_time_is_not_confirmed(first: Speed) -> None:
    (verdict,) = told(5, first, again=lambda a, b: 10.0)
    assert verdict.problem.code == "not_confirmed"
    assert 1 in verdict.nodes


def test_a_link_that_is_slow_both_times_is_no_chance_though_others_of_its_end_were() -> None:
    first = some({(1, 0): 0.06, (2, 0): 4.0})
    assert judged(3, first, again=some({(1, 0): 0.06})) == [("slow_link", (0, 1)), ("not_confirmed", (0, 2))]


def test_a_pair_that_fails_is_told_beside_its_node_that_is_slow_with_others() -> None:
    slow = some({(0, 1): 0.0, (0, 2): 3.0})
    assert judged(3, slow) == [("slow_node", (0,)), ("slow_link", (0, 1))]
    link = told(3, slow)[1].problem
    assert (link.level, link.message.startswith("nothing comes through n0 → n1, twice")) == ("error", True)


def test_where_most_are_slower_by_now_nobody_is_blamed_alone() -> None:
    (verdict,) = told(5, lambda a, b: 10.0 if (a + 1) % 5 == b else 4.0, again=lambda a, b: 3.0)
    assert (verdict.problem.code, verdict.nodes) == ("unsteady", (0, 1, 2, 3, 4))
    assert "3 Gbit/s, where 10 Gbit/s was usual at first" in verdict.problem.message


def test_the_end_of_a_slow_link_that_is_slow_with_its_best_partner_by_now_is_the_culprit() -> None:
    assert judged(5, some({(0, 1): 1.0}), again=one_node(0, sending=0.1)) == [("slow_node", (0,))]


@pytest.mark.parametrize(("there", "back"), [(10.0, 1.0), (0.0, 10.0)])
def test_between_two_nodes_it_can_not_be_told(there: float, back: float) -> None:
    speed = some({(0, 1): there, (1, 0): back})
    assert retests(matrix(2, speed)) == []
    (verdict,) = told(2, speed)
    assert (verdict.problem.code, verdict.nodes) == ("undecided", (0, 1))
    assert "it can't be told" in verdict.problem.message


@pytest.mark.parametrize("nnodes", [2, 5])
def test_where_nothing_comes_through_at_all_nobody_is_blamed_alone(nnodes: int) -> None:
    (verdict,) = told(nnodes, lambda a, b: 0.0)
    assert (verdict.problem.code, verdict.nodes) == ("no_transfer", tuple(range(nnodes)))
    assert verdict.problem.level == "error"


@given(st.integers(3, 9), st.data())
def test_whatever_is_measured_rounds_keep_nodes_apart_and_every_slow_pair_is_accounted_for(
    nnodes: int, data: st.DataObject
) -> None:
    rates = st.sampled_from([0.0, 0.5, 3.0, 9.0, 10.0, 11.0])
    first = matrix(nnodes, lambda a, b: data.draw(rates))
    rounds = retests(first)
    pairs = [pair for found in rounds for pair in found]
    assert all(len({node for pair in found for node in pair}) == 2 * len(found) for found in rounds)
    assert len(set(pairs)) == len(pairs)
    assert all(a < b for a, b in pairs)
    second = {(a, b): data.draw(rates) for one, other in pairs for a, b in ((one, other), (other, one))}
    found = verdicts(*ends(nnodes), first, second)
    for pair in suspects(first).slow:
        assert any(set(pair) <= set(one.nodes) or (len(one.nodes) == 1 and one.nodes[0] in pair) for one in found)


def test_no_measurement_no_verdict() -> None:
    assert (retests({}), verdicts([], [], {}, {})) == ([], ())
