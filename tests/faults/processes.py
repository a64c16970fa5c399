"""Faults of processes: ranks, launchers, supervisors and their children."""

from __future__ import annotations

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene

fault = Catalogue()


@fault("a rank exits with 7", Seen(7, "exit code 7", rank=True))
def _exits(scene: Scene) -> None:
    scene.order(scene.rank, "sys.exit(7)")


@fault("a rank exits with 7 and nobody watches", Seen(7, "exit code 7", rank=True), controller="dead")
def _exits_alone(scene: Scene) -> None:
    scene.order(scene.rank, "sys.exit(7)")
