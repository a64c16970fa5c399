"""Small pieces of text that all floors share."""

from __future__ import annotations

from collections.abc import Sequence

MOST_LISTED = 4


def listed(names: Sequence[str], most: int = MOST_LISTED) -> str:
    """``a, b, c, d and 12 more``."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
