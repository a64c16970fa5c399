"""Faults of torchrun itself, and of what lies around it."""

from __future__ import annotations

import os
import signal

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene

fault = Catalogue(work="gloo", nodes=2, targets=(0, 1))
three = {"nodes": 3, "targets": (0, 1, 2)}


def elastic(scene: Scene) -> None:
    """torchrun may start all ranks once more."""
    scene.yaml(launch={"max_restarts": 1})


@fault("torchrun is killed", Seen(137, "torchrun: signal 9 (SIGKILL)"), **three)
def _torchrun_killed(scene: Scene) -> None:
    os.kill(scene.torchrun(scene.host), signal.SIGKILL)


@fault("torchrun that holds the store is killed", Seen(137, "torchrun: signal 9 (SIGKILL)"), targets=(0,))
def _store_killed(scene: Scene) -> None:
    os.kill(scene.torchrun(scene.host), signal.SIGKILL)


@fault("torchrun is terminated by somebody else", Seen(143, "torchrun: signal 15 (SIGTERM)"))
def _torchrun_terminated(scene: Scene) -> None:
    os.kill(scene.torchrun(scene.host), signal.SIGTERM)


@fault("the supervisor of a torchrun is killed", Seen(255, "supervisor lost"))
def _supervisor_killed(scene: Scene) -> None:
    os.kill(scene.supervisor(scene.host), signal.SIGKILL)


@fault("a host of torchrun loses its power", Seen(255, "host lost", unconfirmed=True, logs="beginning"), **three)
def _power(scene: Scene) -> None:
    scene.host.kill()


@fault(
    "a host of torchrun loses its power and nobody watches",
    Seen(255, "host lost", unconfirmed=True, logs="beginning"),
    controller="dead",
)
def _power_alone(scene: Scene) -> None:
    scene.host.kill()


@fault("a host of torchrun is rebooted", Seen(255, "host lost", text="rebooted", logs="beginning"))
def _reboot(scene: Scene) -> None:
    scene.host.reboot()


def patient(scene: Scene) -> None:
    """The lease is longer than what gloo needs to notice that a link is back."""
    scene.yaml(launch={"lease": 60})


@fault("the link between the nodes is cut for a moment", Seen(), goes_on=True, setting=patient)
def _blip(scene: Scene) -> None:
    scene.host.cut("data")
    scene.until_stands_still()
    scene.host.heal("data")


@fault(
    "the link between the nodes is cut for longer than the lease",
    Seen(255, "lost to the other nodes", on="any", text="the data link is cut"),
)
def _cut(scene: Scene) -> None:
    scene.host.cut("data")


@fault("ncclrun is killed over a torchrun and a new one attaches", Seen(), goes_on=True)
def _attached(scene: Scene) -> None:
    scene.kill_controller()
    scene.all_make_steps(20)
    scene.attach()


@fault("Ctrl-C under a torchrun", Seen(130))
def _interrupted(scene: Scene) -> None:
    assert scene.job is not None
    scene.job.press()


ONCE = "order.unlink()\nos._exit(3)"  # as torch may abort at an interpreter's end that comes early


def all_live_twice(scene: Scene) -> None:
    """Returns when torchrun has started all ranks again."""
    scene.until(lambda: all(len(scene.lives(rank)) == 2 for rank in scene.ranks))


@fault("a rank fails once under c10d", Seen(), goes_on=True, setting=elastic)
def _elastic(scene: Scene) -> None:
    scene.order(scene.rank, ONCE)
    all_live_twice(scene)


@fault("a rank fails twice under c10d with one restart", Seen(3, "exit code 3", rank=True), setting=elastic)
def _fails_twice(scene: Scene) -> None:
    scene.order(scene.rank, ONCE)
    all_live_twice(scene)
    scene.hit()
    scene.order(scene.rank, ONCE)


@fault("an agent of c10d is killed", Seen(137, "torchrun: signal 9 (SIGKILL)"), setting=elastic)
def _agent_killed(scene: Scene) -> None:
    os.kill(scene.torchrun(scene.host), signal.SIGKILL)
