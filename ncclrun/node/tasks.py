"""Slow requests in forked children, so that a hung driver or disk hangs a child only."""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
import traceback
from typing import Any, Callable, NamedTuple

from . import kernel
from .refusal import Refusal

Work = Callable[[], "dict[str, Any]"]
Done = Callable[["dict[str, Any]"], None]


class Task(NamedTuple):
    """A child at work: its answer comes as one line of JSON on ``fd``."""

    pid: int
    fd: int
    deadline: float
    done: Done
    received: bytearray


def attempt(work: Work) -> dict[str, Any]:
    """An answer's fields: ``ok`` and what the work returned, or the refusal or fault that it raised."""
    try:
        return {"ok": True, **work()}
    except Refusal as refusal:
        return {"ok": False, "error": refusal.as_json()}
    except Exception as error:  # noqa: BLE001  # whatever it is, the person who asked must read it
        frame = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{type(error).__name__}: {error} ({frame.filename}:{frame.lineno}, {frame.name})"
        return {"ok": False, "error": {"code": "internal", "message": message, "fix": ""}}


def detach(keep: frozenset[int]) -> None:
    """In a forked child: no descriptor of the channel, and no handlers of the parent."""
    kernel.default_signals()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    kernel.close_descriptors(keep)


def _child(work: Work, fd: int, keep: frozenset[int], parent: int) -> None:
    status = 1
    try:
        kernel.die_with_parent(parent, signal.SIGKILL)  # nobody else would ever ask for its answer
        detach(keep | {fd})
        data = json.dumps(attempt(work)).encode("ascii") + b"\n"
        while data:
            data = data[os.write(fd, data) :]
        status = 0
    finally:
        os._exit(status)


class Tasks:
    """The children at work, on the serving loop's selector."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._tasks: dict[int, Task] = {}

    def spawn(self, work: Work, done: Done, seconds: float, keep: frozenset[int] = frozenset()) -> None:
        """Runs ``work`` in a child and calls ``done`` with an answer's fields, at the latest after ``seconds``.

        ``keep``: descriptors that the work needs.
        """
        fd, far = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _child(work, far, keep, parent)
        os.close(far)
        task = Task(pid, fd, time.monotonic() + seconds, done, bytearray())
        self._tasks[fd] = task
        self._selector.register(fd, selectors.EVENT_READ, lambda: self._readable(task))

    def _readable(self, task: Task) -> None:
        data = os.read(task.fd, 1 << 16)
        task.received.extend(data)
        # The line's end counts, not the pipe's: a grandchild that hangs in a driver may hold the pipe for ever.
        if task.received.endswith(b"\n"):
            self._finish(task, json.loads(task.received.decode("ascii")))
        elif not data:
            self._finish(task, _failure("internal", "a child of the node part died at work"))

    def _finish(self, task: Task, answer: dict[str, Any]) -> None:
        self._selector.unregister(task.fd)
        os.close(task.fd)
        del self._tasks[task.fd]
        _end(task.pid)
        task.done(answer)

    def next_deadline(self) -> float:
        """When `expire` has something to do (monotonic seconds)."""
        return min((task.deadline for task in self._tasks.values()), default=float("inf"))

    def expire(self, now: float) -> None:
        """Ends the children that took too long."""
        for task in [task for task in self._tasks.values() if task.deadline <= now]:
            self._finish(task, _failure("timeout", "the node took too long over this"))

    def close(self) -> None:
        """Ends all children; nobody waits for their answers any more."""
        for task in list(self._tasks.values()):
            self._selector.unregister(task.fd)
            os.close(task.fd)
            _end(task.pid)
        self._tasks.clear()


def _end(pid: int) -> None:
    """Kills and reaps a child of ours; one that hangs in the kernel is left to init."""
    os.kill(pid, signal.SIGKILL)  # not yet reaped, so the id is still its own
    for _ in range(100):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.01)


def _failure(code: str, message: str) -> dict[str, Any]:
    return {"ok": False, "error": {"code": code, "message": message, "fix": ""}}


def bounded(work: Work, seconds: float) -> dict[str, Any]:
    """Runs ``work`` in a child and waits at most ``seconds`` for its answer: for calls that may hang or crash."""
    answers: list[dict[str, Any]] = []
    with selectors.DefaultSelector() as selector:
        tasks = Tasks(selector)
        tasks.spawn(work, answers.append, seconds)
        while not answers:
            for key, _ in selector.select(max(0.0, tasks.next_deadline() - time.monotonic())):
                key.data()
            tasks.expire(time.monotonic())
    return answers[0]
