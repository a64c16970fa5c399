"""Faults of disks and files: training lives, what is lost is counted, and what is damaged is told."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene
from tests.jobs.bench import run_directories, unfinished

fault = Catalogue()

STATE = "/root/.local/state"
BIG = 'order.unlink(); say(b"x" * 200000 + b"\\n")'
"""An order: more than is left of any page of a full disk."""


# --- disks


def small_disk(scene: Scene) -> None:
    """Just enough for a run to begin."""
    scene.mount(STATE, "size=66m")


def fill(directory: Path) -> None:
    """Takes all the bytes that a disk has left."""
    size = 1 << 20
    with (directory / "filler").open("wb", buffering=0) as file:
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2


def write_on(scene: Scene) -> None:
    """The rank that is hit writes more than a full disk takes, and then goes on."""
    scene.order(scene.rank, BIG)
    scene.all_make_steps()


@fault(
    "a node's disk fills up",
    Seen(text="bytes of log lost on the node", logs="counted"),
    goes_on=True,
    setting=small_disk,
)
def _full(scene: Scene) -> None:
    fill(scene.host.path(STATE))
    write_on(scene)


@fault(
    "a rank fails on a node whose disk is full, and nobody watches",
    Seen(7, "exit code 7", rank=True, text="bytes of log lost on the node", logs="counted"),
    controller="dead",
    setting=small_disk,
)
def _full_alone(scene: Scene) -> None:
    fill(scene.host.path(STATE))
    write_on(scene)
    scene.order(scene.rank, "sys.exit(7)")


def few_files(scene: Scene) -> None:
    """Just enough for a run to begin."""
    scene.mount(STATE, "size=100m,nr_inodes=1200")


@fault(
    "a node's disk takes no more files",
    Seen(7, "exit code 7", rank=True),
    controller="dead",
    setting=few_files,
)
def _no_files(scene: Scene) -> None:
    directory = scene.host.path(STATE)
    number = 0
    while True:
        try:
            (directory / f"filler{number}").touch()
        except OSError:
            break
        number += 1
    scene.all_make_steps()
    scene.order(scene.rank, "sys.exit(7)")


@fault(
    "a node's disk turns read-only",
    Seen(255, "host lost", text="Read-only file system", unconfirmed=True),
)
def _read_only(scene: Scene) -> None:
    """What is open can still be written to here; on a real one even that fails, which is the full disk."""
    scene.shell(scene.host, f"mount --bind {STATE} {STATE} && mount -o remount,bind,ro {STATE}")
    scene.later(scene.host, f"umount -l {STATE}")
    scene.all_make_steps()
    scene.finish()


# --- files that somebody, or a disk, has damaged


@fault("a node's state is garbage", Seen(), goes_on=True)
def _state_garbage(scene: Scene) -> None:
    (scene.part(scene.host) / "state.json").write_bytes(b"\0\xff{")
    scene.all_make_steps(20)


@fault("a node's state and claims are garbage when ncclrun attaches", Seen(), goes_on=True)
def _claims_garbage(scene: Scene) -> None:
    scene.kill_controller()
    part = scene.part(scene.host)
    (part / "state.json").write_bytes(b"")
    (part / "claims").mkdir(exist_ok=True)
    for name in ("7", "garbage", "\u00b2", "9" * 30):
        (part / "claims" / name).write_bytes(b"\xff")
    done = scene.bench.run("status", "--json")
    assert done.code == 0, done
    assert f'"{scene.host.name}"' in done.out, done
    scene.attach()
    scene.all_make_steps(20)


@fault("the end that a node wrote is garbage", Seen(255, "supervisor lost", text="is damaged"), controller="dead")
def _end_garbage(scene: Scene) -> None:
    scene.finish()
    scene.until(lambda: not any(unfinished(host) for host in scene.hosts))
    (scene.part(scene.host) / "exit.json").write_bytes(b'{"reas')


@fault(
    "power fails while the first states are written",
    Seen(255, "host lost", unconfirmed=True, logs="beginning"),
    launches=True,
)
def _power_at_start(scene: Scene) -> None:
    """At a moment of its first second, by chance."""
    job = scene.launch()
    job.until(lambda: job.events("node"))
    time.sleep(random.random())
    scene.host.kill()
    scene.host.reboot()
    done = scene.bench.run("status", "--json")
    assert "Traceback" not in done.err, done
    assert f'"{scene.host.name}"' in done.out, done


@fault(
    "a run's directory is deleted under it",
    Seen(text="bytes of log lost on the node"),
    goes_on=True,
)
def _deleted(scene: Scene) -> None:
    scene.shell(scene.host, f"rm -rf {STATE}/ncclrun")
    scene.until(lambda: run_directories(scene.host) and (scene.part(scene.host) / "control").exists())
    scene.all_make_steps(20)


@fault(
    "a run's directory is deleted before a new ncclrun attaches",
    Seen(7, "exit code 7", rank=True, text="bytes of log lost on the node", logs="counted"),
    controller="dead",
)
def _deleted_alone(scene: Scene) -> None:
    scene.shell(scene.host, f"rm -rf {STATE}/ncclrun")
    scene.until(lambda: run_directories(scene.host) and (scene.part(scene.host) / "control").exists())
    scene.attach()
    scene.all_make_steps()
    scene.order(scene.rank, "sys.exit(7)")
