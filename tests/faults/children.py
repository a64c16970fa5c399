"""Faults that ranks leave behind: children that hide, that are many, that are born anew."""

from __future__ import annotations

import os
import signal

from tests.faults.fault import Catalogue, Seen
from tests.faults.ranks import FAILED, FAILS
from tests.faults.scene import Scene

fault = Catalogue()

SESSION = "subprocess.Popen(['sleep', '1000'], start_new_session=True)"
DEAF = """
if os.fork() == 0:
    os.setsid()
    for number in (1, 2, 15):
        signal.signal(number, signal.SIG_IGN)
    while True:
        signal.pause()
"""
NAMELESS = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 100)
        os.execve("/bin/sleep", ["sleep", "1000"], {})
    os._exit(0)
"""
# As setproctitle does it: what /proc shows as its environment is overwritten.
LOADERS = """
import ctypes, multiprocessing
def load():
    os.closerange(0, 100)
    os.setsid()
    start, end = map(int, open("/proc/self/stat").read().rpartition(")")[2].split()[47:49])
    ctypes.memset(start, 0, end - start)
    signal.pause()
fork = multiprocessing.get_context("fork")
loaders = [fork.Process(target=load, daemon=True) for _ in range(4)]
for loader in loaders:
    loader.start()
"""
MANY = """
for _ in range(200):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()
"""
# Nobody can signal it twice: it is another process each time.
BORN_ANEW = """
if os.fork() == 0:
    os.setsid()
    while True:
        if os.fork():
            os._exit(0)
        time.sleep(0.02)
"""
ZOMBIES = """
for _ in range(200):
    if os.fork() == 0:
        if os.fork():
            os._exit(0)
        time.sleep(0.1)
        os._exit(0)
"""


@fault("a rank fails and its children have hidden", FAILED)
def _hidden(scene: Scene) -> None:
    scene.do(scene.rank, SESSION + DEAF + NAMELESS)
    scene.order(scene.rank, FAILS)


@fault("a rank fails, other nodes' children have hidden and nobody watches", FAILED, controller="dead")
def _hidden_alone(scene: Scene) -> None:
    for rank in {scene.rank, scene.elsewhere}:
        scene.do(rank, SESSION + DEAF + NAMELESS)
    scene.order(scene.rank, FAILS)


@fault("a rank is killed over its data loader", Seen(137, "signal 9 (SIGKILL)", rank=True))
def _loader(scene: Scene) -> None:
    rank = scene.worker(scene.rank)
    scene.do(scene.rank, LOADERS)
    os.kill(rank, signal.SIGKILL)


@fault("all end well and their children have hidden", Seen(), goes_on=True)
def _good_end(scene: Scene) -> None:
    scene.do(scene.rank, SESSION + DEAF + NAMELESS + LOADERS)


@fault("a rank fails over 200 children", FAILED)
def _many(scene: Scene) -> None:
    scene.do(scene.rank, MANY)
    scene.order(scene.rank, FAILS)


@fault("a rank fails and its child is born anew for ever", FAILED)
def _born_anew(scene: Scene) -> None:
    scene.do(scene.rank, BORN_ANEW)
    scene.order(scene.rank, FAILS)


@fault("a pile of zombies", Seen(), goes_on=True)
def _zombies(scene: Scene) -> None:
    supervisor, rank = scene.supervisor(scene.host), scene.worker(scene.rank)
    scene.do(scene.rank, ZOMBIES)
    scene.until(lambda: scene.workers(scene.rank) == [rank])
    # Those of the rank are its own affair; the orphans are the supervisor's, which takes them all.
    scene.until(lambda: not scene.zombies(supervisor))
