"""Owns a run on its node: starts the processes, drains their pipes, stops them when asked, and writes the end."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import time
import traceback
from typing import Any, NamedTuple

from . import drain, kernel, oom, processes, ranks, rundir, spawn, stopping, tasks
from .refusal import Refusal

WORKERS_OVER = "all workers have ended"
POLL_SECONDS = 0.02
# For torchrun to end when all its workers have: it only has its report to write.
LAUNCHER_SECONDS = 5.0
# A survivor may write for ever; after the end we take at most this much more of a stream.
LAST_BYTES = 64 << 20


class Terms(NamedTuple):
    """How a run is supervised.

    ``grace`` is the one that a failing rank gives its siblings; with ``restarts`` torchrun may start them anew instead.
    ``first_rank`` is the global rank of local rank 0: people know no others.
    """

    grace: float
    restarts: int
    first_rank: int


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
        self._ending = stopping.Ending(self._facts["cookie"], self._living)
        self._stop: dict[str, Any] | None = None
        self._failed = False
        self._over = False
        self._detail = ""
        self._started_at = time.time()
        self._oom = oom.kills()
        self._control = -1
        self._orders = b""

    # --- start

    def prepare(self) -> None:
        """Takes the signals, the control FIFO and the rank pipes. Raises OSError."""
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
        self._control = os.open(self._run.control, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._control, selectors.EVENT_READ, self._hear)
        if self._facts["launcher"] == "torchrun":
            self._watch = ranks.Watch(self._selector, self._run.pipes / "ranks", lambda: self._ending.stopping)
            for rank in range(self._facts["nproc"]):
                for stream in ("out", "err"):
                    name = f"{rank}.{stream}"
                    # For both directions: it stays open while workers come and go.
                    self._drain(name, os.open(self._run.pipes / name, os.O_RDWR | os.O_CLOEXEC), drain.RANK_TAIL)
        self._say("starting")

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
                process = spawn.spawn(program, spawn.Place(ends["out"], ends["err"]))
            except Refusal as refusal:
                self._failed = True
                self._detail = refusal.message
                self._ending.kill()
                raise
            finally:
                for fd in ends.values():
                    os.close(fd)
            local_rank = -1 if program.local_rank is None else program.local_rank
            self._children[process.pid] = ranks.Rank(local_rank, process)
        self._say("running")

    def _drain(self, name: str, fd: int, keep: int) -> None:
        stream = self._streams[name] = drain.Stream(name, fd, self._run.logs, keep)
        self._selector.register(fd, selectors.EVENT_READ, lambda: self._take(stream))

    # --- the loop

    def loop(self) -> None:
        """Until nothing of the run lives."""
        while not self._ending.over:
            wait: float | None = self._ending.wait()
            if self._watch is not None and self._watch.polling:
                wait = POLL_SECONDS if wait is None else min(wait, POLL_SECONDS)
            for key, _ in self._selector.select(None if wait == float("inf") else wait):
                key.data()
            if self._watch is not None:
                self._watch.poll()
            self._reap()
            if self._watch is not None:
                self._judge_workers(self._watch)
            if not self._living() and self._ending.stage in ("running", "terminating"):
                self._ending.clear()
            self._ending.tick()

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
            self._failed = True
            if self._living():
                self._end_others(bad[0])

    def _judge_workers(self, watch: ranks.Watch) -> None:
        """torchrun ends a failed worker's siblings itself, in its own time; the other nodes are to know at once."""
        if self._ending.stage == "running" and not self._terms.restarts:
            bad = [rank for rank in watch.latest.values() if rank.ended_at is not None and rank.status]
            if bad:
                self._failed = True
                self._ending.expect(self._terms.grace)
                self._say("stopping", self._how(bad[0]))
        if not (self._over or self._terms.restarts or self._ending.stopping) and watch.all_ended(self._facts["nproc"]):
            self._over = True
            self._say("running", WORKERS_OVER)
        if self._ending.stage == "terminating" and watch.all_ended(self._facts["nproc"]):
            # It may wait in vain for other nodes: its exit barrier hears no signal.
            self._ending.expect(LAUNCHER_SECONDS)

    def _end_others(self, first: ranks.Rank) -> None:
        self._ending.ask(self._terms.grace)
        self._say("stopping", self._how(first))

    def _how(self, rank: ranks.Rank) -> str:
        end = ranks.outcome(rank.status)
        how = f"exit code {end['code']}" if end["signal"] is None else f"signal {end['signal']}"
        return f"rank {self._terms.first_rank + rank.local_rank} failed ({how})"

    # --- orders

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._orders += os.read(self._control, 1 << 16)
        *lines, self._orders = self._orders.split(b"\n")
        for line in lines:
            order = json.loads(line.decode("utf-8"))
            self._asked(order["how"], float(order["grace"]), "a stop was asked for")

    def _asked(self, how: str, grace: float, why: str) -> None:
        if self._stop is None:
            self._stop = {"asked_at": time.time(), "how": how}
        self._stop["how"] = "kill" if "kill" in (how, self._stop["how"]) else "term"
        if how == "kill":
            self._ending.kill()
        else:
            self._ending.ask(grace)
        self._say("stopping", why)

    def _say(self, state: str, reason: str = "") -> None:
        """Writes state.json; on a full disk the old one stays, and the run goes on."""
        own = processes.look(os.getpid())
        supervisor = {"pid": os.getpid(), "start": own.start if own is not None else -1}
        value = {"state": state, "time": time.time(), "reason": reason, "supervisor": supervisor}
        try:
            self._run.write_state(value)
        except OSError:
            if state == "starting":
                raise

    # --- the end

    def _reason(self) -> str:
        if self._failed:
            return "failed"
        return "stopped" if self._stop is not None else "finished"

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
        record: dict[str, Any] = {
            "reason": self._reason(),
            "detail": self._detail,
            "started_at": self._started_at,
            "ended_at": time.time(),
            "launcher": {"pid": launcher.process.pid, **ranks.outcome(launcher.status)} if launcher else None,
            "ranks": [rank.as_json(self._tail(f"{rank.local_rank}.err")) for rank in self._workers()],
            "launcher_tail": self._tail("launcher.err").decode("utf-8", "replace"),
            "stop": self._stop,
            "survivors": processes.describe(self._ending.survivors),
            "lost_bytes": {stream.name: stream.lost for stream in self._streams.values() if stream.lost},
            "oom_kills": max(0, oom.kills() - self._oom),
        }
        short = [{**rank, "error": None, "tail": rank["tail"][-512:]} for rank in record["ranks"]]
        self._run.write_end(record, {**record, "ranks": short, "launcher_tail": record["launcher_tail"][-4096:]})

    def kill_everything(self) -> None:
        """For a supervisor that can't go on: nothing may outlive it."""
        processes.kill_all(self._ending.members, stopping.KILL_SECONDS)


def _empty(fd: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(fd, 1 << 12):
            pass


def _supervise(run: rundir.RunDir, programs: list[spawn.Program], terms: Terms, tell: int) -> None:
    """The grandchild's life; says on ``tell`` that everything runs, or why not, as one line of JSON."""

    def say(answer: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # the channel broke meanwhile: the run goes on
            os.write(tell, json.dumps(answer).encode("ascii") + b"\n")
        os.close(tell)

    supervisor = Supervisor(run, programs, terms)
    try:
        supervisor.prepare()
        try:
            supervisor.start()
        except Refusal as refusal:
            supervisor.loop()
            supervisor.finish()
            say({"ok": False, "error": refusal.as_json()})
            return
        say({"ok": True, "pid": os.getpid(), "time": time.time()})
        supervisor.loop()
        supervisor.finish()
    except BaseException:
        supervisor.kill_everything()
        raise


def launch(
    run: rundir.RunDir, programs: list[spawn.Program], terms: Terms, keep: frozenset[int] = frozenset()
) -> int:
    """Forks twice; returns a descriptor on which the supervisor says how the start went.

    ``keep``: descriptors that stay open for as long as the supervisor lives.
    """
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if os.fork() == 0:
            _detached(run, programs, terms, told, keep)
        os._exit(0)
    os.close(told)
    os.waitpid(pid, 0)
    return heard


def _detached(
    run: rundir.RunDir, programs: list[spawn.Program], terms: Terms, told: int, keep: frozenset[int]
) -> None:
    """Never returns."""
    status = 70
    try:
        os.umask(0o077)
        os.chdir("/")
        complaints = os.open(run.complaints, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.dup2(complaints, 2)
        tasks.detach(keep | {told})
        _supervise(run, programs, terms, told)
        status = 0
    except BaseException:  # noqa: BLE001  # the last thing that this process does is to say why, in supervisor.log
        os.write(2, traceback.format_exc().encode("utf-8", "replace"))
    finally:
        os._exit(status)
