"""Faults of ncclrun itself and of the machine and the terminal that it was typed on."""

from __future__ import annotations

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene

fault = Catalogue()


@fault("ncclrun is killed and a new one attaches", Seen(), goes_on=True)
def _killed(scene: Scene) -> None:
    scene.kill_controller()
    scene.all_make_steps(20)
    scene.attach()
