"""What a node's settings come to: which value NCCL takes, from where, what that hides, and how nodes differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Origin = Literal["run", "login", "named", "home", "passwd_home", "system", "default"]
"""``run``: what ncclrun sets in the workers' environment; ``login``: the node's own; ``default``: nobody sets it; the
others are conf files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """A value that does not count, since another of its name comes first; ``line`` is None outside files."""

    value: str
    source: str
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """The value of a variable that NCCL takes; an empty one counts as not set, and hides others all the same.

    ``source`` is a path or words for people, ``hides`` are in the order in which they would count.
    """

    name: str
    value: str
    source: str
    origin: Origin
    line: int | None = None
    hides: tuple[Hidden, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A value (None: not set) and the nodes that have it."""

    value: str | None
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A variable that is not the same on all nodes; the value that most have comes first."""

    name: str
    values: tuple[Held, ...]
    usual: bool
    """The first value is that of more than half of the nodes."""
    per_host: bool
    """It may differ: it names what is a host's own, such as an interface."""
