"""Faults of ncclrun itself and of the machine and the terminal that it was typed on."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import LEASE, Scene
from tests.jobs.bench import run_directories

fault = Catalogue()

BEYOND_THE_LEASE = 20 * (LEASE + 2)
"""Steps of a rank; each takes a twentieth of a second, or a little more."""


@fault("ncclrun is killed and a new one attaches", Seen(), goes_on=True)
def _killed(scene: Scene) -> None:
    scene.kill_controller()
    scene.all_make_steps(20)
    scene.attach()


@fault("ncclrun is killed and another machine attaches", Seen(), goes_on=True)
def _killed_and_attached_elsewhere(scene: Scene) -> None:
    scene.kill_controller()
    scene.go_elsewhere()
    scene.attach()


@fault("ncclrun is killed and another machine stops the run", Seen(130))
def _killed_and_stopped_elsewhere(scene: Scene) -> None:
    scene.kill_controller()
    scene.go_elsewhere()
    stopped = scene.bench.run("stop", "--json", *scene.where)
    assert stopped.code == 0, stopped
    assert [row["confirmed"] for row in stopped.end["nodes"]] == [True] * 3


@fault("ncclrun is killed and two attach at once", Seen(), goes_on=True)
def _two_attach(scene: Scene) -> None:
    scene.kill_controller()
    scene.also.append(scene.attach())
    scene.attach()
    first, second = scene.bench.commands[-2:]
    scene.until(lambda: first.events("log") and second.events("log"))


@fault("ncclrun is halted for longer than the lease", Seen(), goes_on=True)
def _halted(scene: Scene) -> None:
    scene.press(signal.SIGSTOP)
    scene.all_make_steps(BEYOND_THE_LEASE)
    scene.press(signal.SIGCONT)


@fault("ncclrun gets SIGTERM", Seen(130, text="interrupted"))
def _terminated(scene: Scene) -> None:
    scene.press(signal.SIGTERM)


@fault("the terminal is closed", Seen(), goes_on=True)
def _hung_up(scene: Scene) -> None:
    scene.press(signal.SIGHUP)
    left = scene.leave()
    assert (left.code, left.end["reason"]) == (0, "detached"), left
    scene.attach()


@fault("Ctrl-C", Seen(130, text="interrupted"))
def _interrupted(scene: Scene) -> None:
    scene.press()


def _patient(scene: Scene) -> None:
    scene.yaml(launch={"lease": 60, "grace": 600})


def _defy(scene: Scene) -> None:
    """Has every rank ignore SIGTERM."""
    for rank in scene.ranks:
        scene.order(rank, "signal.signal(signal.SIGTERM, signal.SIG_IGN); say(b'defiant\\n'); order.unlink()")
    scene.until(lambda: all(b"defiant" in scene.written(rank) for rank in scene.ranks))


@fault("Ctrl-C twice, and the ranks ignore SIGTERM", Seen(130, text='"kill"'), setting=_patient)
def _interrupted_twice(scene: Scene) -> None:
    _defy(scene)
    scene.press()
    scene.until_said('"term"')
    scene.press()


@fault("Ctrl-C three times, and a node that is cut off hears nothing", Seen(130), setting=_patient)
def _interrupted_thrice(scene: Scene) -> None:
    _defy(scene)
    for link in ("management", "data"):
        scene.host.cut(link)
    for how in ("term", "kill"):
        scene.press()
        scene.until_said(f'"{how}"')
    scene.until(lambda: not any(scene.alive(host) for host in scene.others))
    scene.press()
    left = scene.leave()
    assert left.code == 130, left
    assert not left.end["nodes"][scene.target]["confirmed"], left
    assert scene.alive(scene.host)
    scene.host.heal()
    assert scene.bench.run("stop", "--kill").code == 0


@fault("Ctrl-C at any moment of the start", Seen(130), launches=True)
def _interrupted_early(scene: Scene) -> None:
    scene.launch()
    # From the first event on it hears Ctrl-C; before, it is Python's start that is interrupted.
    scene.until_said('"run"')
    time.sleep(random.uniform(0, 1.5))
    scene.press()


@fault("ncclrun is killed when a node is prepared", Seen((0, 255)), launches=True)
def _killed_before_the_start(scene: Scene) -> None:
    scene.launch()
    scene.until_said('"prepared"')
    scene.kill_controller()
    scene.finish()  # for the case that all were started a moment before


@fault("ncclrun is killed when a node has begun to start", Seen((0, 255)), launches=True)
def _killed_amid_the_start(scene: Scene) -> None:
    job = scene.launch()
    while not any((part / "control").exists() for host in scene.hosts for part in run_directories(host)):
        assert job.process.poll() is None, scene.said()
    scene.kill_controller()
    scene.finish()


def _to_a_reader(scene: Scene) -> None:
    scene.piped = True


@fault("the reader of the output goes away", Seen(), setting=_to_a_reader)
def _reader_gone(scene: Scene) -> None:
    assert scene.job is not None
    scene.job.end_reader()
    scene.all_make_steps(20)
    scene.finish()
    assert scene.leave().code == 0
    scene.go_elsewhere()


def _small_disk_here(scene: Scene) -> None:
    scene.bench.state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "fault", str(scene.bench.state)], check=True)
    scene.afterwards.callback(subprocess.run, ["umount", "-l", str(scene.bench.state)], check=True)


@fault("the disk here is full", Seen(), setting=_small_disk_here)
def _disk_full_here(scene: Scene) -> None:
    filler = scene.bench.state / "filler"
    _fill(filler)
    scene.until_said("this machine's disk does not take the logs")
    filler.unlink()
    scene.finish()
    assert scene.leave().code == 0


def _fill(path: Path) -> None:
    """Takes all the room that is left."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError as error:
            assert "No space left" in str(error)
