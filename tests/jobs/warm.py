"""Starts commands from a Python that has the program imported: the imports are most of what a short command costs.

A command (``python -c PROGRAM WORDS``) is a fork of it, with what it is given in place of what it inherited; from there
on it is as a new Python would be: a process and session of its own, with its own words, directory, environment, files.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import pickle
import pkgutil
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROGRAM = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.jobs.warm import become; exec(become())"
LARGEST = 100_000
"""Bytes that one message takes for sure."""
AT_START = ("PYTHON", "LC_", "LANG", "LD_", "TMP")
"""Beginnings of the variables that a Python reads once, when it starts."""


def fits(argv: Sequence[str | bytes], env: Mapping[Any, Any]) -> bool:
    """Whether such a command would be the same as one of a new Python."""
    if list(argv[:2]) != [sys.executable, "-c"]:
        return False
    differing = {name for name, _ in _texts(env).items() ^ os.environ.items()}
    return not any(name.startswith(AT_START) for name in differing) and len(pickle.dumps((argv, env))) < LARGEST


def _texts(env: Mapping[Any, Any]) -> dict[str, str]:
    return {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}


class Process:
    """A command, with those of Popen's methods that tests need."""

    def __init__(self, pid: int, source: _Source) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._source = source

    def poll(self) -> int | None:
        """As Popen's."""
        if self.returncode is None:
            self.returncode = self._source.ended(self.pid, 0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """As Popen's."""
        if self.returncode is None:
            self.returncode = self._source.ended(self.pid, timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("ncclrun", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """As Popen's."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """As Popen's."""
        self.send_signal(signal.SIGKILL)


class _Source:
    """The warm Python of this process of tests."""

    def __init__(self) -> None:
        self._channel, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._python = subprocess.Popen(
                [sys.executable, "-c", PROGRAM], stdin=its.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
            )
        self._ended: dict[int, int] = {}

    def start(self, argv: Sequence[str | bytes], cwd: Path, env: Mapping[Any, Any], files: Sequence[int]) -> Process:
        """``files``: what is to be its stdin, stdout and stderr."""
        told = pickle.dumps(([os.fsdecode(word) for word in argv[2:]], str(cwd), _texts(env)))
        socket.send_fds(self._channel, [told], files)
        while isinstance(pid := self._heard(), tuple):
            self._ended[pid[0]] = pid[1]
        return Process(pid, self)

    def ended(self, pid: int, timeout: float | None) -> int | None:
        """Its exit code as Popen has it, None if it still runs then."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while pid not in self._ended:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._channel], [], [], left)[0]:
                return None
            heard = self._heard()
            assert isinstance(heard, tuple)
            self._ended[heard[0]] = heard[1]
        return self._ended.pop(pid)

    def _heard(self) -> int | tuple[int, int]:
        """The pid of what was started, or a pid and its exit code."""
        message = self._channel.recv(LARGEST)
        assert message, "the warm Python is gone"
        heard: int | tuple[int, int] = pickle.loads(message)  # noqa: S301  # our own child says it
        return heard


@functools.cache
def source() -> _Source:
    """Made when the first command is started."""
    return _Source()


def become() -> str:
    """Waits for commands; in the process that is to be one it returns the program. Ends with who asks for them."""
    _import_all()
    channel = socket.socket(fileno=os.dup(0))
    heard, hears = os.pipe()
    os.set_blocking(hears, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(hears)
    gc.freeze()
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        selector.register(heard, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if heard in ready:
                os.read(heard, 4096)
                _tell_ends(channel)
            if channel in ready:
                told, files, _, _ = socket.recv_fds(channel, LARGEST, 3)
                if not told:
                    os._exit(0)
                pid = os.fork()
                if pid == 0:
                    break
                for number in files:
                    os.close(number)
                channel.send(pickle.dumps(pid))
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel.close()
    os.close(heard)
    os.close(hears)
    return _take_over(files, *pickle.loads(told))  # noqa: S301  # the tests say it


def _tell_ends(channel: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            channel.send(pickle.dumps((ended[0], os.waitstatus_to_exitcode(ended[1]))))


def _take_over(files: Sequence[int], words: list[str], cwd: str, env: dict[str, str]) -> str:
    os.setsid()
    for target, number in enumerate(files):
        os.dup2(number, target)
        os.close(number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    program, *rest = words
    sys.argv = ["-c", *rest]
    return program


def _import_all() -> None:
    """What any command may need: all but the node part, which is only sent."""
    import ncclrun
    from ncclrun.transport.boot import package

    for module in pkgutil.walk_packages(ncclrun.__path__, "ncclrun."):
        if not module.name.startswith(("ncclrun.node", "ncclrun.__main__")):
            importlib.import_module(module.name)
    package()
