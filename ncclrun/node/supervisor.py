"""Owns a run on its node: starts the processes, drains their pipes, stops them when asked, and writes the end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from typing import Any, NamedTuple

from . import (
    caller,
    cause,
    cgroup,
    drain,
    endrecord,
    hub,
    kernel,
    kin,
    lifeline,
    logfile,
    oom,
    orders,
    processes,
    ranks,
    rundir,
    spawn,
    states,
    stopping,
)
from .refusal import Refusal

WORKERS_OVER = "all workers have ended"
POLL_SECONDS = 0.02
# For torchrun to end when all its workers have: it only has its report to write.
LAUNCHER_SECONDS = 5.0
# How often it looks at the lifeline's clock when nothing else happens, and after the end.
TURN_SECONDS = 0.5
LEAVE_SECONDS = 0.05
# A survivor may write for ever; after the end we take at most this much more of a stream.
LAST_BYTES = 64 << 20


class Terms(NamedTuple):
    """How a run is supervised.

    ``grace`` is the one that a failing rank gives its siblings; with ``restarts`` torchrun may start them anew instead.
    ``first_rank`` is the global rank of local rank 0: people know no others. ``lifeline`` None: the
    other nodes are not heard. ``log_limit``: bytes that are kept of each stream.
    """

    grace: float
    restarts: int
    first_rank: int
    log_limit: int
    lifeline: lifeline.Terms | None = None


class Supervisor:
    """One run's end of the world."""

    def __init__(self, run: rundir.RunDir, programs: list[spawn.Program], terms: Terms) -> None:
        self._run = run
        self._facts = run.run()
        self._programs = programs
        self._terms = terms
        self._selector = selectors.DefaultSelector()
        self._streams: dict[str, drain.Stream] = {}
        self._children: dict[int, ranks.Rank] = {}
        self._watch: ranks.Watch | None = None
        self._group = cgroup.make(self._facts["cookie"])
        self._ending = stopping.Ending(self._facts["cookie"], self._living, self._group)
        self._state = states.PREPARED
        self._cause = cause.Cause()
        self._over = False
        self._released = False
        self._detail = ""
        self._first_rank: int | None = None
        self._started_at = time.time()
        self._oom = oom.kills()
        self._orders = orders.Orders(self._selector, run.control, self._obey)
        self._kin = kin.Kin(run)

    # --- start

    def prepare(self, port: socket.socket | None = None) -> None:
        """Takes the signals, the control FIFO, the rank pipes and node 0's ``port`` of the lifeline. Raises OSError."""
        kernel.become_subreaper()
        woken, wake = os.pipe()
        for fd in (woken, wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # The last two become errors of the write: a channel that has gone and a log at the user's file size limit.
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: self._asked("term", self._terms.grace, "the supervisor got SIGTERM"))
        self._selector.register(woken, selectors.EVENT_READ, lambda: _empty(woken))
        self._orders.listen()
        if self._facts["launcher"] == "torchrun":
            self._watch = ranks.Watch(self._selector, self._run.pipes / "ranks", lambda: self._ending.stopping)
            for rank in range(self._facts["nproc"]):
                for stream in ("out", "err"):
                    name = f"{rank}.{stream}"
                    # For both directions: it stays open while workers come and go.
                    self._drain(name, os.open(self._run.pipes / name, os.O_RDWR | os.O_CLOEXEC), drain.RANK_TAIL)
        terms = self._terms.lifeline
        if terms is not None and self._run.node_rank:
            self._kin.line = caller.Caller(self._selector, self._facts["token"], self._run.node_rank, terms)
        elif terms is not None and port is not None:
            self._kin.line = hub.Hub(self._selector, port, self._facts["token"], terms)
        self._say(states.STARTING)

    def _restore(self) -> None:
        """Where somebody has removed the run's directory it is made again, else at the next turn; the run goes on."""
        with contextlib.suppress(OSError):
            if self._run.control.exists():
                return
            self._run.restore(self._facts)
            for stream in self._streams.values():
                stream.log.reopen(self._run.logs)
            self._say(self._state, self._cause.why)
            if self._run.take():  # last: that it is there says that all is
                self._orders.listen()

    def start(self) -> None:
        """Starts every program; refuses with `exec_failed`, what runs by then is stopped by the loop."""
        for program in self._programs:
            label = "launcher" if program.local_rank is None else str(program.local_rank)
            keep = drain.LAUNCHER_TAIL if program.local_rank is None else drain.RANK_TAIL
            ends = {}
            for stream in ("out", "err"):
                read, ends[stream] = os.pipe()
                self._drain(f"{label}.{stream}", read, keep)
            try:
                process = spawn.spawn(program, spawn.Place(ends["out"], ends["err"]), self._group)
            except Refusal as refusal:
                self._detail = refusal.message
                self._cause.fail(refusal.message)
                self._ending.kill()
                raise
            finally:
                for fd in ends.values():
                    os.close(fd)
            local_rank = -1 if program.local_rank is None else program.local_rank
            self._children[process.pid] = ranks.Rank(local_rank, process)
        self._say(states.RUNNING)

    def _drain(self, name: str, fd: int, keep: int) -> None:
        log = logfile.LogFile(self._run.logs, name, self._terms.log_limit)
        stream = self._streams[name] = drain.Stream(name, fd, log, keep)
        self._selector.register(fd, selectors.EVENT_READ, lambda: self._take(stream))

    # --- the loop

    def loop(self) -> None:
        """Until nothing of the run lives."""
        while not self._ending.over:
            wait = self._ending.wait()
            if self._watch is not None and self._watch.polling:
                wait = min(wait, POLL_SECONDS)
            self._listen(wait)
            if self._watch is not None:
                self._watch.poll()
            self._reap()
            if self._watch is not None:
                self._judge_workers(self._watch)
            if not self._living() and self._ending.stage in ("running", "terminating"):
                self._ending.clear()
            self._attend()
            self._ending.tick()
        cgroup.remove(self._group)

    def _listen(self, wait: float) -> None:
        if self._kin.line is not None:
            wait = min(wait, TURN_SECONDS)
        for key, _ in self._selector.select(None if wait == float("inf") else wait):
            # An earlier one may have closed it, and a new one may have its number already.
            if self._selector.get_map().get(key.fd) is key:
                key.data()

    def _take(self, stream: drain.Stream) -> None:
        if stream.take() < 0:
            self._selector.unregister(stream.fd)

    def _living(self) -> list[processes.Process]:
        """The processes that we started and that have not ended."""
        return [child.process for child in self._children.values() if child.ended_at is None]

    def _reap(self) -> None:
        """Takes all that ended, orphans of the run included; then judges."""
        fresh = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            child = self._children.get(pid)
            if child is not None and child.ended_at is None:
                child.end(status, self._ending.stopping)
                fresh.append(child)
            elif self._watch is not None:
                self._watch.reaped(pid, status)
        # Only when all were taken: two that ended together are both no victims of ours.
        bad = [child for child in fresh if child.status != 0 and not child.stopped]
        if bad:
            self._cause.fail(self._how(bad[0]))
            if self._living():
                self._ending.ask(self._terms.grace)
                self._say(states.STOPPING, self._cause.why)

    def _judge_workers(self, watch: ranks.Watch) -> None:
        """torchrun ends a failed worker's siblings itself, in its own time; the other nodes are to know at once."""
        if watch.first_rank != self._first_rank:
            self._first_rank = watch.first_rank
            self._say(self._state, self._cause.why)
        if self._ending.stage == "running" and not self._terms.restarts:
            bad = [rank for rank in watch.latest.values() if rank.ended_at is not None and rank.status]
            if bad:
                self._cause.fail(self._how(bad[0]))
                self._ending.expect(self._terms.grace)
                self._say(states.STOPPING, self._cause.why)
        if not (self._over or self._terms.restarts or self._ending.stopping) and watch.all_ended(self._facts["nproc"]):
            self._over = True
            self._say(states.RUNNING, WORKERS_OVER)
        if self._ending.stage == "terminating" and watch.all_ended(self._facts["nproc"]):
            # It may wait in vain for other nodes: its exit barrier hears no signal.
            self._ending.expect(LAUNCHER_SECONDS)

    def _how(self, rank: ranks.Rank) -> str:
        end = ranks.outcome(rank.status)
        how = f"exit code {end['code']}" if end["signal"] is None else f"signal {end['signal']}"
        if rank.local_rank < 0:
            return f"torchrun failed ({how})"
        first = self._terms.first_rank if self._first_rank is None else self._first_rank
        return f"rank {first + rank.local_rank} failed ({how})"

    # --- orders

    def _obey(self, order: dict[str, Any]) -> None:
        self._kin.hear_controller()
        if "how" in order:
            why, cut_off = order.get("reason") or "a stop was asked for", order.get("lost")
            self._asked(order["how"], float(order["grace"]), why, cut_off, lost=cut_off is not None)
        self._released = self._released or "release" in order

    def _asked(self, how: str, grace: float, why: str, origin: int | None = None, *, lost: bool = False) -> None:
        """``origin``: the node that ``why`` speaks of, None: a controller asks. ``lost``: it is not heard any more."""
        # What has ended by now did not end of this order, though both may be heard of in one turn.
        if self._watch is not None:
            self._watch.look()
        self._reap()
        self._cause.order(how, grace, why, origin, lost=lost)
        if how == "kill":
            self._ending.kill()
        else:
            self._ending.ask(grace)
        self._say(states.STOPPING, why)

    # --- the other nodes

    def _account(self) -> lifeline.Account:
        return self._cause.account(self._run.node_rank, ended=self._state == states.ENDED)

    def _attend(self) -> None:
        self._restore()
        order = self._kin.turn(self._account())
        # What we failed of comes back to us as an order to all; it is no stop that somebody asked for.
        if order is not None and (order.how == "kill" or not self._cause.failed or order.origin != self._run.node_rank):
            grace = self._terms.grace if order.grace is None else order.grace
            self._asked(order.how, grace, order.reason, order.origin, lost=order.lost)

    def leave(self) -> None:
        """After the end: returns when no other node's supervisor needs this one any more."""
        for stream in self._streams.values():
            if stream.fd in self._selector.get_map():
                self._selector.unregister(stream.fd)
        while not self._kin.leave(self._account(), released=self._released):
            self._listen(LEAVE_SECONDS)

    def _say(self, state: str, reason: str = "") -> None:
        """Writes state.json, unless that were a step back; on a full disk the old one stays, and the run goes on."""
        if not states.may_follow(self._state, state):
            return
        self._state = state
        own = processes.look(os.getpid())
        supervisor = {"pid": os.getpid(), "start": own.start if own is not None else -1}
        value = {
            "state": state,
            "time": time.time(),
            "reason": reason,
            "origin": self._cause.origin,
            "first_rank": self._first_rank,
            "lifeline": self._kin.line is not None,
            "cgroup": str(self._group or ""),
            "supervisor": supervisor,
        }
        try:
            self._run.write_state(value)
        except OSError:
            if state == states.STARTING:
                raise

    # --- the end

    def _workers(self) -> list[ranks.Rank]:
        found = self._watch.latest.values() if self._watch is not None else self._children.values()
        return sorted(found, key=lambda rank: rank.local_rank)

    def _tail(self, stream: str) -> bytes:
        return self._streams[stream].tail if stream in self._streams else b""

    def finish(self) -> None:
        """Takes what is left in the pipes and writes exit.json. Raises OSError where even that can't be done."""
        for stream in self._streams.values():
            taken = 0
            while taken < LAST_BYTES:
                size = stream.take()
                if size <= 0:
                    break
                taken += size
        if self._watch is not None:
            self._watch.close()
        launcher = next((child for child in self._children.values() if child.local_rank < 0), None)
        # Where somebody else's came first, torchrun had passed it on when ours arrived.
        terminated = self._ending.terminated and not (self._watch is not None and self._watch.were_terminated())
        hosts = self._terms.lifeline.hosts if self._terms.lifeline is not None else []
        record = endrecord.record(
            reason=self._cause.reason,
            detail=self._detail or self._cause.from_elsewhere(hosts),
            started_at=self._started_at,
            ranks=[rank.as_json(self._tail(f"{rank.local_rank}.err")) for rank in self._workers()],
            survivors=processes.describe(self._ending.survivors),
            launcher=launcher.as_launcher(terminated) if launcher is not None else None,
            launcher_tail=self._tail("launcher.err").decode("utf-8", "replace"),
            stop=self._cause.stop,
            lost_bytes={stream.name: stream.log.lost for stream in self._streams.values() if stream.log.lost},
            lost_why=next((stream.log.why for stream in self._streams.values() if stream.log.lost), ""),
            dropped_bytes={stream.name: stream.log.dropped for stream in self._streams.values() if stream.log.dropped},
            oom_kills=max(0, oom.kills() - self._oom),
        )
        self._run.write_end(record, endrecord.shortened(record))
        self._state = states.ENDED

    def kill_everything(self) -> None:
        """For a supervisor that can't go on: nothing may outlive it."""
        processes.kill_all(self._ending.members, stopping.KILL_SECONDS)


def _empty(fd: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 1 << 12):
            pass
