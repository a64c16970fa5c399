"""Small pieces of text that all floors share."""

from __future__ import annotations

from collections.abc import Sequence

MOST_LISTED = 4


def listed(names: Sequence[str], most: int = MOST_LISTED) -> str:
    """``a, b, c, d and 12 more``."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def lasting(seconds: float) -> str:
    """How long something has lasted, in the one unit that says enough: ``40 s``, ``12 min``, ``3 h``, ``5 d``."""
    for name, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def bare(message: str, *names: str) -> str:
    """The message without the node's or the host's name in front, however often it stands there."""
    heads = tuple(f"{name}: " for name in names if name)
    while message.startswith(heads):
        message = message.partition(": ")[2]
    return message
