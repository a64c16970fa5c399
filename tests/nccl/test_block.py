"""Our block in a conf file: NCCL reads it first, nothing below it is touched, and what was changed by hand is seen."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.model.errors import PlanError
from ncclrun.nccl import block
from ncclrun.nccl.conf import LONGEST, in_force, parse
from ncclrun.nccl.lint.conffile import lint_conf

SETTINGS = (("NCCL_SOCKET_IFNAME", "=eth1"), ("NCCL_DEBUG", "WARN"))
WHERE = "/etc/nccl.conf on gpu1"
PIECES = st.sampled_from(
    [
        *(b"\n", b"\r\n", b"\xef\xbb\xbf", b"\0", b"=", b"#", b" ", b"\xff", b"NCCL_DEBUG=INFO", b"x" * 5000),
        *(
            b"# >> ncclrun 0123456789ab >>",
            b"# >>> NCCLRUN >>>",
            b"# <<< conda <<<",
            b"ncclrun <<<",
            b"# >>>ncclrun >>>",
        ),
    ]
)
ANY = st.lists(PIECES | st.binary(max_size=20) | st.just(b"\n# >>> ncclrun")).map(b"".join)
RESTS = st.lists(PIECES | st.binary(max_size=20)).map(b"".join).filter(lambda rest: b" ncclrun" not in rest)
"""Files of administrators, with lines that look like marks and are none."""
NAMES = st.from_regex(r"NCCL_[A-Z0-9_]{1,20}", fullmatch=True)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), max_size=30).filter(lambda v: v[-1:] != "\r")
CHOSEN = st.dictionaries(NAMES, VALUES, max_size=5).map(lambda chosen: tuple(chosen.items()))
VERSIONS = [(2, 18, 3), (2, 23, 4), (2, 29, 7), (2, 32, 3)]


@given(RESTS, CHOSEN)
def test_what_was_put_in_front_can_be_taken_away_to_the_byte(rest: bytes, chosen: tuple[tuple[str, str], ...]) -> None:
    data = block.put(rest, chosen)
    assert block.take(data, WHERE) == rest
    assert block.settings(data) == chosen
    assert block.edited(data) == ""
    assert block.put(block.take(data, WHERE), chosen) == data


@given(ANY, CHOSEN)
def test_whatever_stands_below_comes_back_whole_or_not_at_all(rest: bytes, chosen: tuple[tuple[str, str], ...]) -> None:
    data = block.put(rest, chosen)
    assert data.endswith(rest)
    if block.edited(data):
        with pytest.raises(PlanError):
            block.take(data, WHERE)
    else:
        assert block.take(data, WHERE) == rest


@given(RESTS, CHOSEN)
@pytest.mark.parametrize("version", VERSIONS)
def test_nccl_reads_our_settings_first_and_the_rest_as_ever(
    version: tuple[int, int, int], rest: bytes, chosen: tuple[tuple[str, str], ...]
) -> None:
    lines = parse(block.put(rest, chosen), version)
    read = [(one.name, one.value) for one in in_force(lines)]
    assert read[: len(chosen)] == list(chosen)
    alone = [(one.name, one.value) for one in in_force(parse(rest, version))]
    assert read[len(chosen) :] == [one for one in alone if one[0] not in dict(chosen)]
    # An old NCCL makes a variable of a comment with an equals sign: ours have none.
    assert [line.kind for line in lines if line.raw.startswith(b"# ") and b"=" in line.raw and line.number < 4] == []


def test_the_marks_say_who_wrote_them_and_how_they_go_away_again() -> None:
    data = block.put(b"NCCL_DEBUG=INFO\n", SETTINGS).decode()
    lines = data.splitlines()
    assert re.fullmatch("# >>> ncclrun [0-9a-f]{12} >>>", lines[0])
    assert "ncclrun nccl restore" in lines[2]
    assert lines[3:] == ["NCCL_SOCKET_IFNAME==eth1", "NCCL_DEBUG=WARN", "# <<< ncclrun <<<", "NCCL_DEBUG=INFO"]
    assert all(line.startswith("#") and "=" not in line for line in lines[:3])


def test_a_file_without_a_block_is_all_somebody_elses() -> None:
    assert block.take(b"NCCL_DEBUG=INFO", WHERE) == b"NCCL_DEBUG=INFO"
    assert block.settings(b"NCCL_DEBUG=INFO") is None
    assert block.settings(b"") is None


OURS = block.put(b"A=1\n", SETTINGS)
CHANGED = {
    "a line before the block": (b"B=2\n" + OURS, "it begins at line 2, not at the top"),
    "the block behind the rest": (b"A=1\n" + block.put(b"", SETTINGS), "it begins at line 2"),
    "a mark of byte order before it": (b"\xef\xbb\xbf" + OURS, "line 1 is no longer the mark"),
    "windows line ends": (OURS.replace(b"\n", b"\r\n"), "line 1 is no longer the mark"),
    "another value": (OURS.replace(b"WARN", b"INFO"), "the lines up to line 6 were changed"),
    "a line in the block": (OURS.replace(b"NCCL_DEBUG", b"B=2\nNCCL_DEBUG"), "the lines up to line 7 were changed"),
    "a changed note": (OURS.replace(b"Leave", b"leave"), "were changed by hand"),
    "no first mark": (OURS.split(b"\n", 1)[1], "line 5 is no longer the mark"),
    "no last mark": (OURS.replace(b"# <<< ncclrun <<<\n", b""), "the mark at its end is gone"),
    "an indented last mark": (OURS.replace(b"# <<<", b" # <<<"), "the mark at its end is gone, or was changed"),
    "no line feed behind the last mark": (block.put(b"", SETTINGS)[:-1], "were changed by hand"),
    "two blocks": (OURS + OURS, "another mark of ncclrun at line 8"),
    "a block in a block": (block.put(b"", ()).replace(b"# <<<", OURS + b"# <<<"), "the mark at its end is gone"),
}


@pytest.mark.parametrize(("data", "words"), CHANGED.values(), ids=CHANGED)
def test_a_block_that_somebody_touched_is_left_alone(data: bytes, words: str) -> None:
    assert words in block.edited(data)
    with pytest.raises(PlanError, match=f"^{WHERE}: .*{re.escape(words)}") as refused:
        block.take(data, WHERE)
    assert WHERE in refused.value.fix


def test_what_the_block_holds_is_seen_also_when_it_was_edited() -> None:
    edited = OURS.replace(b"WARN", b"INFO")
    assert block.settings(edited) == (("NCCL_SOCKET_IFNAME", "=eth1"), ("NCCL_DEBUG", "INFO"))


def test_a_file_with_a_block_may_get_another_for_one_run() -> None:
    """`deliver: file` puts the run's settings over a home file that was pushed to."""
    both = block.put(OURS, (("NCCL_DEBUG", "TRACE"),), ["For one run."])
    assert both.endswith(OURS)
    assert [(one.name, one.value) for one in in_force(parse(both, (2, 27, 5)))] == [
        ("NCCL_DEBUG", "TRACE"),
        ("NCCL_SOCKET_IFNAME", "=eth1"),
        ("A", "1"),
    ]


UNFIT = {
    "a line feed": ("NCCL_IB_HCA", "mlx5_0\nmlx5_1", "line feed"),
    "a NUL": ("NCCL_IB_HCA", "a\0b", "NUL"),
    "a carriage return at the end": ("NCCL_DEBUG", "INFO\r", "carriage return"),
    "too many bytes": ("NCCL_IB_HCA", "ä" * (LONGEST // 2 + 1), "1023 bytes"),
    "too long a name": ("N" * (LONGEST + 1), "1", "1023 bytes"),
    "no name": ("", "1", "no name"),
    "a name with a blank": ("export NCCL_DEBUG", "1", "no name"),
    "a comment for a name": ("#A", "1", "no name"),
}


@pytest.mark.parametrize(("name", "value", "words"), UNFIT.values(), ids=UNFIT)
def test_what_no_line_can_carry_is_refused(name: str, value: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        block.put(b"", [(name, value)])


def test_a_refusal_does_not_tell_a_value_which_may_be_a_secret() -> None:
    with pytest.raises(PlanError) as refused:
        block.put(b"", [("NCCL_X_TOKEN", "hunter2\n")])
    assert "hunter2" not in f"{refused.value} {refused.value.fix}"


def test_the_longest_value_is_carried_whole() -> None:
    value = "x" * LONGEST
    for version in VERSIONS:
        (read,) = in_force(parse(block.put(b"", [("NCCL_IB_HCA", value)]), version))
        assert read.value == value


def test_nothing_in_a_value_is_taken_for_a_mark() -> None:
    odd = (("A", "# <<< ncclrun <<<"), ("B", " =x # y"), ("C", ""))
    data = block.put(b"rest", odd)
    assert block.settings(data) == odd
    assert block.take(data, WHERE) == b"rest"


def test_edits_in_a_whole_block_can_be_discarded_and_nothing_else() -> None:
    changed = OURS.replace(b"WARN", b"INFO")
    assert block.is_whole(changed)
    assert block.take(changed, WHERE, discard=True) == b"A=1\n"
    broken = OURS.replace(b"# <<< ncclrun <<<\n", b"")
    assert not block.is_whole(broken)
    with pytest.raises(PlanError):
        block.take(broken, WHERE, discard=True)


def test_the_lines_that_were_changed_are_told_without_a_secret() -> None:
    changed = OURS.replace(b"WARN", b"INFO\nNCCL_X_TOKEN=abc")
    assert block.difference(changed, SETTINGS) == ("- NCCL_DEBUG=WARN", "+ NCCL_DEBUG=INFO", "+ NCCL_X_TOKEN=***")
    assert block.difference(OURS, SETTINGS) == block.difference(b"A=1\n", SETTINGS) == ()


def test_the_end_of_a_block_is_a_line() -> None:
    assert OURS.split(b"\n")[block.end(OURS) - 1] == b"# <<< ncclrun <<<"
    assert block.end(b"A=1\n") == 0


def test_what_the_block_hides_below_it_is_no_error_of_the_administrator() -> None:
    data = block.put(b"NCCL_DEBUG=INFO\nNCCL_IB_TC=3\nNCCL_IB_TC=4\n", SETTINGS)
    found = [(one.line, one.level, one.id) for one in lint_conf(data, None, "f")]
    assert found == [(7, "info", "below_block"), (9, "error", "duplicate")]
