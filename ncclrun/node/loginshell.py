"""What the login shell does before a command of ours runs: how long it takes, and what it prints."""

from __future__ import annotations

import os
import pwd
import time
from typing import Any

from . import commands

SECONDS = 15.0
LONGEST = 400
OURS = "ncclrun-shell-ready"
KEPT = ("HOME", "USER", "LOGNAME", "LANG", "SSH_CONNECTION", "SSH_CLIENT")


def find() -> dict[str, Any]:
    """``path``, ``seconds`` (None: it did not end) and ``printed``. Raises OSError where it can't be run, KeyError."""
    path = pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    # As sshd would call it: bash reads .bashrc for a command, too, when it sees an SSH connection and no outer shell.
    env.setdefault("SSH_CLIENT", "127.0.0.1 1 22")
    env.setdefault("SSH_CONNECTION", "127.0.0.1 1 127.0.0.1 22")
    began = time.monotonic()
    output = commands.ask([path, "-c", f"echo {OURS}"], SECONDS, {**env, "SHELL": path, "PATH": commands.USUAL_PATH})
    took = time.monotonic() - began
    printed = (output.out.partition(OURS)[0] + output.err).strip()
    return {"path": path, "seconds": None if output.code is None else took, "printed": printed[:LONGEST]}
