"""Gives a run's nodes their orders, and knows which of several controllers may: the one that claimed the run last."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from ncclrun.commands.about import controller
from ncclrun.commands.member import Member
from ncclrun.model.errors import HostError, NodeRefused
from ncclrun.model.events import Event, Warn
from ncclrun.transport.session import Answer


class Orders:
    """This controller's orders, each under the number of its claim (docs/node-protocol.md, "Epochs").

    The number is asked of one node and then claimed everywhere; who started the run has 0 and needs no claim. When
    another controller's claim came after ours, only a stop that the user asks for is worth a new one.
    """

    def __init__(
        self,
        run_id: str,
        members: Sequence[Member],
        token: str,
        hear: Callable[[Member, str], Callable[[Answer], None]],
        *,
        claims: bool,
    ) -> None:
        """``hear`` makes what takes the answer to a request; such answers come back by ``granted`` and ``refused``."""
        self._run_id = run_id
        self._members = members
        self._token = token
        self._hear = hear
        self._epoch: int | None = None if claims else 0
        """None: no node has said yet which is next."""
        self._lost_to: int | None = None
        """The claim of another that came after ours."""
        self._insists = False
        """The user asked for a stop: it goes over the claims of others."""
        self._user, _, self._host = controller().rpartition("@")
        self._unable: set[int] = set()
        """Nodes that can't keep a claim (a full disk, say): they can't say which one is next."""
        self._asking: tuple[int, int] | None = None
        """node_rank and generation of the link where the next number is being asked."""

    @property
    def valid(self) -> bool:
        """Whether orders may be given."""
        return self._lost_to is None

    @property
    def epoch(self) -> int | None:
        """The number of our orders; None where we have none to give (yet)."""
        return self._epoch if self.valid else None

    def insist(self) -> None:
        """The user asks for a stop: where another one has claimed the run, it is claimed anew."""
        self._insists = True
        if self._lost_to is not None:
            self._epoch, self._lost_to = self._lost_to + 1, None

    def claim(self) -> None:
        """Asks a node for the next number where ours is not known yet: at the start, and when links come and go."""
        if self._epoch is not None:
            return
        if (member := self._first()) is not None:
            self._asking = (member.node_rank, member.generation)
            self._send(member, "claim", **self._who(None))
        elif all(member.over or member.node_rank in self._unable for member in self._members):
            self._epoch = 0  # nobody is left who knows claims
            self._send_all()

    def send(self, member: Member) -> None:
        """Sends what was asked of the node, once the number is known; its end comes by `follow`."""
        if member.asked is None or member.over or self._epoch is None:
            return
        self._send_claim(member)
        why = {"reason": member.asked_why, "lost": member.asked_lost}
        self._send(member, "stop", how=member.asked, grace=member.grace, epoch=self._epoch, **why)

    def granted(self, member: Member, epoch: int) -> None:
        """A node has kept our claim; the first one's word is the number for all."""
        if self._epoch is None:
            self._epoch = member.epoch = epoch
            self._send_all()

    def refused(self, member: Member, error: NodeRefused) -> Iterator[Event]:
        """A claim or a stop was refused: the node can't keep claims, or another one's came after ours."""
        if error.code != "superseded":
            self._unable.add(member.node_rank)
            self._asking = None
            self.claim()
            return
        theirs, mine = error.details, (self._epoch, self._user, self._host)
        epoch = int(theirs.get("epoch", 0))
        if (epoch, theirs.get("by"), theirs.get("host")) == mine or epoch < (self._epoch or 0) or not self.valid:
            return  # our own claim, whose answer was lost with a link; or old news
        if self._insists:
            self._epoch = epoch + 1
            self._send_all()
            return
        self._lost_to = epoch
        # Whoever has it now decides; what was asked here has stopped nobody, or somebody who stops anyway.
        for one in self._members:
            one.asked = None
        since = time.localtime(float(theirs.get("since", time.time())) - member.clock_offset)
        who = f"{theirs.get('by', '?')}@{theirs.get('host', '?')}"
        yield Warn(
            text=f"{who} has taken the run over at {time.strftime('%H:%M:%S', since)}; this ncclrun only shows it "
            "from now on",
            fix=f"ncclrun stop {self._run_id}   (or Ctrl-C here)",
        )

    def _first(self) -> Member | None:
        """The node to ask: node 0 where it can be asked. None: nobody, or somebody is asked already."""
        if self._asking is not None:
            rank, generation = self._asking
            if self._members[rank].generation == generation and self._members[rank].session is not None:
                return None
            self._asking = None
        able = (m for m in self._members if not m.over and m.session is not None and m.node_rank not in self._unable)
        return next(able, None)

    def _who(self, epoch: int | None) -> dict[str, Any]:
        return {"token": self._token, "by": self._user, "host": self._host, "epoch": epoch}

    def _send_all(self) -> None:
        for member in self._members:
            self._send_claim(member)
            self.send(member)

    def _send_claim(self, member: Member) -> None:
        """Right before an order, or as soon as the number is known: a session keeps the order of requests."""
        if self._epoch is not None and member.epoch != self._epoch and not member.over:
            member.epoch = self._epoch
            self._send(member, "claim", **self._who(self._epoch))

    def _send(self, member: Member, do: str, **args: Any) -> None:
        if member.session is not None:
            with suppress(HostError):  # the link has just broken: when there is a new one, it is asked again
                hear = self._hear(member, do)
                member.session.ask(do, hear, run_id=self._run_id, node_rank=member.node_rank, **args)
