"""Judges by the lease which nodes a run has lost: those that are heard neither from here nor by the other nodes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from ncclrun.commands.member import Member
from ncclrun.diagnosis.lifeline import CutOff, cut_off
from ncclrun.model.events import Warn

DEAF = 300.0
"""Seconds for which none of several nodes may answer before they count as lost: it is rather our own network then."""


class Leases:
    """The members' leases; ``now`` is always by the follower's clock, as their ``unknown_since`` is."""

    def __init__(self, run_id: str, members: Sequence[Member]) -> None:
        self._run_id = run_id
        self._members = members
        self._deaf_until = 0.0
        """While none answers, no lease runs."""
        self._told_deaf = False

    def warnings(self, now: float) -> Iterator[Warn]:
        """That no node answers at all, and which one is unreachable from here only; each is told once."""
        yield from self._own_network(now)
        for member, _ in self._expired(now):
            if not member.only_from_here and self._heard_by_others(member):
                member.only_from_here = True
                text = f"unreachable from here since {_clock_time(member.lost_at)}{_no_way(member)}"
                fix = member.no_way_fix if member.no_way else ""
                yield Warn(text=f"{text}, but the other nodes hear it: the run goes on", fix=fix, node=member.node.name)

    def lost(self, now: float) -> Iterator[tuple[Member, str]]:
        """The members whose lease has ended, and why they count as lost."""
        for member, silent in self._expired(now):
            if not self._heard_by_others(member):
                yield member, f"unreachable for {silent:.0f} s{_no_way(member)}"

    def cut_off(self) -> CutOff | None:
        """The node whose supervisor the others do not hear; they leave it to us while we are there."""
        return cut_off([member.teller() for member in self._members if not member.over], self._members[0].lease)

    def _own_network(self, now: float) -> Iterator[Warn]:
        going = [member for member in self._members if not member.over]
        if len(going) < 2 or any(member.answers for member in going):
            self._told_deaf = False
            return
        deaf = min(member.silent(now) for member in going)
        if deaf < DEAF:
            self._deaf_until = now
        given_up = all(member.unknown_since is not None for member in going)
        if given_up and deaf > going[0].lease and not self._told_deaf:
            self._told_deaf = True
            since = _clock_time(time.time() - deaf)
            text = f"no node answers since {since}: it may be this machine's own network. The nodes go on by themselves"
            yield Warn(text=text, fix=f"ncclrun attach {self._run_id}   takes the run up again, from anywhere")

    def _expired(self, now: float) -> Iterator[tuple[Member, float]]:
        """Who is silent for longer than its lease, and for how long."""
        for member in self._members:
            if not member.over and member.unknown_since is not None:
                silent = now - max(member.unknown_since, self._deaf_until)
                if silent > member.lease:
                    yield member, silent

    def _heard_by_others(self, member: Member) -> bool:
        """Whether other nodes hear its supervisor, or have heard its end: then only our own way to it is broken.

        What a node said last holds as long as the node itself is to be heard: it says so when it changes.
        """
        tellers = [one for one in self._members if one.answers and not one.over]
        told = [one.hears[member.node_rank] for one in tellers if member.node_rank in one.hears]
        return any(silent is None or silent < member.lease for silent in told)


def _no_way(member: Member) -> str:
    return f" ({member.no_way})" if member.no_way else ""


def _clock_time(when: float | None) -> str:
    return time.strftime("%H:%M:%S", time.localtime(when))
