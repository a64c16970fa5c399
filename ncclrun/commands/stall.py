"""A run that says nothing (`--stall`): notices the silence, asks the nodes where their ranks are, says who differs."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ncclrun.commands.member import Member
from ncclrun.diagnosis.stacks import grouped, verdict
from ncclrun.model.errors import HostError
from ncclrun.model.job import Stall
from ncclrun.model.stallevents import Frame, RankStacks, Stalled, Thread
from ncclrun.transport.session import Answer, refusal

LONGEST_LOOK = 1.0
"""Seconds by which the silence grows at a look: while this machine slept, or was stopped, nobody listened."""
NODE_SECONDS = 20.0
"""For a node to look at its ranks."""
ANSWER_SECONDS = 30.0
"""After these whoever has not told is not waited for."""


class StallWatch:
    """The silence of one run.

    Silence is time in which all nodes could be heard and none sent a byte of any rank's output. A dump is made once;
    after that only when there was output meanwhile. ``directory`` is where the stacks are kept.
    """

    def __init__(self, wish: Stall, run_id: str, directory: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.wish = wish
        self._run_id = run_id
        self._directory = directory
        self._clock = clock
        self._quiet = 0.0
        self._looked = clock()
        self._told = False
        self._asked_at: float | None = None
        self._waiting: set[int] = set()
        """node_ranks that were asked and have not answered."""
        self._answers: queue.SimpleQueue[tuple[int, Answer]] = queue.SimpleQueue()
        self._found: list[RankStacks] = []
        self._silent: dict[int, str] = {}

    def heard(self) -> None:
        """A rank has printed something. What is being asked, if anything, is of no interest any more."""
        self._quiet = 0.0
        self._told = False
        self._asked_at = None

    def look(self, members: Sequence[Member]) -> Stalled | None:
        """To be called often; what is to be told of the silence, once all nodes have said where their ranks are."""
        now = self._clock()
        passed, self._looked = now - self._looked, now
        if self._asked_at is not None:
            return self._collect(members, now)
        if any(member.asked or member.state == "stopping" for member in members):
            return None
        alive = [member for member in members if not member.over and not member.workers_over]
        if not alive or any(member.session is None for member in alive):
            return None
        self._quiet += min(passed, LONGEST_LOOK)
        if self._quiet >= self.wish.after and not self._told:
            self._ask(alive, now)
        return None

    def _ask(self, members: Sequence[Member], now: float) -> None:
        self._told, self._asked_at = True, now
        self._found, self._silent, self._waiting = [], {}, set()
        self._answers = queue.SimpleQueue()  # an answer that comes late goes nowhere
        for member in members:
            self._waiting.add(member.node_rank)
            self._silent[member.node_rank] = member.node.name
            with suppress(HostError):  # the link has just broken: it has not told
                assert member.session is not None
                member.session.ask(
                    "stacks",
                    self._taker(member.node_rank),
                    run_id=self._run_id,
                    node_rank=member.node_rank,
                    seconds=NODE_SECONDS,
                )

    def _taker(self, node_rank: int) -> Callable[[Answer], None]:
        answers = self._answers
        return lambda answer: answers.put((node_rank, answer))

    def _collect(self, members: Sequence[Member], now: float) -> Stalled | None:
        assert self._asked_at is not None
        while not self._answers.empty():
            node_rank, answer = self._answers.get()
            self._waiting.discard(node_rank)
            if answer is not None and refusal("stacks", answer) is None:
                del self._silent[node_rank]
                self._found += _stacks_of(members[node_rank], answer)
        if self._waiting and now < self._asked_at + ANSWER_SECONDS:
            return None
        self._asked_at = None
        groups = grouped(self._found)
        said = verdict(groups)
        silent = tuple(self._silent.values())
        file = self._directory / time.strftime("stacks-%Y%m%d-%H%M%S.txt")
        try:
            file.write_text(report(said, self._found, silent), "utf-8", "surrogateescape")
        except OSError:
            return Stalled(seconds=self._quiet, verdict=said, groups=groups, silent=silent, file="")
        return Stalled(seconds=self._quiet, verdict=said, groups=groups, silent=silent, file=str(file))


def _stacks_of(member: Member, answer: dict[str, Any]) -> list[RankStacks]:
    """A node's answer to `stacks` (docs/node-protocol.md)."""
    return [
        RankStacks(
            rank=member.first_rank + int(rank["local_rank"]),
            node=member.node.name,
            pid=rank["pid"],
            how=rank["how"],
            threads=tuple(
                Thread(
                    thread["name"],
                    bool(thread["main"]),
                    tuple(Frame(frame["function"], frame["file"], int(frame["line"])) for frame in thread["frames"]),
                )
                for thread in rank["stacks"]
            ),
            state=rank["state"],
            wchan=rank["wchan"],
            error=rank["error"],
        )
        for rank in answer["ranks"]
    ]


def report(said: str, found: Iterable[RankStacks], silent: Sequence[str]) -> str:
    """The text of the file: the verdict, then every thread of every rank as its node told it."""
    lines = [said, ""]
    lines += [f"{node} did not tell" for node in silent]
    for one in sorted(found, key=lambda one: one.rank):
        kernel = f", in {one.wchan}" if one.wchan else ""
        state = f", state {one.state}{kernel}" if one.state else ""
        lines += ["", f"=== rank {one.rank} on {one.node}: pid {one.pid}{state} ({one.error or 'by ' + one.how})"]
        for thread in one.threads:
            name = thread.name or ("MainThread" if thread.main else "another thread")
            lines.append(f"  {name}, innermost call first:")
            lines += [f"    {frame.function} ({frame.file}:{frame.line or '?'})" for frame in thread.frames]
    return "\n".join(lines) + "\n"
