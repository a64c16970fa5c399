"""How each node of a run ended, as far as it is known, and what that makes of the whole run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ncclrun.model.endevents import Cause, NodeSummary

Reason = Literal["finished", "failed", "stopped", "timeout", "stalled", "lost"]
StoppedBy = Literal["", "user", "timeout", "stalled"]
"""Who asked for the stop before anything had failed; "" when nobody did."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeEnd:
    """One node's end. Exactly one of ``record``, ``lost`` and ``refused`` is set, or none while the node still runs."""

    node: str
    node_rank: int
    host: str
    first_rank: int
    nproc: int
    launcher: Literal["torchrun", "exec"] = "torchrun"
    clock_offset: float = 0.0
    """Node's clock minus ours, seconds."""
    record: dict[str, Any] | None = None
    """The node's exit.json (docs/node-protocol.md)."""
    lost: str | None = None
    """Why nothing is known of the end (``silent for 12 s``)."""
    lost_at: float | None = None
    """Since when, seconds of Unix time on our clock."""
    rebooted: bool = False
    """``lost`` because the host was booted anew: nothing of the run can live there."""
    gone: bool = False
    """``lost`` because its host has no directory of the run any more, and no process."""
    refused: str | None = None
    """The node's message when it refused to start; nothing of the run ever lived there."""
    unreached: bool = False
    """``refused`` because the request to start was lost with the link: the node itself would have started."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The verdict on a run: its exit code, its one cause, and a row for each node."""

    exit_code: int
    reason: Reason
    cause: Cause | None
    victims: tuple[str, ...]
    """What failed or was stopped as a consequence, one text a node."""
    nodes: tuple[NodeSummary, ...]
