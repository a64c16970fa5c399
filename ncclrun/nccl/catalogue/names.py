"""All known names, and the way from a name to what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from ncclrun.nccl.catalogue.known import Known

_ALL: tuple[Known, ...] = (
    Known(name="NCCL_SOCKET_IFNAME", kind="interfaces", same="may differ"),
    Known(name="NCCL_DEBUG", kind="choice", allowed=("VERSION", "WARN", "INFO", "ABORT", "TRACE")),
    Known(name="TORCH_*", side="torch", conf=False),
)
KNOWN: Mapping[str, Known] = {entry.name: entry for entry in _ALL if "*" not in entry.name}
"""Name -> what is known of it."""
FAMILIES: tuple[Known, ...] = tuple(entry for entry in _ALL if "*" in entry.name)
"""Names that are known by a pattern alone."""


def find(name: str) -> Known | None:
    """The entry of exactly this name, else the family that it belongs to; None for an unknown one."""
    return KNOWN.get(name) or next((family for family in FAMILIES if fnmatchcase(name, family.name)), None)
