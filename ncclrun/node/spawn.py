"""Starts a process of the run: in its own session, dying with the supervisor, its exec proven."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import NamedTuple

from . import cgroup, kernel, processes
from .refusal import Refusal


class Program(NamedTuple):
    """What is to run, where, with which environment (whole). ``local_rank`` is None for torchrun."""

    argv: list[str]
    local_rank: int | None
    cwd: str
    env: dict[str, str]
    umask: int


class Place(NamedTuple):
    """Writing ends for stdout and stderr."""

    out: int
    err: int


def _become(program: Program, place: Place, group: Path | None, parent: int) -> None:
    """In the child: everything up to exec. Raises OSError with what failed as its file name."""
    if group is not None:
        with contextlib.suppress(OSError):  # the run's cookie finds it all the same
            cgroup.enter(group)
    os.setsid()  # so that `kill 0` in a script does not reach us
    kernel.default_signals()
    os.dup2(place.out, 1)
    os.dup2(place.err, 2)
    os.umask(program.umask)
    os.chdir(program.cwd)
    kernel.die_with_parent(parent, signal.SIGTERM)
    # Bytes that are no UTF-8 came as lone surrogates and leave as they were.
    env = {os.fsencode(name): os.fsencode(value) for name, value in program.env.items()}
    os.execvpe(os.fsencode(program.argv[0]), [os.fsencode(word) for word in program.argv], env)  # noqa: S606  # no shell


def spawn(program: Program, place: Place, group: Path | None = None) -> processes.Process:
    """The running process, in the cgroup ``group``; refuses with `exec_failed` when it could not become the program.

    Must be called from the main thread: the kernel ties PR_SET_PDEATHSIG to the thread that forked.
    """
    parent = os.getpid()
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _become(program, place, group, parent)
        except Exception as error:  # noqa: BLE001  # silence would be taken for success
            words = error.strerror if isinstance(error, OSError) else repr(error)
            os.write(told, f"{words} {program.cwd if getattr(error, 'filename', None) == program.cwd else ''}".encode())
        finally:
            os._exit(127)
    os.close(told)  # closed by exec in the child as well: then the end of the pipe says that it runs
    with os.fdopen(heard, "rb") as pipe:
        failure = pipe.read().decode("utf-8", "replace").strip()
    if failure:
        os.waitpid(pid, 0)
        message = f"{program.argv[0]} can't be executed in {program.cwd}: {failure}"
        raise Refusal("exec_failed", message, "give a path or a name in PATH of the node; a script needs a #! line")
    process = processes.look(pid)
    if process is None:  # can't be: only we reap it
        raise Refusal("exec_failed", f"process {pid} is not in /proc", "mount /proc on the node")
    return process
