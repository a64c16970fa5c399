"""Faults of output: whatever ranks print, and whoever reads how slowly, nobody waits, and what is not kept is told."""

from __future__ import annotations

import re
import signal

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene

fault = Catalogue()

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
