"""Sizes are read and shown as people write them."""

from __future__ import annotations

import pytest

from ncclrun.model.amounts import bytes_of, size_text


@pytest.mark.parametrize(("text", "size"), [("1GiB", 1 << 30), ("500M", 500_000_000), ("1.5 ki", 1536), ("7", 7)])
def test_a_size_is_read(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "much", "1 GiB more", "-1", "1Xi", "1e9"])
def test_what_is_no_size_is_none(text: str) -> None:
    assert bytes_of(text) is None


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (1_288_490_189, "1.2 GiB"), (5 << 50, "5120.0 TiB")],
)
def test_a_size_is_shown(size: int, text: str) -> None:
    assert size_text(size) == text
