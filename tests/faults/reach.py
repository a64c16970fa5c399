"""Faults of the network between ncclrun and the nodes, of which nobody is told."""

from __future__ import annotations

from tests.cluster.network import MANAGEMENT_INTERFACE
from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene

fault = Catalogue()

MANY_LINES = 10000


@fault("the link to ncclrun is cut for a moment", Seen(), goes_on=True)
def _blip(scene: Scene) -> None:
    scene.host.cut("management")
    scene.all_make_steps(20)
    scene.host.heal("management")


@fault("all links to ncclrun are cut for a moment", Seen(), goes_on=True)
def _all_blip(scene: Scene) -> None:
    for host in scene.hosts:
        host.cut("management")
    scene.all_make_steps(20)
    for host in scene.hosts:
        host.heal("management")


@fault("all links to ncclrun are cut for longer than the lease", Seen(text="no node answers since"), goes_on=True)
def _all_cut(scene: Scene) -> None:
    for host in scene.hosts:
        host.cut("management")
    scene.until_said("no node answers since")
    # One after the other they come back, and nobody is lost for being the last.
    for host in scene.hosts:
        host.heal("management")
        scene.until(lambda name=host.name: name in scene.back())


@fault(
    "the link to ncclrun is cut for longer than the lease",
    Seen(text="but the other nodes hear it: the run goes on"),
    goes_on=True,
)
def _cut_from_here(scene: Scene) -> None:
    scene.host.cut("management")
    scene.until_said("but the other nodes hear it")
    scene.host.heal("management")
    scene.until_said("reachable again")


@fault("the link to ncclrun is slow, and much is printed", Seen(), goes_on=True)
def _slow(scene: Scene) -> None:
    device = f"dev {MANAGEMENT_INTERFACE} root"
    scene.shell(scene.host, f"tc qdisc add {device} tbf rate 8mbit burst 32kbit latency 400ms")
    scene.later(scene.host, f"tc qdisc del {device}")
    scene.order(scene.rank, f"for _ in range({MANY_LINES}): say(b'much ' * 20 + b'\\n')\norder.unlink()")
    scene.until(lambda: scene.steps(scene.rank) > MANY_LINES)


@fault("one packet of twenty to and from ncclrun is lost", Seen(), goes_on=True)
def _lossy(scene: Scene) -> None:
    scene.filter(scene.host, f"iifname {MANAGEMENT_INTERFACE} numgen random mod 20 == 0 drop")
    scene.filter(scene.host, f"oifname {MANAGEMENT_INTERFACE} numgen random mod 20 == 0 drop", "output")
    scene.all_make_steps(60)
