"""Lists as people read them."""

from __future__ import annotations

from ncclrun.model.words import listed


def test_long_lists_are_cut() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(list("abcdef")) == "a, b, c, d and 2 more"
    assert listed(list("abcdef"), 1) == "a and 5 more"
