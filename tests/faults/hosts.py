"""Faults of hosts that stand still for a while, or whose clocks are wrong."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace

from tests.faults.fault import Catalogue, Seen
from tests.faults.power import NO_ANSWER, OFF
from tests.faults.scene import LEASE, Scene

fault = Catalogue()


# --- freezes: all processes of a host stand still, and its kernel still answers


def freeze(scene: Scene) -> list[int]:
    """Returns all that was halted."""
    pids = [process.pid for process in scene.host.processes()]
    scene.signal(pids, signal.SIGSTOP)
    return pids


def freeze_for_a_moment(scene: Scene) -> None:
    """Shorter than the lease."""
    frozen = freeze(scene)
    scene.quiet = {rank for rank in scene.ranks if scene.host_of(rank) is scene.host}
    scene.all_make_steps(20 * (LEASE - 3))
    scene.quiet = set()
    scene.signal(frozen, signal.SIGCONT)


def freeze_until_lost(scene: Scene) -> None:
    """The others have stopped by the time that it thaws."""
    frozen = freeze(scene)
    scene.until(lambda: all(scene.record(host) is not None for host in scene.others))
    scene.signal(frozen, signal.SIGCONT)


fault("a host is frozen for a moment", Seen(), goes_on=True)(freeze_for_a_moment)
fault("a host is frozen for a moment and nobody watches", Seen(), controller="dead", goes_on=True)(freeze_for_a_moment)
fault("a host is frozen and thaws when all is lost", replace(OFF, how="lost", text=NO_ANSWER))(freeze_until_lost)
fault(
    "a host is frozen, thaws when all is lost and nobody watches",
    Seen(255, "lost to the other nodes"),
    controller="dead",
)(freeze_until_lost)


# --- clocks


HOURS = 3 * 3600
# Of all that ncclrun runs on the host; the workers have the kernel's own.
AHEAD = f"""#!/bin/sh
test "$4" = utf8 || exec {sys.executable} "$@"
exec {sys.executable} -I -S -X utf8 -u -c "import time; told = time.time; time.time = lambda: told() + {HOURS}
$7" "$8"
"""
AS_OTHERS = f"""#!/bin/sh
exec {sys.executable} "$@"
"""


def clock_ahead(scene: Scene) -> None:
    """The clock of the host that is hit is hours ahead of all others."""
    for host in scene.hosts:
        host.write("/root/python", AHEAD if host is scene.host else AS_OTHERS, mode=0o755)
        scene.later(host, "rm /root/python")
    scene.yaml(launch={"python": "/root/python"})


@fault(
    "two ranks fail before they hear of each other and one clock is hours ahead",
    Seen(7, "exit code 7", rank=True, text=f"its clock is {HOURS} s ahead"),
    setting=clock_ahead,
)
def _clocks(scene: Scene) -> None:
    """By the clocks as they go the other one was the first by three hours."""
    for link in ("management", "data"):
        scene.host.cut(link)
    scene.order(scene.rank, "sys.exit(7)")
    scene.until_ended(scene.rank)
    scene.order(scene.elsewhere, "sys.exit(9)")
    scene.until_ended(scene.elsewhere)
    scene.host.heal()
