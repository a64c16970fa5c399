"""Faults of networks: cut, reset and healed links between the nodes, and to ncclrun."""

from __future__ import annotations

import os
import signal

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene

fault = Catalogue()


@fault(
    "the data link is cut for longer than the lease", Seen(255, "lost to the other nodes", text="the data link is cut")
)
def _data(scene: Scene) -> None:
    scene.host.cut("data")


@fault("a supervisor is frozen", Seen(255, "lost to the other nodes", text="is halted by a signal (process state T)"))
def _frozen(scene: Scene) -> None:
    os.kill(scene.supervisor(scene.host), signal.SIGSTOP)


@fault("the link to ncclrun is cut for a moment", Seen(), goes_on=True)
def _blip(scene: Scene) -> None:
    scene.host.cut("management")
    scene.all_make_steps(20)
    scene.host.heal("management")
