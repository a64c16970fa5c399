"""Makes a fault and checks what must hold after each: nothing lives, ends are told, logs are whole, the cause is it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.host import Host
from tests.faults.fault import Fault
from tests.faults.scene import ENOUGH, Scene
from tests.jobs.bench import Bench, Done, Event, make_empty, run_directories, unfinished


@dataclass(frozen=True)
class Times:
    """Seconds from the harm; None where training went on, or nothing was started."""

    noticed: float | None = None
    """Until the first other host, or ncclrun, showed that it knows."""
    clean: float | None = None
    """Until no process of the run was left on any host that is on."""


def survive(bench: Bench, fault: Fault, target: int) -> Times:
    """Raises AssertionError where something that must hold does not."""
    scene = Scene(bench, fault, target)
    try:
        if fault.setting is not None:
            fault.setting(scene)
        if fault.before:
            _refused(scene)
            return Times()
        if not fault.launches:
            scene.start()
        scene.hit()
        fault.inject(scene)
        if fault.launches and not scene.is_started():
            _taken_back(scene)
            return Times()
        if fault.goes_on:
            scene.all_make_steps()
            scene.finish()
            times = Times()
            _until_nothing_lives(scene)
        else:
            times = _wait(scene)
        done = _end(scene)
        _nothing_is_left(scene)
        _ends_are_told(scene, done)
        _logs_are_whole(scene, done)
        _cause_is_it(scene, done)
        return times
    finally:
        _mend(scene)


def _refused(scene: Scene) -> None:
    """A fault that is there before the launch: the launch is refused and has left nothing."""
    there = _kept(scene)
    scene.hit()
    scene.fault.inject(scene)
    done = (scene.job or scene.launch()).wait()
    _has_code(scene, done)
    _text_is_said(scene, done)
    assert not done.of("log"), done
    if scene.fault.seen.on == "target":
        assert {event["node_rank"] for kind in ("unreachable", "refused") for event in done.of(kind)} <= {scene.target}
    _until_nothing_lives(scene)
    assert {place: kept for place, kept in _kept(scene).items() if kept != there[place]} == {}


def _taken_back(scene: Scene) -> None:
    """A start that was cut off before anything was started; who was killed over it can't say so."""
    if scene.job is not None:
        _has_code(scene, scene.job.wait())
        assert scene.bench.runs_here() == []
    _until_nothing_lives(scene)


def _kept(scene: Scene) -> dict[str, list[Path]]:
    """Directories of runs here and on each host that is on."""
    found = {host.name: run_directories(host) for host in scene.hosts if host.pid}
    return {**found, "here": scene.bench.runs_here()}


def _wait(scene: Scene) -> Times:
    """Looks on until nothing of the run lives, and notes when it was noticed."""
    noticed = None
    deadline = time.monotonic() + ENOUGH
    while True:
        if noticed is None and _is_noticed(scene):
            noticed = time.monotonic() - scene.hit_at
        if not any(scene.alive(host) for host in scene.hosts):
            clean = time.monotonic() - scene.hit_at
            return Times(clean if noticed is None else noticed, clean)
        assert time.monotonic() < deadline, {host.name: [p.command for p in host.processes()] for host in scene.hosts}
        time.sleep(0.05)


def _is_noticed(scene: Scene) -> bool:
    if scene.job is not None and (scene.job.events("stopping") or scene.job.events("end")):
        return True
    return any(scene.record(host) is not None for host in scene.others if host.pid)


def _until_nothing_lives(scene: Scene) -> None:
    _until_none(scene, scene.alive)


def _until_none(scene: Scene, find: Callable[[Host], Sequence[object]]) -> None:
    """Until nothing is found on any host."""
    deadline = time.monotonic() + ENOUGH
    while left := {host.name: found for host in scene.hosts if (found := find(host))}:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def _end(scene: Scene) -> Done:
    """The end as ncclrun tells it; where it was killed, and nothing else is to be seen, a new one tells it."""
    if scene.job is None:
        if not scene.fault.seen.unconfirmed:
            _power_on(scene)
        scene.attach()
    assert scene.job is not None
    done = scene.job.wait()
    assert [other.wait().code for other in scene.also] == [done.code] * len(scene.also)
    scene.done = done
    return done


def _nothing_is_left(scene: Scene) -> None:
    """Not even what had emptied its environment: nothing that did not come by an SSH session that is still there."""
    _until_none(scene, scene.left)


def _ends_are_told(scene: Scene, done: Done) -> None:
    """Each node has an end of its own, or is told to be unconfirmed, and only the one that was hit may be."""
    rows: list[Event] = done.end["nodes"]
    assert len(rows) == len(scene.hosts), done
    for row, host in zip(rows, scene.hosts, strict=True):
        if not row["confirmed"]:
            assert scene.fault.seen.unconfirmed, row
            assert host in scene.hit_hosts, row
        else:
            assert row["state"] in ("rebooted", "not started") or (run_directories(host) and not unfinished(host)), row


def _logs_are_whole(scene: Scene, done: Done) -> None:
    """What lies beside the controller is what the ranks printed, byte for byte.

    A rank may be killed between keeping a line and printing it; torchrun may start it again. Of a node that was hit
    hard, what came before counts.
    """
    _power_on(scene)
    for rank in scene.ranks:
        kept, here = scene.written(rank), scene.log_here(rank)
        at_target = scene.host_of(rank) in scene.hit_hosts
        if scene.fault.seen.logs == "beginning" and at_target:
            assert (here or scene.fault.launches) and kept.startswith(here), (rank, kept[-300:], here[-300:])
        elif scene.fault.seen.logs == "counted" and at_target:
            assert all(byte in (0, own) for byte, own in zip(here, kept, strict=False)), (rank, kept, here)
            missing, holes = kept[len(here) :], here.count(0)
            lost = (scene.record(scene.host) or {})["lost_bytes"].get(f"{rank % scene.nproc}.out", 0)
            assert holes <= lost, (rank, holes, lost, done)
            assert missing[(lost if holes == 0 else 0) :].count(b"\n") <= 1, (rank, lost, missing[:300], done)
        else:
            for life in scene.lives(rank):
                *sure, last = life.splitlines(keepends=True)
                assert here.startswith(b"".join(sure)), (rank, life[-300:], here[-300:], done)
                here = here.removeprefix(b"".join(sure)).removeprefix(last)
            assert not here, (rank, here[-300:], done)


def _cause_is_it(scene: Scene, done: Done) -> None:
    """The one cause is what was done."""
    seen = scene.fault.seen
    _has_code(scene, done)
    _text_is_said(scene, done)
    cause = done.end["cause"]
    if not seen.how:
        assert cause is None or (done.code and isinstance(seen.code, tuple)), cause
        return
    assert cause is not None, done
    assert seen.how in cause["how"], cause
    assert seen.exception in cause["exception"], cause
    if seen.on != "any":
        assert (cause["node_rank"] == scene.target) == (seen.on == "target"), cause
    if seen.rank:
        assert cause["rank"] == scene.rank, cause


def _text_is_said(scene: Scene, done: Done) -> None:
    text = scene.fault.seen.text.format(rank=scene.rank, node=scene.host.name)
    assert text in done.out + done.err, done


def _has_code(scene: Scene, done: Done) -> None:
    codes = scene.fault.seen.code
    assert done.code in ((codes,) if isinstance(codes, int) else codes), done
    assert done.code == done.end["exit_code"], done


def _power_on(scene: Scene) -> None:
    """Hosts that are off come back and cables are whole, as an administrator would see to it."""
    for host in scene.hosts:
        if host.pid is None:
            host.reboot()
        host.heal()


def _mend(scene: Scene) -> None:
    """Leaves the cluster as it was found."""
    scene.bench.close()
    _power_on(scene)
    scene.afterwards.close()
    for host in scene.hosts:
        scene.signal([process.pid for process in host.processes()], signal.SIGCONT)
        make_empty(host)
        assert unfinished(host) == []
