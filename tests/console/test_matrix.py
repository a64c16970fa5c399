"""The matrix has a cell a pair as long as it fits, and the worst pairs in words."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from ncclrun.console.matrix import matrix_text
from ncclrun.console.pairs import Seen
from ncclrun.model.events import Event
from tests.console.networks import link, linked, path, resolved, transfer

SGR = re.compile(r"\x1b\[[0-9;]*m")


def shown(*events: Event, width: int | None = None) -> list[str]:
    """The lines, without their colours."""
    return SGR.sub("", matrix_text(Seen(events), width)).splitlines()


class TestAFewNodes:
    def test_have_a_row_and_a_column_each(self) -> None:
        lines = shown(*linked(3), *resolved(3))
        assert lines == [
            "",
            "connect times in ms, from the node of the row to the node of the column",
            "           0     1     2",
            "0 gpu0     -  0.31  0.31",
            "1 gpu1  0.31     -  0.31",
            "2 gpu2  0.31  0.31     -",
        ]

    def test_have_symbols_where_there_is_trouble_and_a_legend_of_those_alone(self) -> None:
        odd = {(0, 1): (link(0, 1, "timeout"),), (1, 2): (link(1, 2, "refused"),)}
        lines = shown(*linked(3, odd), *resolved(3), path(2, 0, 1500))
        assert [line.split()[2:] for line in lines[3:6]] == [
            ["-", ">", "0.31"],
            ["0.31", "-", "x"],
            ["0.31m", "0.31", "-"],
        ]
        assert lines[6] == "> no answer   x refused   m large packets vanish"

    def test_have_their_troubles_in_words_below(self) -> None:
        odd = {(0, 1): (link(0, 1, "timeout", open_ports=(22,)),)}
        assert shown(*linked(3, odd), *resolved(3))[-1].split(maxsplit=4) == [
            *("gpu0", "->", "gpu1", "10.77.0.2"),
            "no answer, though port 22 answers",
        ]

    def test_with_the_same_trouble_share_a_line(self) -> None:
        odd = {(rank, 4): (link(rank, 4, "no_route"),) for rank in range(4)}
        lines = shown(*linked(5, odd), *resolved(5))
        assert lines[-1] == "gpu0, gpu1, gpu2 and 1 more  ->  gpu4  10.77.0.5  no route to host"

    def test_of_whom_none_reaches_another_are_told_in_one_line(self) -> None:
        odd = {(a, b): (link(a, b, "timeout"),) for a in range(5) for b in range(5) if a != b}
        assert shown(*linked(5, odd), *resolved(5))[-1] == "all 5 nodes  ->  each other  no answer"


class TestThroughput:
    def test_stands_in_the_cells_with_the_usual_and_the_slowest_below(self) -> None:
        lines = shown(*linked(2), *resolved(2), transfer(0, 1, 94.2), transfer(1, 0, 0.94))
        assert lines[1].startswith("Gbit/s, ")
        assert [line.split()[2:] for line in lines[3:5]] == [["-", "94"], ["0.94", "-"]]
        assert lines[6] == "94 Gbit/s is usual; the slowest of 2 pairs:"
        assert lines[8].split() == ["gpu1", "->", "gpu0", "0.94", "Gbit/s", "1", "%", "of", "the", "usual"]

    def test_is_said_to_be_well_where_nothing_is_slow_and_all_was_measured(self) -> None:
        lines = shown(*linked(2), *resolved(2), transfer(0, 1, 94.2), transfer(1, 0, 93))
        assert lines[6] == "94 Gbit/s is usual, no node or link is slow (below 50 % of it); the slowest of 2 pairs:"
        for other in (transfer(1, 0, None, "reset"), path(0, 1)):
            lines = shown(*linked(2), *resolved(2), transfer(0, 1, 94.2), other)
            assert not any("no node or link" in line for line in lines)

    def test_that_is_slow_is_coloured(self) -> None:
        text = matrix_text(Seen([*linked(2), *resolved(2), transfer(0, 1, 94.2), transfer(1, 0, 0.94)]), 80)
        assert "\x1b[32m94\x1b[0m" in text
        assert "\x1b[33m0.94\x1b[0m" in text

    def test_of_a_bad_node_among_three_is_slow_though_most_pairs_are_like_that(self) -> None:
        rates = {(a, b): 0.9 if 2 in (a, b) else 94.0 for a in range(3) for b in range(3) if a != b}
        transfers = [transfer(a, b, rate) for (a, b), rate in rates.items()]
        text = matrix_text(Seen([*linked(3), *resolved(3), *transfers]), 80)
        assert text.count("\x1b[33m0.90\x1b[0m") == 4


class TestOnATerminal:
    @pytest.mark.parametrize("nodes", [2, 10, 16, 24])
    def test_the_whole_matrix_fits_eighty_columns(self, nodes: int) -> None:
        names = [f"a-long-name-of-a-node-{rank:02}" for rank in range(nodes)]
        lines = shown(*linked(nodes, names=names), *resolved(nodes, names), width=80)
        assert max(map(cell_len, lines)) <= 80
        assert len(lines) >= nodes + 3

    def test_numbers_give_way_to_dots_before_the_matrix_does(self) -> None:
        lines = shown(*linked(24), *resolved(24), width=80)
        assert lines[1].startswith("connections, ")
        assert lines[3].split()[2:6] == ["-", ".", ".", "."]

    def test_a_wide_name_keeps_the_columns_in_line(self) -> None:
        lines = shown(*linked(2, names=["日本", "a"]), *resolved(2, ["日本", "a"]), width=80)
        assert {cell_len(line) for line in lines[2:5]} == {cell_len(lines[2])}

    def test_what_a_node_is_called_moves_no_cursor(self) -> None:
        text = matrix_text(Seen(linked(2, names=["\x1b[2Jx", "b\n\x07"])), 80)
        assert "\x1b[2J" not in text
        assert "\x07" not in text


class TestManyNodes:
    def test_that_are_well_take_one_line(self) -> None:
        assert shown(*linked(40), *resolved(40), width=80) == ["", "all 1560 pairs of 40 nodes are well"]

    def test_are_counted_with_the_worst_on_top(self) -> None:
        odd = {(rank, 7): (link(rank, 7, "timeout"),) for rank in range(40) if rank != 7}
        lines = shown(*linked(40, odd), *resolved(40))
        assert lines[1] == "1521 of 1560 pairs of 40 nodes are well"
        assert lines[3].split() == ["7", "gpu7", "39", "of", "39", "0", "of", "39", "39", "no", "answer"]
        assert "… and 20 nodes more" in lines

    def test_show_twenty_of_their_troubles(self) -> None:
        odd = {(a, b): (link(a, b, "error", detail=f"{a} {b}"),) for a in range(40) for b in range(2) if a != b}
        lines = shown(*linked(40, odd), *resolved(40))
        assert lines[-1] == "… and 58 pairs more"
        assert sum("->" in line for line in lines) == 20


def test_nothing_is_shown_of_one_node_or_before_the_probing() -> None:
    assert matrix_text(Seen(linked(1)), None) == ""
    assert matrix_text(Seen(resolved(3)), None) == ""
