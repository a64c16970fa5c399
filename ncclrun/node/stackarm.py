"""The sitecustomize of a run's workers (docs/node-protocol.md, "Stacks"): arms the worker, then makes way for the one
that would have been imported without it."""

# Its text is written to a file of that name and runs in the training's Python, before anything of the user's: it must
# do nothing in a process that is no worker, never fail, and leave no trace but the handler.
from __future__ import annotations

import os
import sys

FD_FROM = 100
"""The handler's descriptor is at least this one, so that the program's own have the numbers that they always have."""


def _step_aside(here: str) -> None:
    """Takes ``here`` out of the module path and of what this process's children will get."""
    if here in sys.path:
        sys.path.remove(here)
    rest = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place != here]
    os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    if not os.environ["PYTHONPATH"]:
        del os.environ["PYTHONPATH"]


def _arm(here: str) -> None:
    """Has faulthandler write all threads' stacks to a file of this process when SIGURG comes. Raises OSError."""
    import _thread
    import faulthandler
    import fcntl
    import signal

    with open("/proc/self/stat", "rb") as stat:  # noqa: PTH123  # pathlib would be loaded into the user's program
        start = int(stat.read().rpartition(b")")[2].split()[19])
    path = os.path.join(here, f"{os.getpid()}-{start}.txt")  # noqa: PTH118  # as above
    low = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fd = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, FD_FROM)
    finally:
        os.close(low)
    # SIGURG, since it does nothing to a process without a handler, and nobody in this trade uses it.
    faulthandler.register(signal.SIGURG, file=fd, all_threads=True, chain=False)
    os.write(fd, f"main 0x{_thread.get_ident():016x} fd {fd}\n".encode("ascii"))


def _become_the_next() -> None:
    """Imports the sitecustomize that is behind this one; what it raises goes where it always went."""
    ours = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")  # there may be none
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)  # the import that is under way wants to find one


def main() -> None:
    """All of it; in a process that is no worker (it has no LOCAL_RANK) all but the arming."""
    here = os.path.dirname(__file__)  # noqa: PTH120  # as above
    _step_aside(here)
    if os.environ.get("LOCAL_RANK"):
        try:  # noqa: SIM105  # contextlib would be loaded into the user's program
            _arm(here)
        except (OSError, ImportError, ValueError):
            pass  # a full disk or an odd Python: it trains without, and `stacks` says that there are none
    _become_the_next()


if __name__ == "sitecustomize":
    main()
