"""Whatever is written in whatever order: all lines stand on the terminal once, and the footer below them once."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ncclrun.console.output import Output
from ncclrun.console.screen import FRAME, HELD, MARGIN, Screen, clip
from tests.console.vt import Terminal


class Stage:
    """A screen on such a terminal, with a clock of its own."""

    def __init__(self, columns: int = 40) -> None:
        self.terminal = Terminal(columns)
        self.now = 0.0
        self.screen = Screen(Output(cast(Any, self.terminal)), lambda: (self.terminal.columns, 24), lambda: self.now)

    def frame(self) -> None:
        """Time for the next redraw."""
        self.now += FRAME
        self.screen.tick()


class TestWithoutAFooter:
    def test_lines_are_written_at_once(self) -> None:
        stage = Stage()
        stage.screen.write("one\n")
        stage.screen.write("two\n")
        assert stage.terminal.writes == ["one\n", "two\n"]


class TestWithAFooter:
    def test_lines_go_above_it(self) -> None:
        stage = Stage()
        stage.screen.footer(["10%", "waiting"])
        stage.screen.write("one\n")
        stage.frame()
        assert stage.terminal.shown() == ["one", "10%", "waiting"]

    def test_a_flood_of_lines_makes_few_writes(self) -> None:
        stage = Stage()
        stage.screen.footer(["10%"])
        for number in range(100):
            stage.screen.write(f"{number}\n")
        stage.frame()
        assert len(stage.terminal.writes) == 2
        assert stage.terminal.shown() == [*map(str, range(100)), "10%"]

    def test_not_more_than_a_part_is_held_back(self) -> None:
        stage = Stage()
        stage.screen.footer(["10%"])
        stage.screen.write("x" * HELD + "\n")
        stage.screen.write("y\n")
        assert len(stage.terminal.writes) == 2

    def test_a_flood_of_bars_makes_few_writes(self) -> None:
        stage = Stage()
        for number in range(100):
            stage.screen.footer([f"{number}%"])
        stage.frame()
        assert len(stage.terminal.writes) == 2
        assert stage.terminal.shown() == ["99%"]

    def test_nothing_new_is_not_drawn_again(self) -> None:
        stage = Stage()
        stage.screen.footer(["10%"])
        stage.frame()
        stage.screen.footer(["10%"])
        stage.frame()
        assert len(stage.terminal.writes) == 1

    def test_it_is_gone_at_the_end(self) -> None:
        stage = Stage()
        stage.screen.footer(["10%", "20%"])
        stage.screen.write("last\n")
        stage.screen.close()
        assert stage.terminal.shown() == ["last"]

    def test_it_leaves_room_on_a_low_terminal(self) -> None:
        stage = Stage()
        stage.screen.footer([str(number) for number in range(50)])
        assert len(stage.terminal.shown()) == 22


def test_a_footer_that_was_folded_by_a_narrower_terminal_is_taken_away_whole() -> None:
    stage = Stage(columns=40)
    stage.screen.write("log\n")
    stage.screen.footer(["x" * 37, "y" * 37])
    stage.frame()
    narrow = Terminal(10)
    narrow.write("log\n" + "x" * 37 + "\n" + "y" * 37)  # as terminals fold again what stands on them
    stage.terminal.columns, stage.terminal.rows = 10, narrow.rows
    stage.terminal.row, stage.terminal.column = narrow.row, narrow.column
    stage.screen.footer(["z"])
    stage.frame()
    assert stage.terminal.shown() == ["log", "z"]


LINES = st.text(st.sampled_from("ab 日🚀"), max_size=30)


@given(st.lists(st.tuples(st.sampled_from(["write", "footer", "tick"]), st.lists(LINES, max_size=3))))
def test_no_line_is_ever_lost_or_doubled(steps: list[tuple[str, list[str]]]) -> None:
    stage, plain = Stage(), Terminal(40)
    footer: list[str] = []
    for what, lines in steps:
        if what == "write":
            text = "".join(line + "\n" for line in lines)
            stage.screen.write(text)
            plain.write(text)
        elif what == "footer":
            footer = [clip(line, stage.screen.columns - MARGIN) for line in lines]
            stage.screen.footer(footer)
        else:
            stage.frame()
    stage.screen.draw()
    plain.write("\n".join(footer))
    assert stage.terminal.shown() == plain.shown()


class TestClipping:
    @pytest.mark.parametrize(
        ("text", "columns", "shown"),
        [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("日本語", 6, "日本語"), ("日本語", 5, "日本…"), ("abc", 0, "")],
    )
    def test_counts_what_is_seen(self, text: str, columns: int, shown: str) -> None:
        assert clip(text, columns) == shown

    @given(st.text(), st.integers(0, 20))
    def test_never_makes_it_wider(self, text: str, columns: int) -> None:
        assert cell_len(clip(text, columns)) <= columns
