"""Which nodes are to blame when no network joins all of them."""

from __future__ import annotations

from ncclrun.commands.ping import _endpoints
from tests.planning.makers import card, facts, node


def test_a_node_outside_the_network_of_the_others_does_not_make_them_unfit() -> None:
    nodes = tuple(node(name) for name in "abc")
    found = {
        0: facts("a", card("e", "10.0.0.1/24")),
        1: facts("b", card("e", "10.0.0.2/24", up=False)),
        2: facts("c", card("f", "10.0.0.3/24")),
    }
    endpoints, failure = _endpoints(nodes, found)
    assert {rank: endpoint.interface for rank, endpoint in endpoints.items()} == {0: "e", 2: "f"}
    assert failure is not None
    assert failure.message.startswith("no usable address on b\n")


def test_where_nobody_is_to_blame_there_is_no_choice() -> None:
    nodes = tuple(node(name) for name in "ab")
    found = {0: facts("a", card("e", "10.0.0.1/24")), 1: facts("b", card("e", "10.0.1.2/24"))}
    endpoints, failure = _endpoints(nodes, found)
    assert endpoints == {}
    assert failure is not None
    assert failure.nodes == ()
