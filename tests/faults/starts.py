"""Faults that are there before a launch or come amid it: nothing starts anywhere, or all goes well."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.host import Host, end
from tests.faults.fault import Catalogue, Harm, Seen
from tests.faults.scene import Scene
from tests.jobs.bench import NODE_STATE, SMI, Running, eventually, run_directories

fault = Catalogue()


def nothing(scene: Scene) -> None:
    """All the harm was done before the launch."""


# --- hosts that can't be reached


@fault("a host is off before the start", Seen(255, text='"unreachable"'), before=True)
def _off(scene: Scene) -> None:
    scene.yaml(ssh={"connect_timeout": 5})
    scene.host.kill()


@fault("sshd takes the connection and says nothing", Seen(255, text='"timeout"'), before=True)
def _mute(scene: Scene) -> None:
    scene.yaml(ssh={"connect_timeout": 5})
    init = scene.host.pid
    assert init
    os.kill(init, signal.SIGSTOP)
    scene.afterwards.callback(os.kill, init, signal.SIGCONT)


@fault("a host refuses the login", Seen(255, text='"auth"'), before=True)
def _login(scene: Scene) -> None:
    scene.yaml(nodes={scene.target: {"user": "nobody-of-that-name"}})


@fault("a host has another key than is known", Seen(255, text='"changed_key"'), before=True)
def _key(scene: Scene) -> None:
    known = scene.bench.directory / "known_hosts"
    own, other = scene.host.public_host_key(), scene.others[0].public_host_key()
    known.write_text(scene.cluster.known_hosts.read_text().replace(own, other))
    scene.yaml(ssh={"known_hosts": str(known)})


# --- what the login's files do


def login(text: str) -> Harm:
    """The files that a shell reads when sshd starts it, whichever it is, hold that text."""

    def write(scene: Scene) -> None:
        scene.yaml(ssh={"connect_timeout": 3})
        for name in (".bashrc", ".zshenv"):
            scene.host.write(f"/root/{name}", text)
            scene.later(scene.host, f"rm /root/{name}")

    return write


NOISE = "echo welcome; echo 0123 frames; printf '\\033[2J'; echo ncclrun: shell read; echo trouble >&2\n"

fault("the login's files print noise", Seen(), goes_on=True, setting=login(NOISE))(nothing)
fault("the login's files set a wrong PATH", Seen(), goes_on=True, setting=login("export PATH=/nowhere\n"))(nothing)
fault("the login's files end the shell", Seen(255, text="ended with status 0"), before=True)(login("exit 0\n"))
fault("the login's files hang", Seen(255, text="did not answer within"), before=True)(login("sleep 31\n"))


# --- others who are there


def give_gpus(hosts: Sequence[Host], scene: Scene) -> None:
    """Two GPUs on each of the hosts, as far as nvidia-smi tells."""
    for host in hosts:
        host.write("/usr/local/bin/nvidia-smi", SMI, mode=0o755)
        scene.later(host, "rm /usr/local/bin/nvidia-smi")


def sleeping(scene: Scene, run_id: str, *options: str) -> Running:
    """A launch of something that lives until it is stopped."""
    return scene.bench.start_exec("sleep", "1000", options=("--run-id", run_id, *options))


def runs(running: Running) -> bool:
    return any(event["state"] == "running" for event in running.events("node"))


def stop_and_forget(scene: Scene, running: Running, run_id: str) -> None:
    """As its owner would."""
    if running.process.poll() is None:
        running.press()
        assert running.wait().code == 130
    done = scene.bench.run("clean", "--yes", run_id)
    assert done.code == 0, done


@fault("another run of ours has one node's GPUs", Seen(3, text="GPUs 0, 1 are held by your run other"), before=True)
def _gpus_held(scene: Scene) -> None:
    give_gpus([scene.host], scene)
    other = sleeping(scene, "other", "--nodes", str(scene.target))
    other.until(lambda: runs(other))
    scene.launch().wait()
    stop_and_forget(scene, other, "other")


@fault("two launches at once want the same GPUs", Seen(3, on="any", text='"gpu_locked"'), before=True, targets=(0,))
def _two_at_once(scene: Scene) -> None:
    give_gpus(scene.hosts, scene)
    two = {name: sleeping(scene, name) for name in ("one", "other")}
    assert eventually(lambda: all(runs(one) or one.process.poll() is not None for one in two.values()), 60)
    losers = [name for name, one in two.items() if one.process.poll() is not None]
    assert len(losers) == 1, [one.so_far() for one in two.values()]
    scene.job = two.pop(losers[0])
    for name, winner in two.items():
        stop_and_forget(scene, winner, name)


@fault("something of a dead run lives on one node", Seen(3, text="your run dead is dead there"), before=True)
def _leftover(scene: Scene) -> None:
    dead = scene.bench.start_sh(
        "setsid sleep 1001 & sleep 1000", options=("--run-id", "dead", "--nodes", str(scene.target))
    )
    dead.until(lambda: runs(dead) and any(p.command == "sleep 1001" for p in scene.host.processes()))
    dead.process.kill()
    dead.wait()
    supervisor = scene.supervisor(scene.host)
    scene.signal([scene.warden(supervisor), supervisor], signal.SIGKILL)
    scene.launch().wait()
    assert scene.bench.run("stop", "dead").code == 0
    stop_and_forget(scene, dead, "dead")


# --- between the first word and the start


def hold_prepare(host: Host, scene: Scene) -> None:
    """PREPARE does not come to its end there: what it reads of another run is a pipe that nobody writes to."""
    scene.shell(host, f"mkdir -p {NODE_STATE}/runs/held/0-x && mkfifo {NODE_STATE}/runs/held/0-x/run.json")


def let_prepare(host: Host) -> None:
    """Lets it go on."""
    pipe = host.path(f"{NODE_STATE}/runs/held/0-x/run.json")
    fd = os.open(pipe, os.O_WRONLY)
    pipe.unlink()
    os.close(fd)


def parts(host: Host) -> list[Path]:
    """What there is of the run that is being prepared."""
    return [part for part in run_directories(host) if part.parent.name != "held"]


def node_parts(host: Host) -> set[int]:
    """Our processes there that serve the controller."""
    return {process.pid for process in host.processes() if "-I -S -X utf8 -u -c" in process.command}


def node_part(host: Host) -> int:
    """The one of them that speaks to it: that below sshd."""
    ours = node_parts(host)
    (found,) = [pid for pid in ours if parent(pid) not in ours]
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def hold_target(scene: Scene) -> None:
    hold_prepare(scene.host, scene)


def hold_another(scene: Scene) -> None:
    hold_prepare(scene.others[0], scene)


@fault("the node part is killed while it prepares", Seen(255), before=True, setting=hold_target)
def _node_part_killed(scene: Scene) -> None:
    job = scene.launch()
    job.until(lambda: parts(scene.host))
    end(node_part(scene.host))
    assert eventually(lambda: not node_parts(scene.host))
    (draft,) = parts(scene.host)
    shutil.rmtree(draft.parent)  # as `clean` does with drafts that are a day old


@fault("a host loses its power between PREPARE and START", Seen(255), before=True, setting=hold_another)
def _power_before_start(scene: Scene) -> None:
    job = scene.launch()
    job.until(lambda: any(event["node_rank"] == scene.target for event in job.events("prepared")))
    scene.host.kill()
    let_prepare(scene.others[0])
