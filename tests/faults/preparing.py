"""Faults that keep a node from preparing, or would make it prepare something wrong: nothing starts anywhere."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cluster.host import end
from tests.faults.fault import Catalogue, Seen
from tests.faults.scene import Scene
from tests.faults.starts import nothing
from tests.jobs.bench import eventually

fault = Catalogue()

JOB = "/root/job"
PORT = 29555


def bare_python(scene: Scene) -> None:
    """A Python of the training without its packages."""
    scene.host.write("/root/bare/python", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', mode=0o755)
    scene.yaml(nodes={scene.target: {"python": "/root/bare/python"}})


fault("one node has no torch", Seen(3, text='"no_torch"'), work="gloo", before=True)(bare_python)


@fault("one node has no Python for the training", Seen(3, text='"no_python"'), work="gloo", before=True)
def _no_python(scene: Scene) -> None:
    scene.yaml(nodes={scene.target: {"python": "/opt/nothing/python"}})


@fault("the Python of one node is of another age", Seen(3, text="too old"), work="gloo", before=True)
def _old_python(scene: Scene) -> None:
    told = 'ncclrun-python {"executable": "/root/old/python", "version": "3.6.9", "error": "Python 3.6.9 is too old"}'
    scene.host.write("/root/old/python", f"#!/bin/sh\n[ $1 = -c ] && echo '{told}'\n", mode=0o755)
    scene.yaml(nodes={scene.target: {"python": "/root/old/python"}})


@fault("the script is missing on one node", Seen(3, text='"no_script"'), work="gloo", before=True)
def _no_script(scene: Scene) -> None:
    for host in scene.hosts:
        scene.shell(host, f"mkdir -p {JOB}; rm -f {JOB}/worker.py")
        if host is not scene.host:
            host.write(f"{JOB}/worker.py", "")
    scene.yaml(launch={"workdir": JOB})


@fault("a stranger has the master's port", Seen(3, text="is taken by process"), before=True, targets=(0,))
def _port_taken(scene: Scene) -> None:
    program = f"import socket, time; s = socket.create_server(('', {PORT})); time.sleep(1000)"
    scene.shell(scene.host, f'{sys.executable} -c "{program}" </dev/null >/dev/null 2>&1 &')
    (stranger,) = [process.pid for process in scene.host.processes() if process.command.startswith(sys.executable)]
    scene.afterwards.callback(end, stranger)
    listening = f":{PORT:04X} 00000000:0000 0A"
    assert eventually(lambda: listening in Path(f"/proc/{stranger}/net/tcp").read_text())
    scene.options += ["--master-port", str(PORT)]


def block_lifeline(scene: Scene) -> None:
    """A firewall lets the master's port pass, and no other of those that ncclrun chooses from."""
    scene.options += ["--master-port", str(PORT)]
    scene.linked = False
    rule = f"add rule inet fault out tcp dport {{ 20000-{PORT - 1}, {PORT + 1}-32000 }} drop"
    table = "add table inet fault; add chain inet fault out { type filter hook output priority 0; }"
    scene.shell(scene.host, f"nft '{table}; {rule}'")
    scene.later(scene.host, "nft delete table inet fault")


fault(
    "a firewall shuts the lifeline's port",
    Seen(text="if this ncclrun goes away, a node that fails stops no other"),
    goes_on=True,
    targets=(1, 2),
    setting=block_lifeline,
)(nothing)


def earlier_run(scene: Scene) -> None:
    """A run of that name has ended on the host that is hit, started from elsewhere."""
    words = ("--run-id", "first", "--nodes", str(scene.target))
    elsewhere = {"XDG_STATE_HOME": str(scene.bench.directory / "elsewhere")}
    assert scene.bench.exec("true", options=words, env=elsewhere).code == 0
    scene.options += ["--run-id", "first"]


fault("one node knows the run id already", Seen(3, text='"run_exists"'), before=True, setting=earlier_run)(nothing)


@fault("one node's disk has no room for a run", Seen(3, text='"disk_full"'), before=True)
def _no_room(scene: Scene) -> None:
    scene.mount("/root/.local/state", "size=1m")


@fault("one node's disk takes no more files", Seen(3, text="more files"), before=True)
def _no_files(scene: Scene) -> None:
    scene.mount("/root/.local/state", "size=100m,nr_inodes=500")


def noexec(scene: Scene) -> None:
    """Nothing may be executed from the state directory."""
    scene.mount("/root/.local/state", "noexec")


@fault(
    "nothing may be executed from where runs are kept", Seen(7, "exit code 7", rank=True), work="gloo", setting=noexec
)
def _noexec(scene: Scene) -> None:
    scene.order(scene.rank, "os._exit(7)")


@fault("the data network's interface is down on one node", Seen(3), before=True)
def _interface_down(scene: Scene) -> None:
    device = scene.host.data_interface
    scene.shell(scene.host, f"ip link set {device} down")
    scene.afterwards.callback(scene.host.wait_until_ready)
    scene.later(scene.host, f"ip link set {device} up")
