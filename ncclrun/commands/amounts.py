"""Times, ages and sizes as people write them on a command line."""

from __future__ import annotations

from collections.abc import Mapping

from ncclrun.model.amounts import AMOUNT, bytes_of
from ncclrun.model.errors import UsageError

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def duration(option: str, text: str) -> float:
    """Seconds of ``90``, ``90s``, ``10m``, ``1.5h``; raises UsageError for anything else, 0 too."""
    seconds = _seconds(text, {"": 1.0, **_SECONDS})
    if not seconds:
        raise UsageError(f"{option} {text!r} is no time", fix=f"{option} 90s, {option} 10m or {option} 1h")
    return seconds


def age(option: str, text: str) -> float:
    """Seconds of ``14d``, ``36h``, ``2w``; raises UsageError for anything else, a number without its unit too."""
    seconds = _seconds(text, _SECONDS)
    if seconds is None:
        raise UsageError(f"{option} {text!r}: an age is wanted", fix=f"a number with s, m, h, d or w:  {option} 14d")
    return seconds


def _seconds(text: str, units: Mapping[str, float]) -> float | None:
    match = AMOUNT.match(text.strip())
    factor = units.get(match[2].lower()) if match else None
    return None if match is None or factor is None else float(match[1]) * factor


def size(option: str, text: str) -> int:
    """Bytes of ``10G``, ``500MB``, ``2GiB``; raises UsageError for anything else."""
    found = bytes_of(text)
    if found is None:
        raise UsageError(f"{option} {text!r}: a size is wanted", fix=f"a number with k, M, G or T:  {option} 10G")
    return found
