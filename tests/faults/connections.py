"""Faults of the SSH connections of ncclrun, and of the sshd behind them."""

from __future__ import annotations

import signal
import socket

from tests.cluster.image import HOST_KEY
from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene

fault = Catalogue()


@fault("all connections are reset and new ones refused for a moment", Seen(), goes_on=True)
def _reset(scene: Scene) -> None:
    for host in scene.hosts:
        scene.filter(host, "tcp dport 22 reject with tcp reset")
    scene.until(lambda: {host.name for host in scene.hosts} == scene.unknown())
    for host in scene.hosts:
        scene.unfilter(host)
    scene.until_said("reachable again", len(scene.hosts))


@fault("sshd stands still", Seen(), goes_on=True)
def _sshd_halted(scene: Scene) -> None:
    assert scene.host.stop_sshd_sessions()
    scene.until(scene.unknown)
    scene.host.continue_sshd_sessions()
    scene.until_said("reachable again")


@fault("sshd's sessions are killed and it listens no more for a while", Seen(), goes_on=True)
def _sshd_gone(scene: Scene) -> None:
    scene.filter(scene.host, "tcp dport 22 tcp flags syn reject with tcp reset")
    scene.host.end_sshd_sessions()
    scene.until(scene.unknown)
    scene.all_make_steps(40)
    scene.unfilter(scene.host)
    scene.until_said("reachable again")


@fault("the host key is another one when the link comes back", Seen(text="ssh-keygen"), goes_on=True)
def _key_swapped(scene: Scene) -> None:
    files = [scene.host.path(f"/{HOST_KEY}{suffix}") for suffix in ("", ".pub")]
    kept = [(file, file.read_bytes()) for file in files]

    def restore() -> None:
        for file, data in kept:
            file.write_bytes(data)
        scene.host.reload_sshd()

    scene.afterwards.callback(restore)
    scene.host.swap_host_key()
    scene.host.end_sshd_sessions()
    scene.until_said("but the other nodes hear it")
    assert "reachable again" not in scene.said()
    restore()
    scene.until_said("reachable again")


def _one_at_a_time(scene: Scene) -> None:
    """sshd takes one session a connection, and no newcomer while one has not logged in."""
    file = scene.host.path("/etc/ssh/sshd_config")
    before = file.read_text()

    def restore() -> None:
        file.write_text(before)
        scene.host.reload_sshd()

    scene.afterwards.callback(restore)
    file.write_text(f"MaxStartups 1\nMaxSessions 1\n{before}")
    scene.host.reload_sshd()


@fault("sshd turns newcomers away when the link comes back", Seen(), goes_on=True, setting=_one_at_a_time)
def _turned_away(scene: Scene) -> None:
    sessions = [process.pid for process in scene.host.processes() if process.command.startswith("sshd")]
    with socket.create_connection((scene.host.address, scene.host.port)) as stranger:
        assert stranger.recv(4) == b"SSH-"
        scene.signal([pid for pid in sessions if pid != scene.host.pid], signal.SIGKILL)
        scene.until(lambda: "MaxStartups" in scene.host.log())
        scene.all_make_steps(20)
        assert "reachable again" not in scene.said()
    scene.until_said("reachable again")
