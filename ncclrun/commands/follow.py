"""Follows a run on all its nodes (logs, states, lost links, stops) until every node has ended or is given up."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from ncclrun.commands.control import Control
from ncclrun.commands.history import LogSink, Place
from ncclrun.diagnosis.ncclwatch import NcclWatch
from ncclrun.model.cluster import Node
from ncclrun.model.errors import HostError, NcclrunError
from ncclrun.model.events import Event, Log, NodeState, NodeStateName, Stopping, Stream, Warn
from ncclrun.model.lines import LineAssembler
from ncclrun.model.outcome import NodeEnd, StoppedBy
from ncclrun.transport.session import Answer, Session, refusal

How = Literal["term", "kill"]
Message = tuple[int, int, dict[str, Any], bytes]
"""node_rank, generation of its link, header, body."""
Connect = Callable[[Node, Callable[[Node, dict[str, Any], bytes], None]], Session]
"""Opens a new session to a node, for a link that broke."""

WORKERS_OVER = "all workers have ended"
"""The reason in a node's state from the end of its last worker on (node/supervisor.py)."""
LEASE = 30.0
"""Seconds that a node may be unreachable before the run counts as broken there; its workers go on meanwhile."""
BATCH = 1000
"""Frames taken from the nodes at a time."""
STOP_SLACK = 15.0
"""Seconds beyond the grace until a stop that was not confirmed becomes a kill, and a kill is given up."""


@dataclass
class Member:
    """One node of the run and what is known of it."""

    node: Node
    node_rank: int
    first_rank: int
    nproc: int
    grace: float
    boot_id: str
    clock_offset: float
    session: Session | None
    generation: int = 0
    offsets: dict[str, int] = field(default_factory=dict)
    lines: dict[str, LineAssembler] = field(default_factory=dict)
    workers_over: bool = False
    """All its workers have ended by themselves; only the launcher is left."""
    state: NodeStateName = "running"
    record: dict[str, Any] | None = None
    lost: str | None = None
    lost_at: float | None = None
    rebooted: bool = False
    refused: str | None = None
    """Why it never started."""
    unreached: bool = False
    """It never started because the request to was lost with the link."""
    not_started: str = ""
    """The node's words for that, until it has confirmed that nothing can start there any more."""
    no_way: str = ""
    """Why the last try for a new link failed: a changed host key reads otherwise than a cut cable."""
    unknown_since: float | None = None
    """Monotonic clock."""
    asked: How | None = None
    asked_at: float = 0.0

    @property
    def over(self) -> bool:
        """Whether nothing more will be heard of this node."""
        return self.record is not None or self.lost is not None or self.refused is not None

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
            refused=self.refused,
            unreached=self.unreached,
        )


class Follower:
    """The controller's loop over all members; every decision is taken here, in one thread."""

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
    ) -> None:
        self.run_id = run_id
        self.members = members
        self.stopped_by: StoppedBy = ""
        self._inbox = inbox
        self._writer = writer
        self._control = control
        self._connect = connect
        self._tail = tail
        self._token = token
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._pressed = 0
        # A run that is taken up may have ended long ago: what the nodes know is heard before anything is asked of them.
        self._settled = time.monotonic() + settle
        self._held: tuple[str, How] | None = None
        self._told_of_disk = False
        self._watch = watch or NcclWatch({})
        self._reconnected: queue.SimpleQueue[tuple[Member, int, Session | NcclrunError]] = queue.SimpleQueue()

    def events(self) -> Iterator[Event]:
        """Runs until every member is over, or the user left."""
        for member in self.members:
            if member.over:
                continue
            if member.session is not None:
                yield from self._ask_to_follow(member)
            else:
                yield from self._link_lost(member, "unreachable")
        while not all(member.over for member in self.members):
            for message in self._received(0.1):
                yield from self._take(*message)
            yield from self._reconnections()
            yield from self._watch_links()
            yield from self._watch_held()
            yield from self._watch_user()
            yield from self._watch_deadlines()
            if self._control.detach or self._control.level > 2:
                break
        for member in self.members:
            yield from self._flush(member)

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
        if kind == "log":
            yield from self._log(member, header, body)
        elif kind == "state" and header["state"] != member.state:
            yield self._enter(member, header["state"], header.get("reason", ""))
            if header["state"] == "stopping" and member.asked is None:
                yield from self.stop_all(f"{header.get('reason') or 'a rank failed'} on {member.node.name}", "term")
        elif kind == "end":
            yield from self._end(member, header["record"])
        elif kind == "answer":
            yield from self._answered(member, header["do"], header["answer"])
        elif kind == "gone":
            yield from self._link_lost(member, str(header.get("reason", "connection lost")))

    def _log(self, member: Member, header: dict[str, Any], body: bytes) -> Iterator[Event]:
        stream, offset = str(header["stream"]), int(header["offset"])
        known = member.offsets.get(stream, 0)
        if offset + len(body) <= known:
            return
        body = body[max(0, known - offset) :]
        member.offsets[stream] = max(offset, known) + len(body)
        place = member.place(stream)
        self._writer.append(place, float(header["time"]), body)
        if self._writer.lost and not self._told_of_disk:
            self._told_of_disk = True
            yield Warn(
                text=f"this machine's disk does not take the logs ({self._writer.trouble}); the nodes keep theirs",
                fix="free some space here",
            )
        lines = member.lines.setdefault(stream, LineAssembler())
        whole = lines.feed(body)
        if whole is not None:
            # After a failure or a stop torchrun prints a traceback of its own on every node; after a good end too,
            # where the master's torchrun went first.
            told = member.asked is not None or member.state == "stopping" or member.workers_over
            folded = place.rank is None and told
            yield _log_event(member, place, header["time"], whole, folded=folded)
            if place.rank is not None and (against := self._watch.line(member.node_rank, whole)) is not None:
                yield Warn(node=member.node.name, text=against.message, fix=against.fix)
        if lines.partial:
            yield _log_event(member, place, header["time"], lines.partial, partial=True)

    def _flush(self, member: Member) -> Iterator[Event]:
        """The last lines that ended without a line feed."""
        for stream, lines in member.lines.items():
            rest = lines.flush()
            if rest is not None:
                yield _log_event(member, member.place(stream), time.time(), rest)

    def _end(self, member: Member, record: dict[str, Any]) -> Iterator[Event]:
        member.record = record
        yield from self._flush(member)
        ended_at = record.get("ended_at")
        since = None if ended_at is None else float(ended_at) - member.clock_offset
        yield self._enter(member, "ended", str(record.get("reason", "")), since)
        if record.get("reason") != "finished":
            yield from self.stop_all(f"{_first_bad(member, record)} on {member.node.name}", "term")

    def _enter(self, member: Member, state: NodeStateName, reason: str, since: float | None = None) -> NodeState:
        member.state = state
        if since is None:
            since = member.lost_at if state == "unknown" and member.lost_at else time.time()
        return NodeState(node=member.node.name, node_rank=member.node_rank, state=state, since=since, reason=reason)

    # --- links

    def _ask_to_follow(self, member: Member) -> Iterator[Event]:
        yield from self._ask(member, "follow", offsets=dict(member.offsets), tail=self._tail)

    def _ask(self, member: Member, do: str, **args: Any) -> Iterator[Event]:
        """Sends a request; the answer comes by the inbox, since a node that hangs must not hold up all others here."""
        assert member.session is not None
        rank, generation = member.node_rank, member.generation

        def then(answer: Answer) -> None:
            self._inbox.put((rank, generation, {"ev": "answer", "do": do, "answer": answer}, b""))

        try:
            member.session.ask(do, then, run_id=self.run_id, node_rank=rank, **args)
        except HostError as error:
            yield from self._link_lost(member, error.message)

    def _answered(self, member: Member, do: str, answer: Answer) -> Iterator[Event]:
        if answer is None:
            return  # the link broke: `gone` comes too, and says why
        error = refusal(do, answer)
        if do == "follow" and error is not None and error.code == "not_started":
            # The request to start was lost with the link, or is still on its way: it must find nothing to start.
            member.not_started = error.message
            yield from self._ask(member, "discard", token=self._token)
        elif do == "follow" and error is not None:
            yield from self._lose(member, error.message)
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
            member.unknown_since, member.lost_at = time.monotonic(), time.time()
            yield self._enter(member, "unknown", reason)
        member.generation += 1
        threading.Thread(
            target=self._reconnect, args=(member, member.generation), daemon=True, name=f"reconnect {member.node.name}"
        ).start()

    def _reconnect(self, member: Member, generation: int) -> None:
        """In a thread of its own: tries until it has a session or the lease is over."""

        def sink(_: Node, header: dict[str, Any], body: bytes) -> None:
            self._inbox.put((member.node_rank, generation, header, body))

        pause = 0.5
        while not member.over and member.generation == generation:
            try:
                self._reconnected.put((member, generation, self._connect(member.node, sink)))
            except NcclrunError as error:
                self._reconnected.put((member, generation, error))
            else:
                return
            time.sleep(pause)
            pause = min(pause * 2, 5.0)

    def _reconnections(self) -> Iterator[Event]:
        while not self._reconnected.empty():
            member, generation, result = self._reconnected.get()
            if isinstance(result, NcclrunError):
                member.no_way = result.message
            elif member.over or generation != member.generation:
                result.close()  # what it says would be taken for the words of an older link, and dropped
            elif result.hello.get("boot_id") != member.boot_id:
                result.close()
                member.rebooted = True
                yield from self._lose(member, "the host was rebooted")
            else:
                member.session, member.unknown_since, member.lost_at, member.no_way = result, None, None, ""
                yield self._enter(member, "running", "reachable again")
                yield from self._ask_to_follow(member)
                if member.asked is not None and member.session is not None:
                    self._send_stop(member, member.asked)

    def _watch_links(self) -> Iterator[Event]:
        for member in self.members:
            if member.over or member.unknown_since is None:
                continue
            silent = time.monotonic() - member.unknown_since
            if silent > LEASE:
                why = f" ({member.no_way})" if member.no_way else ""
                yield from self._lose(member, f"unreachable for {silent:.0f} s{why}")

    def _lose(self, member: Member, reason: str) -> Iterator[Event]:
        member.lost = reason
        member.lost_at = member.lost_at or time.time()
        yield self._enter(member, "unknown", reason)
        yield from self.stop_all(f"{member.node.name} is lost: {reason}", "term")

    # --- stopping

    def stop_all(self, reason: str, how: How) -> Iterator[Event]:
        """Asks every member to stop; see ``stop``.

        While a run that was taken up settles, the first reason is kept; a kill goes over a stop.
        """
        if time.monotonic() < self._settled:
            if self._held is None or (how == "kill" and self._held[1] != "kill"):
                self._held = (reason, how)
            return
        yield from self.stop(self.members, reason, how)

    def stop(self, members: Sequence[Member], reason: str, how: How) -> Iterator[Event]:
        """Asks those that have not ended and were not asked as strongly before."""
        asked = [m for m in members if not m.over and m.asked not in (how, "kill")]
        if not asked:
            return
        yield Stopping(
            reason=reason, how=how, nodes=tuple(m.node.name for m in asked), grace=max(m.grace for m in asked)
        )
        for member in asked:
            member.asked, member.asked_at = how, time.monotonic()
            if member.session is not None:
                self._send_stop(member, how)

    def _send_stop(self, member: Member, how: How) -> None:
        """Sends without waiting for the answer: the end comes by `follow`, a broken link by `gone`."""
        assert member.session is not None
        with suppress(HostError):  # the link has just broken: when there is a new one, it is asked again
            member.session.post("stop", run_id=self.run_id, node_rank=member.node_rank, how=how, grace=member.grace)

    def _watch_user(self) -> Iterator[Event]:
        level = self._control.level
        if level > self._pressed:
            self._pressed = level
            self._blame("user")
            yield from self.stop_all("interrupted", "term" if level == 1 else "kill")

    def _watch_held(self) -> Iterator[Event]:
        if self._held is not None and time.monotonic() >= self._settled:
            (reason, how), self._held = self._held, None
            yield from self.stop_all(reason, how)

    def _blame(self, who: StoppedBy) -> None:
        """Notes who ended the run, unless something had failed before."""
        if not any(member.asked or member.lost for member in self.members):
            self.stopped_by = who

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


def _first_bad(member: Member, record: dict[str, Any]) -> str:
    """What broke on a node in a few words, for the line that announces the stop; the verdict looks closer."""
    bad = [
        rank for rank in record.get("ranks") or () if (rank.get("code") or rank.get("signal")) and rank.get("ended_at")
    ]
    if not bad:
        return f"the launcher {record.get('reason', 'ended')}"
    first = min(bad, key=lambda rank: float(rank["ended_at"]))
    how = f"signal {first['signal']}" if first.get("signal") else f"exit code {first['code']}"
    return f"rank {member.first_rank + int(first['local_rank'])} failed ({how})"


def _log_event(
    member: Member, place: Place, when: float, text: str, *, partial: bool = False, folded: bool = False
) -> Log:
    stream: Stream = "err" if place.stream == "err" else "out"
    return Log(
        node=member.node.name,
        node_rank=member.node_rank,
        rank=place.rank,
        local_rank=None if place.rank is None else place.rank - member.first_rank,
        stream=stream,
        time=when,
        text=text,
        partial=partial,
        folded=folded,
    )
