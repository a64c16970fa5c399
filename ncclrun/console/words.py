"""Small pieces of text that several views share: times, sizes, shell words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from datetime import datetime

from ncclrun.model.words import bare, lasting, listed

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def duration(seconds: float) -> str:
    """``0.42 s``, ``12 s``, ``3 min 05 s``, ``2 h 07 min``."""
    if seconds < 10:  # people look at the fractions only of short times
        return f"{seconds:.2g} s" if seconds >= 1 else f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def ago(seconds: float) -> str:
    """How long something has gone on, in one unit: ``now``, ``12 s ago``, ``3 h ago``, ``5 d ago``."""
    return "now" if seconds < 1 else f"{lasting(seconds)} ago"


def moment(seconds: float) -> str:
    """What a connection takes: ``0.31 ms``, ``12 ms``, ``1.2 s``."""
    ms = seconds * 1000
    if ms >= 1000:
        return f"{seconds:.1f} s"
    return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.2g} ms" if ms >= 1 else f"{ms:.2f} ms"


def milliseconds(seconds: float) -> str:
    """The same for a table whose head names the unit: ``0.31``, ``1.2``, ``12``."""
    ms = seconds * 1000
    return f"{ms:.2f}" if ms < 1 else f"{ms:.1f}" if ms < 10 else f"{ms:.0f}"


def speed(gbits: float) -> str:
    """Three digits at most: ``0.94``, ``9.4``, ``94``."""
    return f"{gbits:.2f}" if gbits < 1 else f"{gbits:.1f}" if gbits < 10 else f"{gbits:.0f}"


def size(count: int) -> str:
    """Bytes as ``812 B``, ``34 kB``, ``1.2 MB``."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def count(number: int, noun: str) -> str:
    """``1 node``, ``3 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def on_nodes(nodes: Sequence[str], total: int) -> str:
    """``on all 3 nodes``, ``on gpu1, gpu2``."""
    return f"on all {count(total, 'node')}" if len(nodes) == total > 1 else f"on {listed(nodes)}"


def clock_time(seconds: float) -> str:
    """Unix time as the wall clock here shows it, ``14:03:27``."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S")


def shell_word(text: str) -> str:
    """``text`` as one word that may be pasted into bash, on one line and without control characters."""
    if not _CONTROL.search(text):
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + _CONTROL.sub(_escape, escaped) + "'"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return {"\n": "\\n", "\t": "\\t"}.get(match[0], f"\\x{code:02x}" if code < ord("\x80") else f"\\u{code:04x}")


def about(node: str, message: str, host: str = "") -> str:
    """The message with the node (and its host) that it is about in front, once."""
    return f"{place(node, host)}: {bare(message, node, host)}"


def place(node: str, host: str) -> str:
    """``gpu2 (10.0.0.7)``; the host is left out where it has the node's name."""
    return node if host in ("", node) else f"{node} ({host})"


def endpoint(address: str, port: int | str) -> str:
    """``10.0.0.7:29500``, ``[fd00::7]:29500``."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
