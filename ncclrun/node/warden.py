"""The supervisor's parent: sleeps until that ends, and ends and records its run where it could not do so itself."""

from __future__ import annotations

import os
import signal
import traceback
from typing import Any, Callable

from . import kernel, lost, oom, ranks, rundir, tasks


def guard(run: rundir.RunDir, supervise: Callable[[], None]) -> None:
    """Forks a process off that does ``supervise``, and watches over it; returns in neither.

    The supervisor dies by SIGKILL (the out-of-memory killer) like any process, and then its workers' children and
    orphans would live on until somebody comes by. They come to us as the next subreaper above.
    """
    status = 70
    try:
        facts = run.run()  # now: the directory may be gone by then, and what ran in it must go all the same
        os.umask(0o077)
        os.chdir("/")
        kernel.become_subreaper()
        before = oom.kills()
        pid = os.fork()
        if pid == 0:
            supervise()
        _let_go()
        _, end = os.waitpid(pid, 0)
        if end != 0:  # 0: it has written how the run ended
            lost.settle(run, facts, _death(run, end, oom.kills() - before))
        status = 0
    except BaseException:  # noqa: BLE001  # the last thing that this process does is to say why, in supervisor.log
        run.complain_on_stderr()
        os.write(2, traceback.format_exc().encode("utf-8", "replace"))
    finally:
        os._exit(status)


def _let_go() -> None:
    """Of every descriptor, and of all signals but those that can't be refused: what ends us is the supervisor's end."""
    tasks.detach(frozenset())
    os.dup2(1, 2)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def _death(run: rundir.RunDir, status: int, oom_kills: int) -> lost.Death:
    """A wait status and what the kernel's out-of-memory killer took meanwhile, in words."""
    end: dict[str, Any] = ranks.outcome(status)
    if end["signal"] is None:
        how = f"the supervisor gave up (exit code {end['code']}); why may stand in {run.complaints}"
    else:
        how = f"the supervisor was killed by signal {end['signal']} ({signal.strsignal(end['signal'])})"
    if end["signal"] == signal.SIGKILL and oom_kills > 0:
        how += f"; processes that the kernel killed there for want of memory since the run began: {oom_kills}"
    return lost.Death(how, os.getpid(), max(0, oom_kills))
