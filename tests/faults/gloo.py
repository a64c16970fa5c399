"""Faults of ranks that gloo binds together, under torchrun."""

from __future__ import annotations

import os
import signal

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene

fault = Catalogue(work="gloo", nodes=2, targets=(0, 1))
three = {"nodes": 3, "targets": (0, 1, 2)}

LOADER = """
from torch.utils.data import DataLoader
order.unlink()
for _ in DataLoader(range(10**6), num_workers=2):
    time.sleep(0.01)
"""
"""A rank reads on and on, by two children of its own."""


@fault("a rank of torchrun exits with 3", Seen(3, "exit code 3", rank=True), **three)
def _exits(scene: Scene) -> None:
    scene.order(scene.rank, "os._exit(3)")


@fault(
    "a rank of torchrun raises and its stderr is gone",
    Seen(1, "exit code 1", rank=True, exception="ValueError: batch 7 is torn"),
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
    scene.order(scene.rank, "os._exit(3)")


@fault("a rank never comes to the others", Seen(130, text="differs: is in <module>"), launches=True)
def _never_joins(scene: Scene) -> None:
    scene.order(scene.rank, "time.sleep(1000)")
    scene.options += ["--stall", "3s"]
    job = scene.launch()
    job.until_said("differs")
    job.press()


def loaders(scene: Scene) -> list[int]:
    """The processes that read for the rank, which waits for them."""
    worker = scene.worker(scene.rank)  # its children look like it
    scene.order(scene.rank, LOADER)
    scene.until(lambda: len(scene.children(worker)) == 2)
    return scene.children(worker)


@fault(
    "a data loader of a rank is killed",
    Seen(1, "exit code 1", rank=True, exception="RuntimeError: DataLoader worker"),
)
def _loader_killed(scene: Scene) -> None:
    os.kill(loaders(scene)[0], signal.SIGKILL)


@fault("a rank with data loaders is killed", Seen(137, "signal 9 (SIGKILL)", rank=True))
def _loaders_left(scene: Scene) -> None:
    worker = scene.worker(scene.rank)
    loaders(scene)
    os.kill(worker, signal.SIGKILL)
