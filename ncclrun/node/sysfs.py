"""Small files of /sys and /proc, any of which a container may lack or a driver leave without an answer."""

from __future__ import annotations

from pathlib import Path

NET = Path("/sys/class/net")
ETHER, INFINIBAND, LOOPBACK = 1, 32, 772
"""Link types as the file ``type`` of an interface and rtnetlink have them (ARPHRD)."""


def read(path: Path) -> str:
    """The text of a file, "" where it is missing or its driver does not say."""
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def entries(path: Path) -> list[Path]:
    """What lies in a directory, sorted; [] where there is none."""
    try:
        return sorted(path.iterdir())
    except OSError:
        return []
