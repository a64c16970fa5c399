"""Faults of the network that the nodes have among themselves."""

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


@fault(
    "the data link is cut for longer than the lease and nobody watches",
    Seen(255, "lost to the other nodes"),
    controller="dead",
)
def _data_alone(scene: Scene) -> None:
    scene.host.cut("data")


def _long_lease(scene: Scene) -> None:
    scene.yaml(launch={"lease": 60})


@fault("the data link is cut for a moment", Seen(), goes_on=True, setting=_long_lease)
def _data_blip(scene: Scene) -> None:
    scene.host.cut("data")
    scene.until(lambda: scene.silence() >= 2)
    scene.host.heal("data")
    scene.until(lambda: scene.silence() < 2)


@fault(
    "the data link is cut for a moment and nobody watches", Seen(), goes_on=True, setting=_long_lease, controller="dead"
)
def _data_blip_alone(scene: Scene) -> None:
    _data_blip(scene)


@fault("a supervisor is frozen", Seen(255, "lost to the other nodes", text="is halted by a signal (process state T)"))
def _frozen(scene: Scene) -> None:
    os.kill(scene.supervisor(scene.host), signal.SIGSTOP)
