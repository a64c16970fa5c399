"""Ranges expand, selections select, and what stands for nothing says so."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclrun.planning.hostlist import (
    BadRangeError,
    HostlistError,
    SelectionError,
    TooManyNamesError,
    expand,
    select,
    select_ranks,
    split_commas,
)

NAMES = ["gpu1", "gpu2", "gpu3", "7", "lab-b"]
plain = st.text(alphabet="abcxyz.-", max_size=5)


class TestExpand:
    @pytest.mark.parametrize(
        ("pattern", "names"),
        [
            ("gpu1", ["gpu1"]),
            ("gpu[1-3,7]", ["gpu1", "gpu2", "gpu3", "gpu7"]),
            ("gpu[08-11]", ["gpu08", "gpu09", "gpu10", "gpu11"]),
            ("gpu[008]", ["gpu008"]),
            ("gpu[0-1]", ["gpu0", "gpu1"]),
            ("r[1-2]n[9-10].lab", ["r1n9.lab", "r1n10.lab", "r2n9.lab", "r2n10.lab"]),
            ("[fe80::1]", ["[fe80::1]"]),
            ("n[ 1 , 2 ]", ["n1", "n2"]),
        ],
    )
    def test_gives_the_names_in_order(self, pattern: str, names: list[str]) -> None:
        assert expand(pattern) == names

    @pytest.mark.parametrize(
        ("pattern", "error", "words"),
        [
            ("gpu[]", BadRangeError, "no range"),
            ("gpu[1,]", BadRangeError, "no range"),
            ("gpu[a-b]", BadRangeError, "'a-b'"),
            ("gpu[1-2-3]", BadRangeError, "'1-2-3'"),
            ("gpu[3-1]", BadRangeError, "runs backwards"),
            ("gpu[8-011]", BadRangeError, "padded differently"),
            ("gpu[1-3", BadRangeError, "no partner"),
            ("gpu1]", BadRangeError, "no partner"),
            ("gpu[[1-3]]", BadRangeError, "no partner"),
            ("gpu[1-3,2]", BadRangeError, "gpu2 more than once"),
            ("gpu[٣]", BadRangeError, "no range"),
            ("gpu[0-4096]", TooManyNamesError, "more than 4096"),
            ("a[1-100]b[1-100]", TooManyNamesError, "more than 4096"),
            ("gpu[1-9999999999999999999999]", TooManyNamesError, "digits"),
        ],
    )
    def test_refuses_what_is_no_range(self, pattern: str, error: type[HostlistError], words: str) -> None:
        with pytest.raises(error, match=words):
            expand(pattern)

    def test_its_errors_are_value_errors_and_usage_errors(self) -> None:
        with pytest.raises(ValueError, match="no partner") as caught:
            expand("[")
        assert isinstance(caught.value, HostlistError)
        assert caught.value.exit_code == 2

    @settings(deadline=None)
    @given(before=plain, after=plain, first=st.integers(0, 2000), count=st.integers(1, 50), width=st.integers(1, 6))
    def test_gives_back_what_a_range_was_made_of(
        self, before: str, after: str, first: int, count: int, width: int
    ) -> None:
        numbers = [str(number).zfill(width) for number in range(first, first + count)]
        assert expand(f"{before}[{numbers[0]}-{numbers[-1]}]{after}") == [before + n + after for n in numbers]
        assert expand(f"{before}[{','.join(numbers)}]{after}") == [before + n + after for n in numbers]

    @settings(deadline=None)
    @given(st.text(alphabet="ag[]-,019:", max_size=14))
    def test_any_text_expands_to_distinct_names_or_is_refused(self, text: str) -> None:
        try:
            names = expand(text)
        except HostlistError:
            return
        assert len(set(names)) == len(names) >= 1


class TestSelect:
    @pytest.mark.parametrize(
        ("sel", "indexes"),
        [
            ("gpu2", (1,)),
            ("gpu[1-2]", (0, 1)),
            ("0", (0,)),
            ("0-2", (0, 1, 2)),
            ("lab-b,gpu1", (0, 4)),
            (" lab-b , gpu1 ", (0, 4)),
            ("gpu1,gpu1,0", (0,)),
            ("!gpu2", (0, 2, 3, 4)),
            ("!gpu[1,3],!4", (1, 3)),
            ("gpu[1-3],!gpu2", (0, 2)),
            ("!gpu2,gpu[1-3]", (0, 2)),
        ],
    )
    def test_takes_names_ranges_indexes_and_exclusions(self, sel: str, indexes: tuple[int, ...]) -> None:
        assert select(sel, NAMES) == indexes

    def test_a_node_named_by_digits_is_meant_by_its_name(self) -> None:
        assert select("7", NAMES) == (3,)
        assert select("!7", NAMES) == (0, 1, 2, 4)

    def test_an_unknown_name_names_the_nearest(self) -> None:
        with pytest.raises(SelectionError, match="no node is named 'gpu4'") as caught:
            select("gpu1,gpu4", NAMES)
        assert "gpu" in caught.value.fix

    def test_a_name_like_no_other_gets_the_list(self) -> None:
        with pytest.raises(SelectionError) as caught:
            select("-1", NAMES)
        assert caught.value.fix == "The nodes are: gpu1, gpu2, gpu3, 7, lab-b."

    @pytest.mark.parametrize(
        ("sel", "words"),
        [
            ("5", "count from 0 to 4"),
            ("0-5", "no node 5"),
            ("", "an empty part"),
            ("gpu1,,gpu2", "an empty part"),
            ("!", "an empty part"),
            ("gpu1,!gpu1", "leaves no node"),
            ("!0-4", "leaves no node"),
            ("2-0", "runs backwards"),
        ],
    )
    def test_refuses_what_selects_nothing(self, sel: str, words: str) -> None:
        with pytest.raises(HostlistError, match=words):
            select(sel, NAMES)

    @settings(deadline=None)
    @given(st.lists(st.integers(0, 30), min_size=1, unique=True), st.data())
    def test_finds_every_set_of_names_in_file_order(self, order: list[int], data: st.DataObject) -> None:
        names = [f"n{number}" for number in order]
        chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        assert [names[i] for i in select(",".join(chosen), names)] == [name for name in names if name in chosen]
        if len(chosen) < len(names):
            left = select(",".join(f"!{name}" for name in chosen), names)
            assert [names[i] for i in left] == [name for name in names if name not in chosen]


class TestSelectRanks:
    @pytest.mark.parametrize(("sel", "ranks"), [("0", (0,)), ("0-3", (0, 1, 2, 3)), ("!5", (0, 1, 2, 3, 4, 6, 7))])
    def test_takes_numbers_ranges_and_exclusions(self, sel: str, ranks: tuple[int, ...]) -> None:
        assert select_ranks(sel, 8) == ranks

    @pytest.mark.parametrize(("sel", "words"), [("8", "no rank 8"), ("gpu1", "not a rank"), ("-1", "not a rank")])
    def test_refuses_what_is_no_rank(self, sel: str, words: str) -> None:
        with pytest.raises(HostlistError, match=words):
            select_ranks(sel, 8)


def test_commas_in_brackets_do_not_split() -> None:
    assert list(split_commas("a, gpu[1,3],b")) == [(0, "a"), (3, "gpu[1,3]"), (12, "b")]
