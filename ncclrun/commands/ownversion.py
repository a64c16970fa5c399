"""Which ncclrun this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def own_version() -> str:
    """As it is installed; for a tree that runs without being installed, ``unknown``."""
    try:
        return version("ncclrun")
    except PackageNotFoundError:
        return "unknown"
