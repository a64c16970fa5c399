"""Faults of whole hosts: power, freezes, reboots."""

from __future__ import annotations

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene

fault = Catalogue()


@fault("a host loses its power", Seen(255, "host lost", unconfirmed=True, logs="beginning"))
def _power(scene: Scene) -> None:
    scene.host.kill()
