"""Faults of torchrun and of ranks that are bound together by gloo."""

from __future__ import annotations

import os
import signal

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene

fault = Catalogue(work="gloo", nodes=2, targets=(0, 1))
three = {"nodes": 3, "targets": (0, 1, 2)}


def elastic(scene: Scene) -> None:
    """torchrun may start all ranks once more."""
    scene.yaml(launch={"rendezvous": "c10d", "max_restarts": 1})


LOADER = """
from torch.utils.data import DataLoader
order.unlink()
for _ in DataLoader(range(10**6), num_workers=2):
    time.sleep(0.01)
"""
"""A rank reads on and on, by two children of its own."""


@fault("a rank of torchrun exits with 3", Seen(3, "exit code 3", rank=True), **three)
def _exits(scene: Scene) -> None:
    scene.order(scene.rank, "sys.exit(3)")


@fault(
    "a rank of torchrun raises and its stderr is gone",
    Seen(1, "exit code 1", rank=True, exception="ValueError: batch 7 is torn", text="Connection closed by peer"),
    **three,
)
def _raises(scene: Scene) -> None:
    """Only the file that torch writes tells of it."""
    scene.order(scene.rank, "os.close(2)\nraise ValueError('batch 7 is torn')")


@fault("a rank of torchrun is killed", Seen(137, "signal 9 (SIGKILL)", rank=True))
def _rank_killed(scene: Scene) -> None:
    os.kill(scene.worker(scene.rank), signal.SIGKILL)


@fault("the rank that all others meet at is killed", Seen(137, "signal 9 (SIGKILL)", rank=True), targets=(0,))
def _first_killed(scene: Scene) -> None:
    os.kill(scene.worker(scene.rank), signal.SIGKILL)


@fault("a rank of torchrun crashes", Seen(139, "signal 11 (SIGSEGV)", rank=True))
def _crashes(scene: Scene) -> None:
    os.kill(scene.worker(scene.rank), signal.SIGSEGV)


@fault("a rank aborts while another hangs and the third waits", Seen(134, "signal 6 (SIGABRT)", rank=True), **three)
def _aborts(scene: Scene) -> None:
    hangs = (scene.rank + 1) % len(scene.hosts)
    scene.order(hangs, "order.unlink()\ntime.sleep(1000)")
    scene.until_stands_still()
    os.kill(scene.worker(scene.rank), signal.SIGABRT)


@fault("a rank exits with 3 and nobody watches torchrun", Seen(3, "exit code 3", rank=True), controller="dead")
def _exits_alone(scene: Scene) -> None:
    scene.order(scene.rank, "sys.exit(3)")


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


@fault("the link between the nodes is cut for a moment", Seen(), goes_on=True)
def _blip(scene: Scene) -> None:
    scene.host.cut("data")
    scene.until_stands_still()
    scene.host.heal("data")


@fault("ncclrun is killed over a torchrun and a new one attaches", Seen(), goes_on=True)
def _attached(scene: Scene) -> None:
    scene.kill_controller()
    scene.all_make_steps(20)
    scene.attach()


@fault("Ctrl-C under a torchrun", Seen(130))
def _interrupted(scene: Scene) -> None:
    assert scene.job is not None
    scene.job.press()


ONCE = "order.unlink()\nsys.exit(3)"


def all_live_twice(scene: Scene) -> None:
    """Returns when torchrun has started all ranks again."""
    scene.until(lambda: all(len(scene.lives(rank)) == 2 for rank in scene.ranks))


@fault(
    "a rank never comes to the others",
    Seen(130, text="differs: is in <module>"),
    launches=True,
)
def _never_joins(scene: Scene) -> None:
    scene.order(scene.rank, "time.sleep(1000)")
    scene.options += ["--stall", "3s"]
    job = scene.launch()
    job.until_said("differs")
    job.press()


def loaders(scene: Scene) -> list[int]:
    """The processes that read for the rank, which waits for them."""
    scene.order(scene.rank, LOADER)
    found: list[int] = []
    worker = scene.worker(scene.rank)

    def both() -> bool:
        found[:] = scene.children(worker)
        return len(found) == 2

    scene.until(both)
    return found


@fault(
    "a data loader of a rank is killed",
    Seen(1, "exit code 1", rank=True, exception="is killed by signal: Killed"),
)
def _loader_killed(scene: Scene) -> None:
    os.kill(loaders(scene)[0], signal.SIGKILL)


@fault("a rank with data loaders is killed", Seen(137, "signal 9 (SIGKILL)", rank=True))
def _loaders_left(scene: Scene) -> None:
    worker = scene.worker(scene.rank)
    loaders(scene)
    os.kill(worker, signal.SIGKILL)


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
