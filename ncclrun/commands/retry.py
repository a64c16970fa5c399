"""`ncclrun launch --retries`: a run that loses a node is started again, with a spare in its place or with fewer."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace

from ncclrun.commands.control import Control
from ncclrun.commands.history import attempt_id, check_run_id, new_run_id, refuse_used
from ncclrun.commands.launch import Launch
from ncclrun.model.cluster import ClusterSpec, Node
from ncclrun.model.endevents import Ended, NodeSummary, Retrying
from ncclrun.model.errors import EXIT_INTERRUPTED, EXIT_TIMEOUT, EXIT_UNREACHABLE
from ncclrun.model.events import Event, Unreachable
from ncclrun.model.job import Attempt, JobSpec, Retry
from ncclrun.planning.spares import Lineup, changes_text, next_lineup
from ncclrun.transport.base import Transport

PAUSE = 5.0
"""Seconds before the second attempt; twice as many before each further one, up to LONGEST_PAUSE."""
AGAIN_PAUSE = 60.0
"""The least where a lost node is tried again itself: a host that restarts takes minutes."""
LONGEST_PAUSE = 300.0
TICK = 0.1
_LOST = {"lost": "supervisor lost", "rebooted": "host rebooted", "gone": "run directory lost", "unknown": "host lost"}
"""States in the closing table of a node that the run has lost."""


class Attempts:
    """A run in as many attempts as it takes; each is a launch of its own, from the facts on.

    The first attempt's run id is the run's name; the others have theirs from it, so that none meets what a dead one
    may have left. ``spares`` are nodes of the cluster that take no part until one is lost.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        spares: tuple[Node, ...],
        job: JobSpec,
        retry: Retry,
        transport: Transport,
        control: Control,
        environ: Mapping[str, str],
    ) -> None:
        """Raises UsageError for a run id that leaves no room for the attempts' numbers, or whose attempts are there."""
        self._cluster = cluster
        self._lineup = Lineup(cluster.nodes, spares)
        self._job = job
        self._retry = retry
        self._transport = transport
        self._control = control
        self._environ = environ
        self._name = job.run_id or new_run_id()
        check_run_id(attempt_id(self._name, self._most))
        for number in range(2, self._most + 1):
            refuse_used(attempt_id(self._name, number))  # now, and not when the attempt is due
        self._launch = self._attempt(1, job.timeout)

    @property
    def _most(self) -> int:
        return self._retry.times + 1

    @property
    def met_leftovers(self) -> bool:
        """As of a launch: of the last attempt."""
        return self._launch.met_leftovers

    def events(self) -> Iterator[Event]:
        """Everything that happens in all attempts; the last event is Ended, the last attempt's own."""
        left, pause = self._job.timeout, PAUSE
        for number in range(2, self._most + 2):
            ended, unreachable = yield from self._events(self._launch)
            if number > self._most or not self._again(ended):
                yield ended
                return
            self._lineup = next_lineup(self._lineup, lost_nodes(ended, unreachable), self._retry.min_nodes)
            if any(change.by == change.node for change in self._lineup.changes):
                pause = max(pause, AGAIN_PAUSE)
            left = None if left is None else left - ended.seconds - pause
            if left is not None and left <= 0:
                yield replace(ended, exit_code=EXIT_TIMEOUT, reason="timeout")
                return
            yield self._retrying(ended, number, pause)
            if self._interrupted(pause):
                reason = f"interrupted before attempt {number}"
                yield Ended(run_id=ended.run_id, exit_code=EXIT_INTERRUPTED, reason=reason, seconds=0.0)
                return
            pause = min(2 * pause, LONGEST_PAUSE)
            self._launch = self._attempt(number, left)

    def _attempt(self, number: int, timeout: float | None) -> Launch:
        job = replace(
            self._job,
            run_id=attempt_id(self._name, number),
            timeout=timeout,
            min_nodes=self._retry.min_nodes,
            attempt=Attempt(self._name, number),
        )
        cluster = replace(self._cluster, nodes=self._lineup.nodes)
        return Launch(cluster, job, self._transport, self._control, self._environ)

    def _events(self, launch: Launch) -> Generator[Event, None, tuple[Ended, dict[str, str]]]:
        """One attempt but for its last event, which comes back with the nodes that could not be reached and why."""
        unreachable = {}
        ended = None
        for event in launch.events():
            if isinstance(event, Ended):
                ended = event
                continue
            if isinstance(event, Unreachable):
                unreachable[event.node] = f"unreachable: {event.message}"
            yield event
        assert ended is not None, "a launch ends with Ended"
        return ended, unreachable

    def _again(self, ended: Ended) -> bool:
        """Whether a further attempt may help: a host was lost, or what failed is to be tried again."""
        if self._control.stopped():
            return False
        if ended.reason == "failed":
            return self._retry.on_failure
        return ended.exit_code == EXIT_UNREACHABLE

    def _retrying(self, ended: Ended, number: int, pause: float) -> Retrying:
        reason = changes_text(self._lineup.changes)
        if not reason:
            cause = ended.cause
            who = "" if cause is None else cause.node if cause.rank is None else f"rank {cause.rank} on {cause.node}"
            reason = ended.reason if cause is None else f"{who} failed ({cause.how})"
        return Retrying(
            run_id=attempt_id(self._name, number),
            attempt=number,
            most=self._most,
            seconds=pause,
            reason=reason,
            changes=self._lineup.changes,
            ended=ended,
        )

    def _interrupted(self, seconds: float) -> bool:
        """Waits; whether the user asked to stop meanwhile."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._control.stopped():
            time.sleep(TICK)
        return self._control.stopped()


def lost_nodes(ended: Ended, unreachable: Mapping[str, str]) -> dict[str, str]:
    """The nodes that can't be counted on for another attempt, by name, with the reason.

    Those on which something of the run may still live are among them: a process that nobody can end holds their GPUs.
    """
    lost = {row.node: _why(row) for row in ended.nodes if row.state in _LOST or not row.confirmed}
    if ended.reason == "lost" and ended.cause is not None:  # it may have confirmed its end, cut off from the others
        lost.setdefault(ended.cause.node, ended.cause.exception or ended.cause.how)
    return {**unreachable, **lost}


def _why(row: NodeSummary) -> str:
    why = _LOST.get(row.state, "not confirmed that nothing lives there")
    return f"{why}: {row.detail}" if row.detail and row.state != "rebooted" else why
