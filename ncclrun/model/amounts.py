"""Sizes as people write them."""

from __future__ import annotations

import re

AMOUNT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?([A-Za-z]*)\Z")
"""A number, and its unit or none."""
_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def bytes_of(text: str) -> int | None:
    """Bytes of ``10G``, ``500MB``, ``2GiB``; None for anything else."""
    match = AMOUNT.match(text)
    factor = {**_DECIMAL, **_BINARY}.get(match[2].lower().removesuffix("b")) if match else None
    return None if match is None or factor is None else int(float(match[1]) * factor)


def size_text(size: int) -> str:
    """``1.2 GiB``, ``512 KiB``, for people."""
    if size < 1024:
        return f"{size} bytes"
    power = min(4, (size.bit_length() - 1) // 10)
    return f"{size / 1024**power:.1f} {'KMGT'[power - 1]}iB"
