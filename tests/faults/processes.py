"""Faults of processes: ranks, launchers, supervisors and their children."""

from __future__ import annotations

import os
import signal

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene

fault = Catalogue()


@fault("a rank exits with 7", Seen(7, "exit code 7", rank=True))
def _exits(scene: Scene) -> None:
    scene.order(scene.rank, "sys.exit(7)")


@fault("a rank exits with 7 and nobody watches", Seen(7, "exit code 7", rank=True), controller="dead")
def _exits_alone(scene: Scene) -> None:
    scene.order(scene.rank, "sys.exit(7)")


@fault("a rank of torchrun is killed", Seen(137, "signal 9 (SIGKILL)", rank=True), work="gloo")
def _rank_killed(scene: Scene) -> None:
    os.kill(scene.worker(scene.rank), signal.SIGKILL)
