"""Faults of networks: cut, reset and healed links between the nodes, and to ncclrun."""

from __future__ import annotations

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene

fault = Catalogue()


@fault("the link to ncclrun is cut for a moment", Seen(), goes_on=True)
def _blip(scene: Scene) -> None:
    scene.host.cut("management")
    scene.all_make_steps(20)
    scene.host.heal("management")
