"""Lays out recorded /sys trees: `path = text` for a file, `path -> target` for a link, `path/` for a directory."""

from __future__ import annotations

from pathlib import Path

RECORDED = Path(__file__).parent / "sys"


def lay(name: str, root: Path) -> Path:
    """The tree of that record under ``root``, which stands for /sys."""
    for line in (RECORDED / f"{name}.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        path, _, text = line.partition(" = ")
        path, _, target = path.partition(" -> ")
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if target:
            place.symlink_to(target)
        elif path.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.write_text(text + "\n")
    return root
