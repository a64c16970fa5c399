"""Of many nodes, candidates that differ by names, addresses and times alone are one line, exceptions above the rule."""

from __future__ import annotations

from typing import Any

from ncclrun.console.kinds import kinds
from ncclrun.console.resolved import candidates_text
from ncclrun.model.netevents import Judged


def row(node_rank: int, interface: str, address: str, reason: str, **more: Any) -> Judged:
    fields = {"prefix": 24, "verdict": "rejected", **more}
    return Judged(
        node=f"n{node_rank}", node_rank=node_rank, interface=interface, address=address, reason=reason, **fields
    )


def cut(rank: int) -> Judged:
    """Of a network from which the cable of n7 is out."""
    if rank == 7:
        return row(7, "eth7", "10.0.0.7", "does not work with n0, n1, n2 and 8 more: no answer")
    others = ", ".join(f"n{peer}" for peer in range(4) if peer != rank)
    reason = f"does not work with n7: no answer; {others} and 7 more reach it ({rank + 1}.5 ms)"
    return row(rank, f"eth{rank % 2}", f"10.0.0.{rank}", reason)


def own(rank: int) -> Judged:
    """Of a subnet that each node has for itself."""
    peer = 1 if rank == 0 else 0
    return row(rank, "mgmt", f"10.1.{rank}.2", f"does not work with n{peer}, n5 and 9 more: no answer")


CUT = [one for rank in range(12) for one in (own(rank), cut(rank))]


def test_a_cut_cable_makes_one_line_for_its_node_and_one_for_the_others() -> None:
    own_row, others, management = kinds(CUT, CUT)
    assert (own_row.nodes, own_row.reason) == (["n7"], cut(7).reason)
    assert others.nodes == [f"n{rank}" for rank in range(12) if rank != 7]
    assert others.reason == "does not work with n7: no answer; others reach it (up to 12.5 ms)"
    assert (len(management.rows), management.reason) == (12, "does not work with others: no answer")


def test_a_line_says_whose_and_which_in_short() -> None:
    lines = candidates_text(CUT, None).splitlines()
    assert lines[0] == "not chosen:"
    assert [line.split()[:6] for line in lines[2:5]] == [
        ["eth7", "10.0.0.7", "n7", "rejected", "does", "not"],
        ["eth0,", "eth1", "10.0.0.0", "…", "11", "nodes"],
        ["mgmt", "10.1.0.2", "…", "12", "nodes", "rejected"],
    ]
    assert len(lines) == 5


def test_an_exception_stands_first_also_beside_a_chosen_network() -> None:
    rows = [cut(rank) if rank == 7 else row(rank, "e", f"10.0.0.{rank}", "", verdict="chosen") for rank in range(12)]
    everywhere = [row(rank, "mgmt", f"10.1.0.{rank}", "slower") for rank in range(12)]
    found = kinds([rows[7], *everywhere], [*rows, *everywhere])
    assert [len(kind.rows) for kind in found] == [1, 12]


def test_different_reasons_are_different_kinds() -> None:
    rows = [row(0, "e", "10.0.0.1", "interface is down"), row(1, "e", "10.0.0.2", "interface has no carrier")]
    assert len(kinds(rows, rows)) == 2


def test_a_name_within_a_longer_word_is_none() -> None:
    rows = [row(0, "e", "10.0.0.1", "n1-up is down"), row(1, "e", "10.0.0.2", "n0-up is down")]
    assert len(kinds(rows, rows)) == 2
