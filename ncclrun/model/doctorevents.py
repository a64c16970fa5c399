"""The events of `ncclrun doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from ncclrun.model.settings import Level


@dataclass(frozen=True, kw_only=True, slots=True)
class Examined:
    """A node as `doctor` found it; "" is not known. ``unknown`` says what could not be looked at, and why."""

    event: ClassVar[str] = "examined"
    node: str
    node_rank: int
    host: str
    lost: str = ""
    """Why it could not be asked: nothing else is known of it then."""
    hostname: str = ""
    system: str = ""
    """Distribution and its version."""
    container: str = ""
    kernel: str = ""
    gpus: tuple[str, ...] = ()
    driver: str = ""
    python: str = ""
    torch: str = ""
    cuda: str = ""
    """That torch was built for."""
    nccl: str = ""
    """That torch loads; where that is not known, that its package has."""
    worst: Level | None = None
    """Of its findings; null where there is none."""
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorFinding:
    """Something that `doctor` found on a node. ``id`` names the page docs/findings/ID.md; ``title`` and ``cause`` are
    the same of every finding with that id."""

    event: ClassVar[str] = "finding"
    node: str
    node_rank: int
    host: str
    hostname: str
    id: str
    level: Level
    title: str
    evidence: str
    cause: str
    fix: str
    """What mends it there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FactsSaved:
    """The facts of all nodes were written to one file; secrets in it are stars, addresses too where it is asked."""

    event: ClassVar[str] = "facts_saved"
    path: str
    nodes: int
    size: int
    """Bytes."""
    masked: bool
    """Addresses and names are pseudonyms."""
