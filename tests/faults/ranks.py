"""Faults of ranks: how they end, do not end, and say nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene
from tests.jobs.bench import eventually

fault = Catalogue()

FAILS = "sys.exit(7)"
FAILED = Seen(7, "exit code 7", rank=True)
OTHER_FAILED = Seen(7, "exit code 7", on="other")


# --- one rank


@fault("a rank exits with 7", FAILED)
def _exits(scene: Scene) -> None:
    scene.order(scene.rank, FAILS)


@fault("a rank exits with 7 and nobody watches", FAILED, controller="dead")
def _exits_alone(scene: Scene) -> None:
    scene.order(scene.rank, FAILS)


@fault("a rank raises", Seen(1, "exit code 1", rank=True, exception="ValueError: no such batch"))
def _raises(scene: Scene) -> None:
    scene.order(scene.rank, "raise ValueError('no such batch')")


@fault("a rank crashes", Seen(139, "signal 11 (SIGSEGV)", rank=True))
def _crashes(scene: Scene) -> None:
    scene.order(scene.rank, "import ctypes; ctypes.string_at(0)")


@fault("a rank aborts and nobody watches", Seen(134, "signal 6 (SIGABRT)", rank=True), controller="dead")
def _aborts(scene: Scene) -> None:
    scene.order(scene.rank, "os.abort()")


@fault("somebody else ends a rank", Seen(143, "signal 15 (SIGTERM)", rank=True))
def _terminated(scene: Scene) -> None:
    os.kill(scene.worker(scene.rank), signal.SIGTERM)


MEMORY = Path("/sys/fs/cgroup/memory")


if MEMORY.is_dir():

    @fault("a rank takes more memory than it may", Seen(137, "signal 9 (SIGKILL), out of memory", rank=True))
    def _out_of_memory(scene: Scene) -> None:
        group = MEMORY / f"ncclrun-tests-{scene.cluster.tag}"
        group.mkdir()
        try:
            (group / "memory.limit_in_bytes").write_text(str(64 << 20))
            (group / "cgroup.procs").write_text(str(scene.worker(scene.rank)))
            scene.order(scene.rank, "b'x' * (256 << 20)")
            scene.until_ended(scene.rank)
        finally:
            assert eventually(lambda: (group / "cgroup.procs").read_text() == "")
            group.rmdir()


# --- ranks that do not go when others fail


@fault("a rank ignores SIGTERM when another fails", OTHER_FAILED)
def _ignores(scene: Scene) -> None:
    scene.do(scene.rank, "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    scene.order(scene.elsewhere, FAILS)


@fault("a rank is frozen when another fails", OTHER_FAILED)
def _frozen(scene: Scene) -> None:
    os.kill(scene.worker(scene.rank), signal.SIGSTOP)
    scene.order(scene.elsewhere, FAILS)


@fault("a rank is frozen when another fails and nobody watches", OTHER_FAILED, controller="dead")
def _frozen_alone(scene: Scene) -> None:
    os.kill(scene.worker(scene.rank), signal.SIGSTOP)
    scene.order(scene.elsewhere, FAILS)


@fault("torchrun is frozen when a rank elsewhere fails", OTHER_FAILED, work="gloo", nodes=2, targets=(0, 1))
def _torchrun_frozen(scene: Scene) -> None:
    os.kill(scene.torchrun(scene.host), signal.SIGSTOP)
    scene.order(scene.elsewhere, "os._exit(7)")


@fault("two ranks on two nodes fail within two steps", FAILED)
def _two_fail(scene: Scene) -> None:
    at = scene.soon()
    scene.order(scene.rank, f"time.sleep({at} - time.time()); os._exit(7)")
    scene.order(scene.elsewhere, f"time.sleep({at} + 0.1 - time.time()); os._exit(9)")


# --- ranks that end well


@fault("rank 0 of a node ends early", Seen(), goes_on=True)
def _early(scene: Scene) -> None:
    scene.ends(scene.target * scene.nproc)


@fault("all but one rank end early", Seen(), goes_on=True)
def _late(scene: Scene) -> None:
    for rank in scene.ranks:
        if rank != scene.rank:
            scene.ends(rank)


@fault("all but one node end early and nobody watches", Seen(), controller="dead", goes_on=True)
def _late_alone(scene: Scene) -> None:
    for rank in scene.ranks:
        if scene.host_of(rank) is not scene.host:
            scene.ends(rank)


@fault("a rank closes its stdout", Seen(), goes_on=True)
def _closes(scene: Scene) -> None:
    scene.order(scene.rank, "order.unlink(); os.close(1); say = lambda line: None; open('/tmp/closed', 'w')")
    scene.quiet.add(scene.rank)
    closed = scene.host.path("/tmp/closed")
    scene.until(closed.exists)
    closed.unlink()


@fault("a child of a rank goes on printing after the rank has ended", Seen(), goes_on=True)
def _prints_on(scene: Scene) -> None:
    rank = scene.worker(scene.rank)
    scene.order(scene.rank, "order.unlink()\nif os.fork(): os._exit(0)")
    scene.until(lambda: rank not in scene.workers(scene.rank))


# --- silence


ASLEEP = "def asleep():\n    time.sleep(1000)\nasleep()"
WAITS = "def waits():\n    time.sleep(1000)\nwaits()"


def _watched(scene: Scene) -> None:
    scene.options += ["--stall", "3s", "--stall-action", "stop"]


@fault(
    "one rank sleeps and the others wait for it",
    Seen(123, text="rank {rank} on {node} differs: is in asleep"),
    setting=_watched,
)
def _stalls(scene: Scene) -> None:
    for rank in scene.ranks:
        scene.order(rank, ASLEEP if rank == scene.rank else WAITS)
