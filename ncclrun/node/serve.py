"""The serving process: one thread that answers the controller's requests and never waits for anything else."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from typing import Any

from . import (
    confrequests,
    doors,
    follow,
    gpulocks,
    lost,
    machine,
    partrequests,
    prepare,
    requests,
    rundir,
    statedir,
    tasks,
    wire,
)
from .channel import Channel
from .listener import Callers, Listener
from .refusal import Refusal

BEAT_SECONDS = 2.0
SILENCE_SECONDS = 60.0
BATCH_SECONDS = 0.05
# A run that was silent for this long is looked at less often: looking costs a percent of a core.
QUIET_AFTER_SECONDS = 2.0
QUIET_SECONDS = 0.2
# How often the supervisors of followed runs are told that a controller is there, while it is heard.
ALIVE_SECONDS = 1.0
UNHEARD_SECONDS = 12.0


class Server:
    """What one controller's channel has going on here: children at work, listeners, prepared runs, followed runs."""

    def __init__(self, channel: Channel, login_umask: int = 0o022) -> None:
        self.channel = channel
        self.login_umask = login_umask
        self.selector = selectors.DefaultSelector()
        self.tasks = tasks.Tasks(self.selector)
        self.state = statedir.find()
        self.uploads: dict[str, Any] = {}
        self.callers = Callers(self.selector)
        self.listeners: dict[str, Listener] = {}
        self.lifelines: dict[str, Listener] = {}
        self.doors: doors.Doors | None = None
        self.conf_children = confrequests.Children()
        self.gpu_locks: dict[str, gpulocks.Locks] = {}
        self.drafts: dict[str, Any] = {}
        self.prepared: dict[str, rundir.RunDir] = {}
        self.follows: dict[str, follow.Follow] = {}
        self.epochs: dict[str, int] = {}
        self.settling: set[str] = set()
        self._open = True
        self._heard = time.monotonic()
        self._next_pump = self._news = self._next_alive = 0.0
        self._writing = False

    # --- talking

    def say(self, header: dict[str, Any]) -> None:
        """Queues a frame."""
        self.channel.send(header)

    def hello(self, nonce: str) -> None:
        """The line that ends the shell's noise, and the first frame."""
        self.channel.raw(f"{nonce} frames\n".encode("ascii"))
        self.say(
            {
                "ev": "hello",
                "protocol": wire.PROTOCOL,
                "python": "%d.%d.%d" % sys.version_info[:3],  # noqa: UP031  # the f-string is longer than what it says
                "executable": sys.executable,
                "hostname": socket.gethostname(),
                "user": machine.user(),
                "uid": machine.uid(),
                "pid": os.getpid(),
                "boot_id": machine.boot_id(),
                "machine": machine.machine_id(),
                "time": time.time(),
                "state_dir": str(self.state.path or ""),
                "state_note": self.state.note,
            }
        )

    def _receive(self) -> None:
        frames = self.channel.receive()
        if frames is None:
            self._open = False
            return
        for header, body in frames:
            self._heard = time.monotonic()
            self._dispatch(header, body)

    def _dispatch(self, header: dict[str, Any], body: bytes) -> None:
        number = header.get("id")
        if number is None:
            return  # a beat

        def reply(answer: dict[str, Any]) -> None:
            self.say({**answer, "re": number})

        def handle() -> dict[str, Any]:
            handler = requests.HANDLERS.get(str(header.get("do")))
            if handler is None:
                raise Refusal("bad_request", f"this node part knows no request {header.get('do')!r}")
            handler(self, header, body, reply)
            return {}

        answer = tasks.attempt(handle)
        if not answer["ok"]:
            reply(answer)

    # --- following

    def settle(self, run: rundir.RunDir) -> None:
        """Writes the end of a run whose supervisor died, once, in a child."""
        name = str(run.path)
        if name in self.settling:
            return
        self.settling.add(name)

        def done(answer: dict[str, Any]) -> None:
            self.settling.discard(name)
            if not answer["ok"]:
                self.say({"ev": "trouble", "run_id": run.run_id, "node_rank": run.node_rank, **answer})
                # Once is enough: a disk that refuses the record will refuse it again.
                self.settling.add(name)

        self.tasks.spawn(lambda: lost.settle(run, run.run()), done, partrequests.SLOW_SECONDS)

    def _pump(self, now: float) -> None:
        """Feeds the followers every 50 or 200 ms, and as fast as the controller reads while they are behind."""
        if now < self._next_pump or not self.channel.room:
            return
        behind = False
        said = self.channel.said
        for name, one in list(self.follows.items()):
            behind = one.pump(self.channel) or behind
            if one.orphaned:
                self.settle(one.run)
            if one.ended:
                one.close()
                del self.follows[name]
        if self.channel.said != said:
            self._news = now
        pause = BATCH_SECONDS if now - self._news < QUIET_AFTER_SECONDS else QUIET_SECONDS
        self._next_pump = now if behind else now + pause

    def _tell_alive(self, now: float) -> None:
        """To a supervisor that hears nothing of node 0 it is of account whether a controller is there.

        One that only reads, or that another has taken the run from, decides nothing: it is none.
        """
        if now < self._next_alive:
            return
        self._next_alive = now + ALIVE_SECONDS
        if now - self._heard < UNHEARD_SECONDS:
            for name, one in self.follows.items():
                if self.epochs.get(name, -1) >= one.run.last_claim()[0]:
                    one.tell_alive()

    # --- the loop

    def _wait(self, now: float) -> float:
        moments = [self.channel.said + BEAT_SECONDS, self._heard + SILENCE_SECONDS, self.tasks.next_deadline()]
        moments.append(self.callers.next_deadline())
        if self.follows and self.channel.room:
            moments.append(self._next_pump)
        if self.follows:
            moments.append(self._next_alive)
        return max(0.0, min(moments) - now)

    def _want_writing(self, want: bool) -> None:
        """Asks to be woken when the controller reads on, only while something waits for it."""
        if want and not self._writing:
            self.selector.register(self.channel.sink, selectors.EVENT_WRITE, lambda: None)
        elif self._writing and not want:
            self.selector.unregister(self.channel.sink)
        self._writing = want

    def loop(self) -> None:
        """Until the channel ends, or the controller was silent for a minute."""
        self.selector.register(self.channel.source, selectors.EVENT_READ, self._receive)
        while self._open:
            self._open = self.channel.flush()
            self._want_writing(self.channel.queued > 0)
            for key, _ in self.selector.select(self._wait(time.monotonic())):
                # An earlier one may have closed it, and a new one may have its number already.
                if self.selector.get_map().get(key.fd) is key:
                    key.data()
            now = time.monotonic()
            self.tasks.expire(now)
            self.callers.expire(now)
            self._pump(now)
            self._tell_alive(now)
            if now - self.channel.said >= BEAT_SECONDS:
                self.say({"ev": "beat"})
            if now - self._heard > SILENCE_SECONDS:
                return

    def close_doors(self) -> None:
        """Ends what `listen` opened, if it did."""
        if self.doors is not None:
            self.doors.close()
            self.doors = None

    def close(self) -> None:
        """Leaves nothing that was not started: no listener, child, staged conf file, half-made or unstarted run,
        half-sent archive.
        """
        self.tasks.close()
        self.conf_children.close()
        for name in {*self.listeners, *self.lifelines, *self.gpu_locks}:
            partrequests.release(self, name)
        self.close_doors()
        for upload in self.uploads.values():
            upload.abandon()
        for path in self.drafts.values():
            prepare.scrap(path)
        for run in self.prepared.values():
            partrequests.remove_unstarted(run)


def main(nonce: str) -> None:
    """Serves the controller on stdin and stdout until the channel ends."""
    # sshd sends SIGHUP or SIGTERM on some ends; the end of stdin says the same, and lets us clean up.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Our own files are closed to others, and open to us whatever umask the login has; the training keeps that one.
    server = Server(Channel(0, 1), os.umask(0o077))
    try:
        server.hello(nonce)
        server.loop()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        server.close()


def _leave(*_: object) -> None:
    raise SystemExit(0)
