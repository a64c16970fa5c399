"""Faults of disks, files and output: training lives, what is lost is counted, and what is damaged is told."""

from __future__ import annotations

import random
import re
import signal
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


# --- output


FLOOD = "order.unlink(); [os.write(2, b'%07d' % n * 9362) for n in range({pieces})]"
"""An order: writes so many pieces of nearly 64 KiB to stderr, as fast as the pipe takes them, without a line feed."""


def flood(pieces: int) -> bytes:
    """What it writes."""
    return b"".join(b"%07d" % n * 9362 for n in range(pieces))


def flooded(scene: Scene, pieces: int) -> None:
    """The flood has come here as it was written."""
    (run,) = scene.bench.runs_here()
    here = run / "logs" / f"rank{scene.rank}.err"
    wanted = flood(pieces)
    scene.until(lambda: here.exists() and here.stat().st_size >= len(wanted))
    assert here.read_bytes() == wanted


@fault("a rank writes a line of 100 MB as fast as it can", Seen(), goes_on=True)
def _long_line(scene: Scene) -> None:
    scene.order(scene.rank, FLOOD.format(pieces=1600))
    scene.all_make_steps()
    flooded(scene, 1600)


@fault("ncclrun sleeps under a flood", Seen(), goes_on=True)
def _sleeps(scene: Scene) -> None:
    assert scene.job is not None
    scene.job.press(signal.SIGSTOP)
    scene.order(scene.rank, FLOOD.format(pieces=800))
    scene.all_make_steps(20)  # nobody waits for who does not read
    scene.job.press(signal.SIGCONT)
    flooded(scene, 800)


MIB = 1 << 20


def little_kept(scene: Scene) -> None:
    """A node keeps the least of its output that can be asked for."""
    scene.yaml(launch={"log_limit": "1MiB"})


def rotate(scene: Scene, pieces: int) -> None:
    """A flood far over the limit; returns when all of it was written, most of it given back, and nobody waited."""
    scene.order(scene.rank, FLOOD.format(pieces=pieces))
    log = scene.part(scene.host) / "logs" / f"{scene.nproc - 1}.err.log"
    scene.until(lambda: log.stat().st_size == len(flood(pieces)))
    scene.all_make_steps()
    assert log.stat().st_blocks * 512 < 3 * MIB


def rotated(scene: Scene, pieces: int) -> int:
    """The flood has come here as it was written but for what is missing: how much that is."""
    (run,) = scene.bench.runs_here()
    here = run / "logs" / f"rank{scene.rank}.err"
    wanted = flood(pieces)
    scene.until(lambda: here.exists() and here.stat().st_size >= len(wanted))
    got = here.read_bytes()
    assert got[-MIB:] == wanted[-MIB:]
    filled, missing = [], 0
    for hole in re.finditer(rb"[^\0]+|\0+", got):
        start, end = hole.span()
        filled.append(got[start:end] if got[start] else wanted[start:end])
        missing += 0 if got[start] else end - start
    assert b"".join(filled) == wanted
    told = scene.bench.run("logs", "--json", "--stream", "err", "--ranks", str(scene.rank))
    assert (missing > 0) == ("are not kept" in told.out), (missing, told.out[-500:])
    return missing


@fault(
    "ncclrun sleeps under more output than a node keeps",
    Seen(text="of rank {rank}'s stderr are not kept"),
    goes_on=True,
    setting=little_kept,
)
def _rotated_asleep(scene: Scene) -> None:
    assert scene.job is not None
    scene.job.press(signal.SIGSTOP)
    rotate(scene, 400)
    scene.job.press(signal.SIGCONT)
    assert rotated(scene, 400) > 0


@fault("a log is given back while it is fetched", Seen(), goes_on=True, setting=little_kept)
def _rotated_awake(scene: Scene) -> None:
    rotate(scene, 400)
    rotated(scene, 400)


@fault(
    "nobody watches more output than a node keeps",
    Seen(7, "exit code 7", rank=True, text="of rank {rank}'s stderr are not kept"),
    controller="dead",
    setting=little_kept,
)
def _rotated_alone(scene: Scene) -> None:
    rotate(scene, 400)
    scene.attach()
    assert rotated(scene, 400) > 20 * MIB
    scene.order(scene.rank, "sys.exit(7)")


@fault("a rank prints any bytes, split characters and escape sequences", Seen(), goes_on=True)
def _bytes(scene: Scene) -> None:
    raw = bytes(range(256)) * 3 + "é\x1b]0;title\x07\x1b[2J\x1b[5A".encode() + b"\xc3"
    scene.order(scene.rank, f"order.unlink(); say({raw!r}); time.sleep(0.2); say(b'\\xa9\\n')")
    scene.all_make_steps()


@fault("a rank shows its progress by carriage returns", Seen(), goes_on=True)
def _carriage_returns(scene: Scene) -> None:
    bar = "for n in range(200): say(b'\\r%d/200' % n); time.sleep(0.005)"
    scene.order(scene.rank, f"order.unlink()\n{bar}\nsay(b'\\n')")
    scene.all_make_steps()
