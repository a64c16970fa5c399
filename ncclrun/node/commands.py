"""Runs a foreign program for its answer: bounded in time even when it hangs in the kernel, and in what it says."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from typing import NamedTuple

from . import machine

USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LONGEST_WAIT_AFTER_KILL = 1.0
MOST_BYTES = 4 << 20
"""Of each stream; one that never stops would fill the host's memory."""
PIECE = 1 << 16


class Output(NamedTuple):
    """``code`` is negative for a signal, None when the time ran out (the texts are what came until then)."""

    code: int | None
    out: str
    err: str

    @property
    def signal(self) -> str:
        """The signal that it died of, as ``9 (SIGKILL)``; "" if it died of none."""
        if self.code is None or self.code >= 0:
            return ""
        try:
            name = signal.Signals(-self.code).name
        except ValueError:
            name = "unknown"
        return f"{-self.code} ({name})"


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

    Of each stream the first MOST_BYTES are kept. Raises OSError when it can't be executed.
    """
    process = subprocess.Popen(  # no shell; the program is one that the user or this package names
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env=env,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = bytearray(), bytearray()
    with process.stdout, process.stderr, selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, out)
        selector.register(process.stderr, selectors.EVENT_READ, err)
        deadline = time.monotonic() + seconds
        over = _read(selector, deadline) and _ended(process, deadline)
        if not over:
            os.killpg(process.pid, signal.SIGKILL)
            deadline = time.monotonic() + LONGEST_WAIT_AFTER_KILL
            _read(selector, deadline)
            if not _ended(process, deadline):
                # It sleeps in a driver and can't die. Waiting for it would make us hang with it.
                process.returncode = -signal.SIGKILL
    return Output(process.returncode if over else None, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def _read(selector: selectors.BaseSelector, deadline: float) -> bool:
    """Reads until all streams have ended; False if the time runs out before."""
    while selector.get_map():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        for key, _ in selector.select(left):
            data = os.read(key.fd, PIECE)
            if data:
                key.data.extend(data[: MOST_BYTES - len(key.data)])
            else:
                selector.unregister(key.fileobj)
    return True


def _ended(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Waits for its end; False if the time runs out before."""
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True
