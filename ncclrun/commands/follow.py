"""Follows a run on all its nodes (logs, states, lost links, stops) until every node has ended or is given up."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from ncclrun.commands.awake import Clock
from ncclrun.commands.control import Control
from ncclrun.commands.inbox import Message
from ncclrun.commands.leases import Leases
from ncclrun.commands.links import Connect, Links
from ncclrun.commands.logfiles import LogSink
from ncclrun.commands.member import How, Member, first_bad, learn_ranks
from ncclrun.commands.orders import Orders
from ncclrun.commands.release import release
from ncclrun.commands.stall import StallWatch
from ncclrun.commands.streams import Streams
from ncclrun.diagnosis.ncclwatch import NcclWatch
from ncclrun.model.errors import HostError, NcclrunError
from ncclrun.model.events import Event, NodeState, NodeStateName, Stopping, Warn
from ncclrun.model.outcome import StoppedBy
from ncclrun.model.words import bare, lasting
from ncclrun.transport.pulse import SILENCE_SECONDS
from ncclrun.transport.session import Answer, refusal

WORKERS_OVER = "all workers have ended"
"""The reason in a node's state from the end of its last worker on (node/supervisor.py)."""
REBOOTED = "the host was rebooted"
GONE = "the host has no directory of the run any more"
BATCH = 1000
"""Frames taken from the nodes at a time."""
STOP_SLACK = 15.0
"""Seconds beyond the grace until a stop that was not confirmed becomes a kill, and a kill is given up."""


class Follower:
    """The controller's loop over all members; every decision is taken here, in one thread.

    ``claims``: somebody else may have started the run, so that it is claimed before orders are given (see ``Orders``).
    ``leave_after``: seconds from now after which a run in which nothing has failed is left to its nodes.
    """

    def __init__(
        self,
        run_id: str,
        members: Sequence[Member],
        inbox: queue.SimpleQueue[Message],
        writer: LogSink,
        control: Control,
        connect: Connect,
        *,
        token: str,
        timeout: float | None = None,
        tail: int | None = None,
        settle: float = 0.0,
        watch: NcclWatch | None = None,
        claims: bool = False,
        leave_after: float | None = None,
        stall: StallWatch | None = None,
    ) -> None:
        self.run_id = run_id
        self.members = members
        self.stopped_by: StoppedBy = ""
        self._inbox = inbox
        self._streams = Streams(writer, watch or NcclWatch({}))
        self._control = control
        self._links = Links(inbox, connect)
        self._tail = tail
        self._token = token
        self._orders = Orders(run_id, members, token, self._into_inbox, claims=claims)
        self._stall = stall
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._pressed = 0
        # A run that is taken up may have ended long ago: what the nodes know is heard before anything is asked of them.
        self._settled = time.monotonic() + settle
        self._held: tuple[str, How] | None = None
        self._clock = Clock()
        self._leases = Leases(run_id, members)
        self._leave_at = None if leave_after is None else time.monotonic() + leave_after

    def events(self) -> Iterator[Event]:
        """Runs until every member is over, or the user left."""
        self._orders.claim()
        for member in self.members:
            if member.over:
                continue
            if member.session is not None:
                yield from self._ask_to_follow(member)
            else:
                yield from self._link_lost(member, "unreachable")
        while not all(member.over for member in self.members):
            self._clock.tick()
            for message in self._received(0.1):
                yield from self._take(*message)
            yield from self._reconnections()
            yield from self._watch_links()
            yield from self._watch_lifeline()
            yield from self._watch_held()
            yield from self._watch_user()
            yield from self._watch_deadlines()
            yield from self._watch_silence()
            self._watch_departure()
            if self._control.detach or self._control.level > 2:
                break
        else:
            yield from release(self.run_id, self._token, self.members, self._control)
        for member in self.members:
            yield from self._streams.flush(member)

    # --- what the nodes say

    def _received(self, wait: float) -> Iterator[Message]:
        """What has come, waiting a little for the first; bounded, so that stops are heard under a flood too."""
        with suppress(queue.Empty):
            for count in range(BATCH):
                if self._control.level > self._pressed:
                    return
                yield self._inbox.get(timeout=0 if count else wait)

    def _take(self, node_rank: int, generation: int, header: dict[str, Any], body: bytes) -> Iterator[Event]:
        member = self.members[node_rank]
        if generation != member.generation or member.over:
            return
        kind = header.get("ev")
        if kind == "state":
            member.workers_over = header.get("reason") == WORKERS_OVER
            member.hears = {int(rank): silent for rank, silent in (header.get("peers") or {}).items()}
            member.halted = bool(header.get("halted"))
            yield from learn_ranks(member, header.get("first_rank"))
        if kind == "log":
            if self._stall is not None and not str(header["stream"]).startswith("launcher"):
                self._stall.heard()
            yield from self._streams.take(member, header, body)
        elif kind == "state" and header["state"] != member.state:
            yield self._enter(member, header["state"], header.get("reason", ""))
            if header["state"] == "stopping" and member.asked is None:
                # The supervisors tell each other: what this one stops for may have happened on another node.
                where = member if header.get("origin") is None else self.members[header["origin"]]
                yield from self.stop_all(f"{where.node.name}: {header.get('reason') or 'a rank failed'}", "term")
        elif kind == "end":
            yield from self._end(member, header["record"])
        elif kind == "trouble":  # its supervisor is gone, and no end can be written there: nothing more will come
            yield from self._lose(member, f"its end can't be written: {header['error']['message']}")
        elif kind == "answer":
            yield from self._answered(member, header["do"], header["answer"])
        elif kind == "gone":
            yield from self._link_lost(member, str(header.get("reason", "connection lost")))

    def _end(self, member: Member, record: dict[str, Any]) -> Iterator[Event]:
        yield from self._streams.flush(member)
        if member.rebooted and record.get("reason") == "lost":
            yield from self._lose(member, REBOOTED)
            return
        member.record = record
        ended_at = record.get("ended_at")
        since = None if ended_at is None else float(ended_at) - member.clock_offset
        yield self._enter(member, "ended", str(record.get("reason", "")), since)
        if record.get("reason") != "finished":
            yield from self.stop_all(f"{first_bad(member, record)} on {member.node.name}", "term")

    def _enter(self, member: Member, state: NodeStateName, reason: str, since: float | None = None) -> NodeState:
        member.state = state
        if since is None:
            since = member.lost_at if state == "unknown" and member.lost_at else time.time()
        return NodeState(node=member.node.name, node_rank=member.node_rank, state=state, since=since, reason=reason)

    # --- links

    def _ask_to_follow(self, member: Member) -> Iterator[Event]:
        offsets = dict(member.offsets)
        yield from self._ask(member, "follow", offsets=offsets, tail=self._tail, epoch=self._orders.epoch)

    def _ask(self, member: Member, do: str, **args: Any) -> Iterator[Event]:
        """Sends a request; the answer comes by the inbox, since a node that hangs must not hold up all others here."""
        assert member.session is not None
        then = self._into_inbox(member, do)
        try:
            member.session.ask(do, then, run_id=self.run_id, node_rank=member.node_rank, **args)
        except HostError as error:
            yield from self._link_lost(member, error.message)

    def _into_inbox(self, member: Member, do: str) -> Callable[[Answer], None]:
        rank, generation = member.node_rank, member.generation
        return lambda answer: self._inbox.put((rank, generation, {"ev": "answer", "do": do, "answer": answer}, b""))

    def _answered(self, member: Member, do: str, answer: Answer) -> Iterator[Event]:
        if answer is None:
            return  # the link broke: `gone` comes too, and says why
        error = refusal(do, answer)
        if do == "follow" and error is not None and error.code == "not_started":
            # The request to start was lost with the link, or is still on its way: it must find nothing to start.
            member.not_started = error.message
            yield from self._ask(member, "discard", token=self._token)
        elif do == "follow" and error is not None and error.code == "unknown_run" and not member.rebooted:
            # Its directory was removed: what lives of it all the same is known by its cookie.
            wanted = self._held is None and member.asked is None
            yield from self._ask(member, "sweep", token=self._token, kill=not wanted)
        elif do == "sweep" and error is None:
            alive = ", ".join(f"{one['pid']} {one['command']}" for one in answer["alive"])
            member.gone = not alive
            yield from self._lose(
                member, f"its directory is gone, and of its processes live: {alive}" if alive else GONE
            )
        elif do in ("follow", "sweep") and error is not None:
            yield from self._lose(member, REBOOTED if member.rebooted else error.message)
        elif do == "claim" and error is None:
            self._orders.granted(member, int(answer["epoch"]))
        elif do in ("claim", "stop") and error is not None:
            yield from self._orders.refused(member, error)
            if not self._orders.valid:
                self.stopped_by = ""  # it was not us, then
        elif do == "discard" and error is not None:
            yield from self._ask_to_follow(member)  # it came after all
        elif do == "discard":
            member.refused, member.unreached = member.not_started, True
            yield self._enter(member, "ended", member.not_started)
            yield from self.stop_all(f"{member.node.name} never started", "term")

    def _link_lost(self, member: Member, reason: str) -> Iterator[Event]:
        if member.session is not None:
            member.session.close()
            member.session = None
        if member.unknown_since is None:
            quiet = SILENCE_SECONDS if reason == "silent" else 0.0
            member.unknown_since, member.lost_at = self._clock.now - quiet, time.time() - quiet
            yield self._enter(member, "unknown", reason)
        member.generation += 1
        self._orders.claim()
        self._links.seek(member)

    def _reconnections(self) -> Iterator[Event]:
        for member, generation, result in self._links.found():
            if isinstance(result, NcclrunError):
                member.no_way = bare(result.message, member.node.name, member.node.host)
                member.no_way_fix = result.fix
            elif member.over or generation != member.generation:
                result.close()  # what it says would be taken for the words of an older link, and dropped
            elif member.boot_id not in ("", result.hello.get("boot_id")):
                result.close()
                member.rebooted = True
                yield from self._lose(member, REBOOTED)
            else:
                member.session, member.unknown_since, member.lost_at, member.no_way = result, None, None, ""
                member.boot_id, member.only_from_here = str(result.hello.get("boot_id")), False
                yield self._enter(member, "running", "reachable again")
                self._orders.claim()
                yield from self._ask_to_follow(member)
                self._orders.send(member)

    def _watch_links(self) -> Iterator[Event]:
        yield from self._leases.warnings(self._clock.now)
        for member, why in self._leases.lost(self._clock.now):
            yield from self._lose(member, why)

    def _watch_lifeline(self) -> Iterator[Event]:
        if time.monotonic() < self._settled or any(member.asked for member in self.members):
            return
        found = self._leases.cut_off()
        if found is not None:
            since = time.strftime("%H:%M:%S", time.gmtime(time.time() - found.seconds))
            reason = f"{found.why} for {found.seconds:.0f} s (since {since} UTC)"
            yield from self.stop_all(reason, "term", lost=found.node_rank)

    def _lose(self, member: Member, reason: str) -> Iterator[Event]:
        member.lost = reason
        member.lost_at = member.lost_at or time.time()
        yield self._enter(member, "unknown", reason)
        yield from self.stop_all(f"{member.node.name} is lost: {reason}", "term")

    # --- stopping

    def stop_all(self, reason: str, how: How, lost: int | None = None) -> Iterator[Event]:
        """Asks every member to stop; see ``stop``.

        While a run that was taken up settles, the first reason is kept; a kill goes over a stop.
        """
        if time.monotonic() < self._settled:
            if self._held is None or (how == "kill" and self._held[1] != "kill"):
                self._held = (reason, how)
            return
        yield from self.stop(self.members, reason, how, lost)

    def stop_for_user(self, reason: str, how: How) -> Iterator[Event]:
        """``stop_all`` by the user's own word, which goes over what other controllers say."""
        self._orders.insist()
        yield from self.stop_all(reason, how)

    def stop(self, members: Sequence[Member], reason: str, how: How, lost: int | None = None) -> Iterator[Event]:
        """Asks those that have not ended and were not asked as strongly before; nobody where the run is another's.

        ``lost``: node_rank of the node that ``reason`` speaks of, where the others do not hear it any more.
        """
        asked = [m for m in members if not m.over and m.asked not in (how, "kill")]
        if not asked or not self._orders.valid:
            return
        told = reason if lost is None else f"{self.members[lost].node.name} is lost: {reason}"
        yield Stopping(reason=told, how=how, nodes=tuple(m.node.name for m in asked), grace=max(m.grace for m in asked))
        for member in asked:
            member.asked, member.asked_at, member.asked_why = how, time.monotonic(), reason
            member.asked_lost = member.asked_lost if lost is None else lost
            self._orders.send(member)

    def _watch_user(self) -> Iterator[Event]:
        level = self._control.level
        if level > self._pressed:
            self._pressed = level
            self._orders.insist()
            self._blame("user")
            yield from self.stop_for_user("interrupted", "term" if level == 1 else "kill")

    def _watch_departure(self) -> None:
        """Leaves a run that has begun well; one in trouble is watched to its end."""
        if self._leave_at is not None and time.monotonic() > self._leave_at:
            self._leave_at = None
            if not any(member.asked or member.lost for member in self.members):
                self._control.detach = True

    def _watch_held(self) -> Iterator[Event]:
        if self._held is not None and time.monotonic() >= self._settled:
            (reason, how), self._held = self._held, None
            yield from self.stop_all(reason, how)

    def _blame(self, who: StoppedBy) -> None:
        """Notes who ended the run, unless something had failed before."""
        if self._orders.valid and not any(member.asked or member.lost for member in self.members):
            self.stopped_by = who

    def _watch_silence(self) -> Iterator[Event]:
        stalled = self._stall.look(self.members) if self._stall is not None else None
        if stalled is None or self._stall is None:
            return
        yield stalled
        if self._stall.wish.stop:
            self._blame("stalled")
            yield from self.stop_all(f"no output for {lasting(stalled.seconds)}", "term")

    def _watch_deadlines(self) -> Iterator[Event]:
        now = time.monotonic()
        if self._deadline is not None and now > self._deadline:
            self._deadline = None
            self._blame("timeout")
            yield from self.stop_all("the time limit of the run is reached", "term")
        for member in self.members:
            if member.over or member.asked is None:
                continue
            waited = now - member.asked_at
            if member.asked == "term" and waited > member.grace + STOP_SLACK:
                yield Warn(text=f"the stop is not confirmed after {waited:.0f} s; killing", node=member.node.name)
                yield from self.stop([member], f"{member.node.name} did not stop", "kill")
            elif member.asked == "kill" and waited > STOP_SLACK:
                member.lost, member.lost_at = "the stop was never confirmed", member.lost_at or time.time()
                yield self._enter(member, "unknown", member.lost)
