"""The strict reader: what it takes, what it refuses, and that it always says where."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclrun.planning.strictyaml import MAX_BYTES, Document, dotted, load

FAULTS = [
    # text, line, column, path, a piece of the message
    ("", 1, 1, "", "the file is empty"),
    ("# nothing\n", 1, 1, "", "the file is empty"),
    ("a: 1\na: 2\n", 2, 1, "a", "given twice, first at line 1, column 1"),
    ("x:\n  - {k: 1, k: 2}\n", 2, 12, "x[0].k", "given twice, first at line 2, column 6"),
    ("a: &x 1\n", 1, 4, "a", "an anchor (&x)"),
    ("b: *x\n", 1, 4, "b", "an alias (*x)"),
    ("a: !!str 5\n", 1, 4, "a", "a tag (!!str)"),
    ("a: !mine {b: c}\n", 1, 4, "a", "a tag (!mine)"),
    ("a:\n\tb: c\n", 2, 1, "a", "a tab"),
    ("a:\tb\n", 1, 3, "a", "a tab"),
    ("a: b\n---\nc: d\n", 2, 1, "", "a second document"),
    ("a: b\n...\nc: d\n", 3, 1, "", "belongs to nothing above"),
    ("1: a\n", 1, 1, "1", "a key is text"),
    ("true: a\n", 1, 1, "true", "a key is text"),
    ("on: a\n", 1, 1, "on", "YAML reads on as the boolean true"),
    ("? [a]\n: b\n", 1, 3, "", "a key is text, not a list"),
    ("<<: {a: b}\n", 1, 1, "<<", "a merge key"),
    ("a: {b: c\n", 2, 1, "a", "the mapping that opens at line 1, column 4 is not closed"),
    ("a: [b\n", 2, 1, "a[1]", "the list that opens at line 1, column 4 is not closed"),
    ('a: "b\n', 2, 1, "a", "the quote that opens at line 1, column 4 is not closed"),
    ("a: [gpu[1-3]]\n", 1, 8, "a[1]", "needs quotes inside { } and [ ]"),
    ("a: b: c\n", 1, 5, "", "belongs to no key"),
    ("a:\n  b: c\n d: e\n", 3, 2, "", "fits none of the blocks above"),
    ("a: @b\n", 1, 4, "a", "begins with this character"),
    ("a: *.b\n", 1, 5, "a", "text that begins with * or &"),
    ('a: "\\d"\n', 1, 6, "a", "a backslash in double quotes"),
    ("a: x\x07\n", 1, 5, "", "the control character 0x7"),
    ('a: "\\ud800"\n', 1, 4, "a", "half a character"),
    ("a: " + "[" * 30, 1, 23, "a" + "[0]" * 19, "more than 20 levels"),
    ("a: " + "9" * 400, 1, 4, "a", "a number of 400 digits"),
]
TRAPS = [
    ("no", "the boolean false"),
    ("Yes", "the boolean true"),
    ("OFF", "the boolean false"),
    ("22:22", "a number to the base 60"),
    ("1:2:3:4:5:6:7:8", "a number to the base 60"),
    ("010", "an octal number"),
    ("089", "a number or as text"),
    ("0x1F", "not decimal"),
    ("0o17", "not decimal"),
    ("0b11", "not decimal"),
    ("1_000", "a number; leave out the _"),
    ("1_0.5", "a number; leave out the _"),
    ("2024-01-01", "a date"),
    ("2024-01-01 10:00:00", "a date"),
    (".inf", "not finite"),
    ("-.Inf", "not finite"),
    (".NaN", "not finite"),
    ("~", "null"),
    ("Null", "null"),
    ("", "there is no value here"),
]


def only_problem(document: Document) -> tuple[int, int, str, str]:
    assert len(document.problems) == 1, document.problems
    problem = document.problems[0]
    return problem.line, problem.column, problem.path, problem.message


class TestFaults:
    @pytest.mark.parametrize(("text", "line", "column", "path", "words"), FAULTS)
    def test_say_where_and_what(self, text: str, line: int, column: int, path: str, words: str) -> None:
        found = only_problem(load(text))
        assert found[:3] == (line, column, path)
        assert words in found[3]

    @pytest.mark.parametrize(("text", "meaning"), TRAPS)
    def test_plain_text_that_yaml_takes_for_something_else(self, text: str, meaning: str) -> None:
        line, column, path, message = only_problem(load(f"x:\n  key: {text}\n"))
        assert (line, path) == (2, "x.key")
        assert column == (8 if text else 7)
        assert meaning in message

    @pytest.mark.parametrize("text", [text for text, _ in TRAPS])
    def test_the_same_in_quotes_is_text(self, text: str) -> None:
        document = load(f"key: '{text}'\n")
        assert document.data == {"key": text}
        assert document.problems == []

    def test_are_all_found_in_one_pass(self) -> None:
        document = load("a: no\nb: &x 010\nb: 2\nc: [~, *x]\n")
        assert [(p.line, p.path) for p in document.problems] == [
            (1, "a"),
            (2, "b"),
            (2, "b"),
            (3, "b"),
            (4, "c[0]"),
            (4, "c[1]"),
        ]

    def test_the_first_of_two_values_is_kept(self) -> None:
        document = load("a: {b: 1}\na: {b: 2}\n")
        assert document.data == {"a": {"b": 1}}
        assert document.place(("a", "b")) == (1, 8)

    def test_a_file_that_is_not_utf8_says_at_which_byte(self) -> None:
        assert only_problem(load(b"a: b\nc: \xe9\n"))[:2] == (2, 4)

    def test_a_file_over_one_mebibyte_is_not_parsed(self) -> None:
        assert "larger than 1 MiB" in only_problem(load(b"[" * (MAX_BYTES + 1)))[3]

    def test_an_alias_bomb_stays_small(self) -> None:
        bomb = "a: &a [x,x]\n" + "".join(
            f"{c}: &{c} [*{p},*{p}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
        )
        document = load(bomb)
        assert document.data["i"] == ["", ""]
        assert len(document.problems) == 9 + 16


class TestValues:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("8", 8),
            ("-1", -1),
            ("0", 0),
            ("1.50", 1.5),
            (".5", 0.5),
            ("1e3", 1000.0),
            ("true", True),
            ("FALSE", False),
            ("y", "y"),
            ("N", "N"),
            ("10.0.0.7", "10.0.0.7"),
            ("::1", "::1"),
            ("fe80::1", "fe80::1"),
            ("gpu[03-16]", "gpu[03-16]"),
            ("|\n  a\n  b\n", "a\nb\n"),
            (">\n  a\n  b\n", "a b\n"),
            ("é", "é"),
        ],
    )
    def test_are_what_they_look_like(self, text: str, value: object) -> None:
        document = load(f"key: {text}\n")
        assert document.problems == []
        assert document.data == {"key": value}
        assert type(document.data["key"]) is type(value)

    def test_numbers_keep_what_was_written(self) -> None:
        assert load("a: 1.50\nb: +7\n").texts == {("a",): "1.50", ("b",): "+7"}

    def test_a_byte_order_mark_is_no_content(self) -> None:
        document = load(b"\xef\xbb\xbfa: b\n")
        assert document.data == {"a": "b"}
        assert document.keys["a",] == (1, 1)

    def test_places_count_from_one_and_fall_back_to_what_is_around(self) -> None:
        document = load("nodes:\n  - host: a\n    env:\n      X: y\n")
        assert document.place(("nodes", 0, "env", "X")) == (4, 10)
        assert document.place(("nodes", 0, "env", "X"), key=True) == (4, 7)
        assert document.place(("nodes", 0, "port")) == (2, 5)
        assert dotted(("nodes", 0, "env", "X")) == "nodes[0].env.X"


@settings(deadline=None)
@given(st.text(alphabet="ab01:-,[]{}&*!|>'\"#%@?~\\ \t\n", max_size=60))
def test_any_text_gives_plain_data_or_a_problem(text: str) -> None:
    document = load(text)
    lines = text.count("\n") + 1
    assert document.data is not None or document.problems
    assert all(
        1 <= problem.line <= lines + 1 and problem.column >= 1 and problem.message for problem in document.problems
    )


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_give_plain_data_or_a_problem(content: bytes) -> None:
    document = load(content)
    assert document.data is not None or document.problems
