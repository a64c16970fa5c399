"""What is said folds between words on a terminal, and what is to be copied does not fold."""

from __future__ import annotations

import pytest

from ncclrun.console.notes import Note, render

LONG = "word " * 30


def test_a_sentence_folds_between_words_and_stands_below_its_beginning() -> None:
    lines = render([Note("warning", LONG)], colors=False, width=40).splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(lines).split() == ["warning:", *LONG.split()]
    assert {line[:9] for line in lines[1:]} == {" " * 9}


def test_a_line_that_stands_further_in_folds_there() -> None:
    lines = render([Note("error", f"no network\n  {LONG}")], colors=False, width=40).splitlines()
    assert {line[:9] for line in lines[1:]} == {" " * 9}
    assert {line[9] for line in lines[1:]} == {"w"}


def test_a_fix_is_one_line_to_be_copied() -> None:
    assert render([Note("fix", LONG)], colors=False, width=40) == f"  fix: {LONG}\n"


@pytest.mark.parametrize("width", range(42, 60))
def test_a_command_in_a_sentence_does_not_fold(width: int) -> None:
    text = "it has ended already (stopped;  ncclrun logs 20260131-142501-9f3c  shows its output), exit code 130"
    said = render([Note("info", text)], colors=False, width=width)
    assert "ncclrun logs 20260131-142501-9f3c" in said
    assert max(map(len, said.splitlines())) <= width


def test_a_row_of_a_table_folds_below_its_last_column() -> None:
    table = f"all addresses:\n  gpu1   eth0  {LONG}\n  gpu12  ib0   {LONG}"
    lines = render([Note("error", table)], colors=False, width=60).splitlines()
    assert max(map(len, lines)) <= 60
    inner = len("error:   gpu12  ib0   ")
    assert {line[:inner].strip() for line in lines[1:]} == {"gpu1   eth0", "", "gpu12  ib0"}
    assert {line[inner] for line in lines[1:]} == {"w"}


def test_a_row_whose_last_column_has_no_room_folds_at_its_beginning() -> None:
    line = f"  {'a' * 20}  {'b' * 10}  {LONG}"
    lines = render([Note("error", f"x\n{line}")], colors=False, width=50).splitlines()
    assert {line[:9] for line in lines[2:]} == {" " * 9}
    assert lines[2][9] == "w"


COMMANDS = "on gpu1:\n  sudo ufw allow from 10.0.0.0/24\n  " + LONG


@pytest.mark.parametrize("width", [None, 40])
def test_a_fix_of_several_lines_is_a_block_to_be_copied(width: int | None) -> None:
    lines = render([Note("fix", COMMANDS), Note("more", "the same on gpu2")], colors=False, width=width).splitlines()
    assert lines == [
        "  fix: on gpu1:",
        f"{' ' * 9}sudo ufw allow from 10.0.0.0/24",
        f"{' ' * 9}{LONG}",
        f"{' ' * 7}the same on gpu2",
    ]


def test_columns_that_fit_keep_their_spaces() -> None:
    assert render([Note("error", "a   b\n  c    d")], colors=False, width=40) == "error: a   b\n         c    d\n"


def test_a_pipe_gets_whole_lines() -> None:
    assert render([Note("warning", LONG)], colors=False) == f"warning: {LONG}\n"
