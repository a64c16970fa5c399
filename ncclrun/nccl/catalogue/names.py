"""All known names, and the way from a name to what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from ncclrun.nccl.catalogue.algorithms import ALGORITHMS
from ncclrun.nccl.catalogue.debug import DEBUG, LIBRARIES
from ncclrun.nccl.catalogue.foreign import PLUGINS, TOOLS
from ncclrun.nccl.catalogue.infiniband import INFINIBAND
from ncclrun.nccl.catalogue.internal import INTERNAL
from ncclrun.nccl.catalogue.known import Known
from ncclrun.nccl.catalogue.libraries import GLOO, TORCH
from ncclrun.nccl.catalogue.removed import REMOVED
from ncclrun.nccl.catalogue.sockets import SOCKETS
from ncclrun.nccl.catalogue.transports import MEMORY, TRANSPORTS

ALL: tuple[Known, ...] = (
    *SOCKETS,
    *INFINIBAND,
    *TRANSPORTS,
    *ALGORITHMS,
    *MEMORY,
    *DEBUG,
    *LIBRARIES,
    *TORCH,
    *GLOO,
    *INTERNAL,
    *REMOVED,
    *PLUGINS,
    *TOOLS,
)
"""Everything, in the order in which it is shown."""
KNOWN: Mapping[str, Known] = {entry.name: entry for entry in ALL if not entry.family}
"""Name -> what is known of it."""
FAMILIES: tuple[Known, ...] = tuple(entry for entry in ALL if entry.family)
"""Names that are known by a pattern alone."""


def find(name: str) -> Known | None:
    """The entry of exactly this name, else the family that it belongs to; None for an unknown one."""
    return KNOWN.get(name) or next((family for family in FAMILIES if fnmatchcase(name, family.name)), None)
