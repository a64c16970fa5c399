"""Faults of what ncclrun runs on a host: supervisors, their wardens, and the part that serves ncclrun."""

from __future__ import annotations

import os
import signal

from tests.faults.children import DEAF, LOADERS, NAMELESS, SESSION
from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import LEASE, Scene

fault = Catalogue()

GONE = Seen(255, "supervisor lost")


@fault("a supervisor is killed", GONE)
def _supervisor(scene: Scene) -> None:
    scene.do(scene.rank, SESSION + DEAF)
    os.kill(scene.supervisor(scene.host), signal.SIGKILL)


@fault("a supervisor is killed and nobody watches", GONE, controller="dead")
def _supervisor_alone(scene: Scene) -> None:
    scene.do(scene.rank, SESSION + DEAF + NAMELESS + LOADERS)
    os.kill(scene.supervisor(scene.host), signal.SIGKILL)
    # Nobody comes by until then.
    scene.until(lambda: not any(scene.left(host) for host in scene.hosts))


@fault("a supervisor is killed with a child of a rank", GONE)
def _supervisor_and_child(scene: Scene) -> None:
    scene.do(scene.rank, SESSION + DEAF)
    (child,) = [process.pid for process in scene.host.processes() if process.command == "sleep 1000"]
    scene.signal([scene.supervisor(scene.host), child], signal.SIGKILL)


@fault("a supervisor is killed with its warden", GONE)
def _supervisor_and_warden(scene: Scene) -> None:
    scene.do(scene.rank, SESSION + DEAF)
    supervisor = scene.supervisor(scene.host)
    # The warden first: it would clear up.
    scene.signal([scene.warden(supervisor), supervisor], signal.SIGKILL)


@fault("two supervisors are killed", Seen(255, "supervisor lost", on="any"))
def _two_supervisors(scene: Scene) -> None:
    scene.signal([scene.supervisor(host) for host in (scene.host, scene.others[0])], signal.SIGKILL)


@fault("a supervisor is frozen for less than the lease", Seen(), goes_on=True)
def _supervisor_hangs(scene: Scene) -> None:
    supervisor = scene.supervisor(scene.host)
    os.kill(supervisor, signal.SIGSTOP)
    scene.all_make_steps(20)
    os.kill(supervisor, signal.SIGCONT)


@fault(
    "a supervisor is frozen for longer than the lease and nobody watches",
    Seen(255, "lost to the other nodes", exception="no ncclrun is there"),
    controller="dead",
)
def _supervisor_frozen(scene: Scene) -> None:
    supervisor = scene.supervisor(scene.host)
    os.kill(supervisor, signal.SIGSTOP)
    scene.until(lambda: all(scene.record(host) is not None for host in scene.others), LEASE * 10)
    os.kill(supervisor, signal.SIGCONT)


@fault("a node's part that serves ncclrun is killed", Seen(), goes_on=True)
def _serving(scene: Scene) -> None:
    before = scene.serving(scene.host)
    scene.signal(before, signal.SIGKILL)
    scene.until(lambda: set(scene.serving(scene.host)) - set(before))
