"""Numbers, lists and words as people and shells read them."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncclrun.console.labels import NODE_COLORS
from ncclrun.console.words import count, duration, shell_word, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.031, "0.03 s"),
        (1.24, "1.2 s"),
        (12.4, "12 s"),
        (59.7, "1 min 00 s"),
        (185, "3 min 05 s"),
        (7620, "2 h 07 min"),
    ],
)
def test_durations_are_as_fine_as_they_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("number", "text"), [(812, "812 B"), (34211, "34.2 kB"), (1.2e6, "1.2 MB"), (5e10, "50 GB")])
def test_sizes_are_short(number: int, text: str) -> None:
    assert size(number) == text


def test_nouns_are_counted() -> None:
    assert (count(1, "node"), count(2, "node")) == ("1 node", "2 nodes")


@settings(max_examples=40)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_a_shell_word_is_read_back_by_bash_as_it_was(text: str) -> None:
    word = shell_word(text)
    assert "\n" not in word
    done = subprocess.run(
        ["bash", "-c", f"printf %s {word}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert done.stdout.decode("utf-8") == text


@pytest.mark.parametrize("number", NODE_COLORS)
def test_a_nodes_colour_is_read_on_black_and_on_white(number: int) -> None:
    levels = (0, 95, 135, 175, 215, 255)
    index = number - 16
    red, green, blue = (
        value / 255 / 12.92 if value <= 10 else ((value / 255 + 0.055) / 1.055) ** 2.4
        for value in (levels[index // 36], levels[index // 6 % 6], levels[index % 6])
    )
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    assert 1.05 / (luminance + 0.05) >= 4
    assert (luminance + 0.05) / 0.05 >= 4
