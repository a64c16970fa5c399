"""All that `doctor` learned of nodes, as it is saved and judged: a host need not be there any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ncclrun.model.facts import NodeFacts
from ncclrun.model.fieldtypes import Auto, Gpus, Line, Nproc
from ncclrun.model.health import Examination
from ncclrun.model.netevents import Problem
from ncclrun.model.network import Names


@dataclass(frozen=True)
class NodeRecord:
    """One node; without ``facts`` it could not be asked (``lost`` says why), without ``exam`` it would not tell."""

    name: str
    node_rank: int
    host: str
    python: Line
    nproc: Nproc | Auto
    gpus: Gpus | None = None
    env: tuple[str, ...] = ()
    """Names of the variables that the cluster file gives its workers."""
    facts: NodeFacts | None = None
    exam: Examination | None = None
    names: Names | None = None
    connected: float | None = None
    lost: Problem | None = None


@dataclass(frozen=True)
class Records:
    """The file of `doctor --save`."""

    nodes: tuple[NodeRecord, ...]
    cluster: str
    saved_at: float
    program: str
    """``ncclrun`` and its version."""
    format: Literal["ncclrun facts 1"] = "ncclrun facts 1"
    masked: bool = False
