"""Which of several controllers gives a run its orders: the one that claimed it last, by a number that nodes compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ncclrun.commands.about import controller
from ncclrun.commands.member import Member
from ncclrun.model.errors import NodeRefused


class Orders:
    """This controller's right to give orders.

    ``epoch`` is the number under which it gives them; None until a node has said which one is next. Who started the run
    has 0 and needs no claim. ``lost_to`` is the claim of another (docs/node-protocol.md: ``superseded``) that came
    after ours: from then on only a stop that the user asks for is worth a new claim.
    """

    def __init__(self, token: str, *, claims: bool) -> None:
        self.epoch: int | None = None if claims else 0
        self.lost_to: dict[str, Any] | None = None
        self.insists = False
        """The user asked for a stop: it goes over the claims of others."""
        self._token = token
        self._user, _, self._host = controller().rpartition("@")
        self._deaf: set[int] = set()
        """Nodes that know no claims of this run, and can't say which one is next."""
        self._asking: tuple[int, int] | None = None
        """node_rank and generation of the link where the first claim is under way."""

    @property
    def valid(self) -> bool:
        """Whether orders may be given."""
        return self.lost_to is None

    def claim(self, epoch: int | None) -> dict[str, Any]:
        """The arguments of a `claim`."""
        return {"token": self._token, "by": self._user, "host": self._host, "epoch": epoch}

    def first(self, members: Sequence[Member]) -> Member | None:
        """The node to ask for the next epoch: node 0 where it can be asked. None: nobody, or somebody is asked already.

        With nobody left who knows claims, orders are given without one.
        """
        if self._asking is not None:
            rank, generation = self._asking
            if members[rank].generation == generation and members[rank].session is not None:
                return None
            self._asking = None
        if all(member.over or member.node_rank in self._deaf for member in members):
            self.epoch = 0
            return None
        able = (m for m in members if not m.over and m.session is not None and m.node_rank not in self._deaf)
        member = next(able, None)
        if member is not None:
            self._asking = (member.node_rank, member.generation)
        return member

    def granted(self, epoch: int) -> None:
        """A node's answer to the first claim."""
        self.epoch, self._asking = epoch, None

    def refused(self, member: Member, error: NodeRefused) -> bool:
        """A claim or an order was refused; whether that changes what is to be sent, or who may send it.

        Either the node can't keep claims, or another one's claim came after ours.
        """
        if error.code != "superseded":
            self._deaf.add(member.node_rank)
            self._asking = None
            return self.epoch is None
        theirs = int(error.details.get("epoch", 0))
        own = (theirs, error.details.get("by"), error.details.get("host")) == (self.epoch, self._user, self._host)
        if own or theirs < (self.epoch or 0) or self.lost_to is not None:
            return False  # our own claim, whose answer was lost with a link; or old news
        if self.insists:
            self.epoch = theirs + 1
        else:
            self.lost_to = dict(error.details)
        return True

    def insist(self) -> None:
        """The user asks for a stop: where another one has claimed the run, it is claimed anew."""
        self.insists = True
        if self.lost_to is not None:
            self.epoch = max(int(self.lost_to.get("epoch", 0)), self.epoch or 0) + 1
            self.lost_to = None
