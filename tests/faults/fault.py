"""What a fault is: what is done to a run, and what must be seen of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tests.faults.workload import Kind

if TYPE_CHECKING:
    from tests.faults.scene import Scene

Controller = Literal["here", "dead"]
Logs = Literal["whole", "beginning", "counted"]
Harm = Callable[["Scene"], None]


@dataclass(frozen=True)
class Seen:
    """What must be seen at the end; a fault that training survives ends with code 0 and no cause."""

    code: int | tuple[int, ...] = 0
    """Exit code of ncclrun, or those that are right."""
    how: str = ""
    """Part of the cause's ``how``; "" when there must be no cause."""
    on: Literal["target", "other", "any"] = "target"
    """The node that the cause must name: the one that was hit, another, or either."""
    rank: bool = False
    """Whether the cause must name the rank that was hit."""
    exception: str = ""
    """Part of the cause's ``exception``."""
    text: str = ""
    """What must be found in all that ncclrun said (events as JSON, and stderr); ``{rank}`` and ``{node}`` are those
    that were hit."""
    unconfirmed: bool = False
    """Whether the nodes that were hit may be without an end: they are off, or can't be asked."""
    logs: Logs = "whole"
    """``beginning``: of the nodes that were hit only what came before they were; ``counted``: what is missing of the
    ranks that were hit, or stands there as NULs, is no more than their node's end says that it lost."""


@dataclass(frozen=True, eq=False)
class Fault:
    """One thing that goes wrong. ``inject`` does it to ``scene.target`` and returns when it is done."""

    name: str
    inject: Harm
    seen: Seen
    work: Kind = "light"
    controller: Controller = "here"
    """``dead``: ncclrun is killed before, and the nodes are on their own; ``attach`` is asked afterwards."""
    before: bool = False
    """It is there before the launch, which is to be refused; nothing may be started."""
    launches: bool = False
    """``inject`` launches by itself, for a fault of some moment of the start. Nothing may have been started by then."""
    goes_on: bool = False
    """Training survives it: it must make further steps on all ranks, and is then told to end."""
    nodes: int = 3
    """How many nodes the run has; torchrun and gloo cost two seconds of CPU for each process."""
    targets: tuple[int, ...] = (0, 1, 2)
    """Node ranks that it may hit; the tests hit the last, the soak any."""
    setting: Harm | None = None
    """What there is already when the launch is typed: a small disk, say."""

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


class Catalogue:
    """The faults of a family, in the order in which they are written down."""

    def __init__(self, **family: Any) -> None:
        """``family``: fields of ``Fault`` in which all of them are alike."""
        self._family = family
        self.faults: list[Fault] = []

    def __call__(self, name: str, seen: Seen, **fields: Any) -> Callable[[Harm], Harm]:
        """Decorates the function that injects it; ``fields`` are those of ``Fault``."""

        def enter(inject: Harm) -> Harm:
            self.faults.append(Fault(name, inject, seen, **{**self._family, **fields}))
            return inject

        return enter
