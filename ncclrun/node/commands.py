"""Runs a foreign program for its answer: bounded in time even when it hangs in the kernel."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import NamedTuple

from . import machine

USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LONGEST_WAIT_AFTER_KILL = 1.0


class Output(NamedTuple):
    """``code`` is negative for a signal, None when the time ran out (the texts are what came until then)."""

    code: int | None
    out: str
    err: str


def locate(name: str, extra: str = "") -> str | None:
    """The absolute path of a program: `~` expanded, a bare name looked up in PATH, ``extra``, the usual places."""
    path = str(machine.expand(name))
    if "/" in path:
        return shutil.which(path)
    for places in (os.environ.get("PATH", ""), extra, USUAL_PATH):
        found = shutil.which(path, path=places) if places else None
        if found is not None and found.startswith("/"):
            return found
    return None


def ask(argv: list[str], seconds: float, env: dict[str, str] | None = None) -> Output:
    """Runs ``argv`` in `/` without input; ``env``, if given, is its whole environment.

    Raises OSError when it can't be executed.
    """
    process = subprocess.Popen(  # no shell; the program is one that the user or this package names
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env=env,
        start_new_session=True,
        encoding="utf-8",
        errors="replace",
    )
    try:
        out, err = process.communicate(timeout=seconds)
        return Output(process.returncode, out, err)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    try:
        out, err = process.communicate(timeout=LONGEST_WAIT_AFTER_KILL)
        return Output(None, out, err)
    except subprocess.TimeoutExpired:
        # It sleeps in a driver and can't die. Waiting for it would make us hang with it.
        process.returncode = -signal.SIGKILL
    return Output(None, "", "")
