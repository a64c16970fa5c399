"""Nothing that a program writes can do more to a terminal than colour its own line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.console.sanitize import RESET, one_line, sanitize

SGR = re.compile(r"\x1b\[[0-9;:]*m")
HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
HOSTILE = st.lists(
    st.one_of(
        st.text(st.characters(), max_size=5),
        st.sampled_from(
            ["\x1b", "\x1b[", "\x1b[31m", "\x1b]52;c;", "\x07", "\x9b", "31m", "m", "\r", "\n", "\t", "\u202e"]
        ),
    )
).map("".join)


class TestText:
    def test_that_is_harmless_is_the_same_object(self) -> None:
        text = "größe\t日本 🚀\nnext"
        assert sanitize(text, colors=True) is text

    @pytest.mark.parametrize(
        ("hostile", "shown"),
        [
            ("\x1b]0;title\x07", "␛]0;title␇"),
            ("\x1b]52;c;ZXZpbA==\x1b\\", "␛]52;c;ZXZpbA==␛\\"),
            ("\x1b[2J\x1b[H", "␛[2J␛[H"),
            ("\x1bPq#0\x1b\\", "␛Pq#0␛\\"),
            ("a\rb\x08c\x00\x7f", "a␍b␈c␀␡"),
            ("\x9b31mred", "\\x9b31mred"),
            ("safe\u202egnp.exe", "safe\\u202egnp.exe"),
            ("a\u2028b\x85c", "a\\u2028b\\x85c"),
            ("\x1b[31;1Hx", "␛[31;1Hx"),
        ],
    )
    def test_shows_what_would_act(self, hostile: str, shown: str) -> None:
        assert sanitize(hostile, colors=True) == shown
        assert sanitize(hostile, colors=False) == shown

    def test_may_erase_the_rest_of_a_line_that_has_none(self) -> None:
        assert sanitize("match\x1b[K", colors=False) == "match"


class TestColours:
    def test_stay_on_a_terminal_and_end_with_their_line(self) -> None:
        assert sanitize("\x1b[31mred\nplain\x07", colors=True) == f"\x1b[31mred{RESET}\nplain␇"

    def test_are_taken_out_for_a_pipe(self) -> None:
        assert sanitize("\x1b[1;38;5;9mred\x1b[0m", colors=False) == "red"


@given(HOSTILE)
def test_a_terminal_gets_no_control_but_colours(text: str) -> None:
    clean = sanitize(text, colors=True)
    assert HARMFUL.search(SGR.sub("", clean)) is None
    assert all(line.endswith(RESET) for line in clean.split("\n") if "\x1b" in line)
    assert clean.count("\n") == text.count("\n")


@given(HOSTILE)
def test_a_pipe_gets_no_control_at_all(text: str) -> None:
    clean = sanitize(text, colors=False)
    assert HARMFUL.search(clean) is None
    assert "\n" not in one_line(text)
