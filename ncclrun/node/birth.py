"""How a supervisor comes into the world: in a session of its own, with nothing of the channel, below its warden."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import traceback
from typing import Any, NamedTuple

from . import rundir, spawn, tasks, warden
from .refusal import Refusal
from .supervisor import Supervisor, Terms


class Held(NamedTuple):
    """Descriptors that a supervisor inherits: ``locks`` until the run has ended, ``port`` of the lifeline on node 0."""

    locks: frozenset[int] = frozenset()
    port: socket.socket | None = None


def _supervise(run: rundir.RunDir, programs: list[spawn.Program], terms: Terms, held: Held, tell: int) -> None:
    """The supervisor's life; says on ``tell`` that everything runs, or why not, as one line of JSON."""

    def say(answer: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # the channel broke meanwhile: the run goes on
            os.write(tell, json.dumps(answer).encode("ascii") + b"\n")
        os.close(tell)

    supervisor = Supervisor(run, programs, terms)
    try:
        supervisor.prepare(held.port)
        try:
            supervisor.start()
        except Refusal as refusal:
            supervisor.loop()
            supervisor.finish()
            say({"ok": False, "error": refusal.as_json()})
        else:
            say({"ok": True, "pid": os.getpid(), "time": time.time()})
            supervisor.loop()
            supervisor.finish()
    except BaseException:
        supervisor.kill_everything()
        raise
    for fd in held.locks:
        os.close(fd)
    supervisor.leave()


def launch(
    run: rundir.RunDir,
    programs: list[spawn.Program],
    terms: Terms,
    held: Held = Held(),  # noqa: B008  # it is frozen
) -> int:
    """Forks warden and supervisor off; returns a descriptor on which the supervisor says how the start went."""
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if os.fork() == 0:
            warden.guard(run, lambda: _detached(run, programs, terms, held, told))
        os._exit(0)
    os.close(told)
    os.waitpid(pid, 0)
    return heard


def _detached(run: rundir.RunDir, programs: list[spawn.Program], terms: Terms, held: Held, told: int) -> None:
    """Never returns."""
    status = 70
    try:
        run.complain_on_stderr()
        port = frozenset() if held.port is None else frozenset([held.port.fileno()])
        tasks.detach(held.locks | port | {told})
        _supervise(run, programs, terms, held, told)
        status = 0
    except BaseException:  # noqa: BLE001  # the last thing that this process does is to say why, in supervisor.log
        os.write(2, traceback.format_exc().encode("utf-8", "replace"))
    finally:
        os._exit(status)
