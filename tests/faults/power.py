"""Faults of hosts that lose their power or are rebooted."""

from __future__ import annotations

from dataclasses import replace

from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene

fault = Catalogue()

OFF = Seen(255, "host lost", unconfirmed=True, logs="beginning")
REBOOTED = Seen(255, "host lost", exception="the host was rebooted", logs="beginning")
ALL_REBOOTED = Seen(255, "host lost", on="any", exception="the host was rebooted", logs="beginning")

NO_ANSWER = "the other nodes do not hear it, and its host does not answer ncclrun"


@fault("a host loses its power", replace(OFF, text=NO_ANSWER))
def _power(scene: Scene) -> None:
    scene.host.kill()


@fault("a host loses its power and nobody watches", OFF, controller="dead")
def _power_alone(scene: Scene) -> None:
    scene.host.kill()


@fault("node 0 loses its power and nobody watches", OFF, controller="dead", targets=(0,))
def _first_power_alone(scene: Scene) -> None:
    scene.host.kill()


@fault("all hosts lose their power, and have it again", ALL_REBOOTED)
def _all_power(scene: Scene) -> None:
    scene.hit_hosts = scene.hosts
    for host in scene.hosts:
        host.kill()
    scene.until(lambda: "no node answers since" in scene.said())
    for host in scene.hosts:
        host.reboot()


@fault("all hosts lose their power and nobody watches", ALL_REBOOTED, controller="dead")
def _all_power_alone(scene: Scene) -> None:
    scene.hit_hosts = scene.hosts
    for host in scene.hosts:
        host.kill()


@fault("a host loses its power during a stop", Seen(7, "exit code 7", on="other", unconfirmed=True, logs="beginning"))
def _power_in_stop(scene: Scene) -> None:
    assert scene.job is not None
    scene.do(scene.rank, "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    scene.order(scene.elsewhere, "sys.exit(7)")
    scene.job.until(lambda: scene.job is not None and scene.job.events("stopping"))
    scene.host.kill()


@fault("a host is rebooted", REBOOTED)
def _reboot(scene: Scene) -> None:
    scene.host.reboot()


@fault("a host is rebooted and nobody watches", REBOOTED, controller="dead")
def _reboot_alone(scene: Scene) -> None:
    scene.host.reboot()
