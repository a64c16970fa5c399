"""Faults of processes: ranks, supervisors, what serves ncclrun, and whoever else lives on a host."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import LEASE, Scene
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


# --- what a rank leaves


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
    supervisor = scene.supervisor(scene.host)
    scene.do(scene.rank, ZOMBIES)
    # Those of the rank are its own affair; the orphans are the supervisor's, which takes them all.
    scene.until(lambda: not scene.zombies(supervisor))


# --- ours


GONE = Seen(255, "supervisor lost")


@fault("a supervisor is killed", GONE)
def _supervisor(scene: Scene) -> None:
    scene.do(scene.rank, SESSION + DEAF)
    os.kill(scene.supervisor(scene.host), signal.SIGKILL)


@fault("a supervisor is killed and nobody watches", GONE, controller="dead")
def _supervisor_alone(scene: Scene) -> None:
    scene.do(scene.rank, SESSION + DEAF + NAMELESS + LOADERS)
    os.kill(scene.supervisor(scene.host), signal.SIGKILL)
    # Nobody comes by until then.
    scene.until(lambda: not any(scene.left(host) for host in scene.hosts))


@fault("a supervisor is killed with a child of a rank", GONE)
def _supervisor_and_child(scene: Scene) -> None:
    scene.do(scene.rank, SESSION + DEAF)
    (child,) = [process.pid for process in scene.host.processes() if process.command == "sleep 1000"]
    scene.signal([scene.supervisor(scene.host), child], signal.SIGKILL)


@fault("a supervisor is killed with its warden", GONE)
def _supervisor_and_warden(scene: Scene) -> None:
    scene.do(scene.rank, SESSION + DEAF)
    supervisor = scene.supervisor(scene.host)
    # The warden first: it would clear up.
    scene.signal([scene.warden(supervisor), supervisor], signal.SIGKILL)


@fault("two supervisors are killed", Seen(255, "supervisor lost", on="any"))
def _two_supervisors(scene: Scene) -> None:
    scene.signal([scene.supervisor(host) for host in (scene.host, scene.others[0])], signal.SIGKILL)


@fault("a supervisor is frozen for less than the lease", Seen(), goes_on=True)
def _supervisor_hangs(scene: Scene) -> None:
    supervisor = scene.supervisor(scene.host)
    os.kill(supervisor, signal.SIGSTOP)
    scene.all_make_steps(20)
    os.kill(supervisor, signal.SIGCONT)


@fault(
    "a supervisor is frozen for longer than the lease and nobody watches",
    Seen(255, "lost to the other nodes", exception="silent for"),
    controller="dead",
    targets=(1, 2),
)
def _supervisor_frozen(scene: Scene) -> None:
    supervisor = scene.supervisor(scene.host)
    os.kill(supervisor, signal.SIGSTOP)
    scene.until(lambda: all(scene.record(host) is not None for host in scene.others), LEASE * 10)
    os.kill(supervisor, signal.SIGCONT)


@fault("a node's part that serves ncclrun is killed", Seen(), goes_on=True)
def _serving(scene: Scene) -> None:
    before = scene.serving(scene.host)
    scene.signal(before, signal.SIGKILL)
    scene.until(lambda: set(scene.serving(scene.host)) - set(before))


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
