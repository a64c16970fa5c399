"""One node of a run, as the controller that follows it knows it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ncclrun.commands.logfiles import Place
from ncclrun.diagnosis.lifeline import Teller
from ncclrun.model.cluster import Node
from ncclrun.model.events import Event, NodeStateName, RanksMoved, Warn
from ncclrun.model.lines import LineAssembler
from ncclrun.model.outcome import NodeEnd
from ncclrun.transport.session import Session

How = Literal["term", "kill"]

LEASE = 30.0
"""Seconds that a node may be silent before the run counts as broken there, where ``launch.lease`` is 0."""
LATELY = 4.0
"""Seconds: a node that has nothing else to say says so every 2 s."""


@dataclass
class Member:
    """One node of the run and what is known of it."""

    node: Node
    node_rank: int
    first_rank: int
    nproc: int
    grace: float
    boot_id: str
    """"": not known, for the host did not answer when the run was taken up."""
    clock_offset: float
    session: Session | None
    generation: int = 0
    torchrun_rank: int | None = None
    """Global rank of local rank 0 as the workers last said; None before they did."""
    offsets: dict[str, int] = field(default_factory=dict)
    lines: dict[str, LineAssembler] = field(default_factory=dict)
    workers_over: bool = False
    """All its workers have ended by themselves; only the launcher is left."""
    state: NodeStateName = "running"
    record: dict[str, Any] | None = None
    lost: str | None = None
    lost_at: float | None = None
    rebooted: bool = False
    """Since the run was started there; it may have ended before."""
    gone: bool = False
    """Its host has no directory of the run, and no process."""
    refused: str | None = None
    """Why it never started."""
    unreached: bool = False
    """It never started because the request to was lost with the link."""
    not_started: str = ""
    """The node's words for that, until it has confirmed that nothing can start there any more."""
    no_way: str = ""
    """Why the last try for a new link failed: a changed host key reads otherwise than a cut cable."""
    no_way_fix: str = ""
    unknown_since: float | None = None
    """Its last word, as far as we know, in seconds of the follower's clock."""
    hears: dict[int, float | None] = field(default_factory=dict)
    """Other nodes, by node_rank: for how many seconds its supervisor had not heard theirs, None: that one has ended."""
    only_from_here: bool = False
    """It was told that the other nodes hear it while we don't."""
    halted: bool = False
    """Its supervisor is, by a signal, as its serving process sees it."""
    asked: How | None = None
    asked_at: float = 0.0
    asked_why: str = ""
    asked_lost: int | None = None
    """The node_rank that the others do not hear any more, where that is why."""
    epoch: int = 0
    """The last claim of ours that it was sent."""

    @property
    def over(self) -> bool:
        """Whether nothing more will be heard of this node."""
        return self.record is not None or self.lost is not None or self.refused is not None

    @property
    def answers(self) -> bool:
        """Whether its host is heard here; one without power is silent long before its link counts as lost."""
        return self.session is not None and self.unknown_since is None and self._unheard < LATELY

    @property
    def _unheard(self) -> float:
        """Seconds since its last word by a link that has not broken."""
        return time.monotonic() - self.session.last_heard if self.session is not None else math.inf

    def silent(self, now: float) -> float:
        """Seconds since its last word; ``now`` by the follower's clock."""
        return self._unheard if self.unknown_since is None else now - self.unknown_since

    @property
    def lease(self) -> float:
        """Seconds for which it may be silent."""
        return self.node.launch.lease or LEASE

    def teller(self) -> Teller:
        """What it tells of the other nodes' supervisors."""
        return Teller(self.node_rank, self.node.name, self.answers, self.hears, self.halted)

    def place(self, stream: str) -> Place:
        """The stream's place in the logs, from the node's name for it (``0.out``, ``launcher.err``)."""
        who, _, kind = stream.partition(".")
        rank = None if who == "launcher" else self.first_rank + int(who)
        return Place(self.node_rank, rank, kind)

    def ended(self, launcher: Literal["torchrun", "exec"]) -> NodeEnd:
        """The node's end for the verdict."""
        return NodeEnd(
            node=self.node.name,
            node_rank=self.node_rank,
            host=self.node.host,
            first_rank=self.first_rank,
            nproc=self.nproc,
            launcher=launcher,
            clock_offset=self.clock_offset,
            record=self.record,
            lost=None if self.record else self.lost,
            lost_at=self.lost_at,
            rebooted=self.rebooted,
            gone=self.gone,
            refused=self.refused,
            unreached=self.unreached,
        )


def learn_ranks(member: Member, first_rank: int | None) -> Iterator[Event]:
    """The ranks that torchrun has given a node's workers; what they have printed by then keeps its names."""
    if first_rank is None or first_rank == member.torchrun_rank:
        return
    member.torchrun_rank = first_rank
    if first_rank == member.first_rank:
        return
    if any(not stream.startswith("launcher") and size for stream, size in member.offsets.items()):
        text = f"torchrun has numbered its workers anew, from {first_rank} on; here they are still called as before"
        yield Warn(text=text, node=member.node.name)
    else:
        member.first_rank = first_rank
        yield RanksMoved(node=member.node.name, node_rank=member.node_rank, first_rank=first_rank)


def first_bad(member: Member, record: dict[str, Any]) -> str:
    """What broke on a node in a few words, for the line that announces the stop; the verdict looks closer."""
    bad = [
        rank for rank in record.get("ranks") or () if (rank.get("code") or rank.get("signal")) and rank.get("ended_at")
    ]
    if not bad:
        return f"the launcher {record.get('reason', 'ended')}"
    first = min(bad, key=lambda rank: float(rank["ended_at"]))
    how = f"signal {first['signal']}" if first.get("signal") else f"exit code {first['code']}"
    return f"rank {member.first_rank + int(first['local_rank'])} failed ({how})"
