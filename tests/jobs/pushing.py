"""`ncclrun nccl push` that stands still at a chosen request, and what the hosts' conf files are then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.cluster.cluster import Cluster
from tests.jobs.bench import ROOT, Bench, Done, Running, eventually, strangers

PATHS = {"user": "/root/.nccl.conf", "system": "/etc/nccl.conf"}
ADMIN = b"\xef\xbb\xbf# of the administrator\r\nNCCL_IB_TIMEOUT=22\n odd = \xff\nno line feed"

# The real command line, of which the n-th request of a kind, and those behind it, wait for a file: the ones before have
# been answered then. What waits is not sent, whatever happens meanwhile.
STOPPING = f"""
import os, sys, threading, time
sys.path.insert(0, {str(ROOT)!r})
from ncclrun.transport.session import Session

do, nth, here = sys.argv[1], int(sys.argv[2]), sys.argv[3]
del sys.argv[1:4]
lock, call = threading.Lock(), Session.call
asked = answered = 0

def stopping(self, what, *args, **more):
    global asked, answered
    if what != do:
        return call(self, what, *args, **more)
    with lock:
        asked += 1
        number = asked
    if number >= nth:
        while answered < nth - 1:
            time.sleep(0.005)
        open(here, "w").close()
        while not os.path.exists(here + ".go"):
            time.sleep(0.01)
    try:
        return call(self, what, *args, **more)
    finally:
        with lock:
            answered += 1

Session.call = stopping
from ncclrun.cli.main import main
main()
"""
Step = tuple[str, int]
"""Before the n-th request of that kind."""
STEPS: dict[str, Step] = {
    "before all": ("conf_stage", 1),
    "between stages": ("conf_stage", 2),
    "before the commits": ("conf_commit", 1),
    "between commits": ("conf_commit", 2),
    "before the check": ("nccl", 1),
    "before the last look": ("conf_commit", 4),
    "before the finishes": ("conf_finish", 1),
    "between finishes": ("conf_finish", 3),
}


class Stopped:
    """A command that stands still, or has not come there yet."""

    def __init__(self, running: Running, here: Path) -> None:
        self.running = running
        self._here = here

    def wait(self) -> Stopped:
        """Until it stands still."""
        self.running.until(self._here.exists)
        return self

    def go_on(self, timeout: float = 120) -> Done:
        """Lets it go on to its end."""
        self._here.with_name(self._here.name + ".go").touch()
        return self.running.wait(timeout)

    def kill(self) -> None:
        """As a power cut of the controller's."""
        self.running.press(signal.SIGKILL)
        self.running.process.wait()


class Kept(NamedTuple):
    """What a restore must bring back, to everything that one can see."""

    data: bytes
    mode: int
    modified: int
    owner: tuple[int, int]


class Pushing:
    """Pushes to one file of each host of a bench."""

    def __init__(self, bench: Bench, deliver: str) -> None:
        self.bench = bench
        self.deliver = deliver
        self.path = PATHS[deliver]
        self.hosts = bench.cluster.hosts
        self.settings()

    def settings(self, user: str = "root", **env: str) -> None:
        """What the next push is to write; ``env`` goes over the network choice."""
        self.bench.yaml(nccl={"deliver": self.deliver, "env": env}, ssh={"user": user})

    # --- commands

    def run(self, verb: str, *options: str) -> Done:
        """`ncclrun nccl VERB --json`, to its end."""
        return self.bench.run("nccl", verb, "--json", *options, self.bench.file)

    def push(self, *options: str) -> Done:
        """One that succeeds."""
        return _good(self.run("push", "--yes", *options))

    def restore(self, *options: str) -> Done:
        """One that succeeds."""
        return _good(self.run("restore", "--yes", *options))

    def stopping(self, step: Step, verb: str = "push") -> Stopped:
        """A push that stands still there."""
        directory = self.bench.directory / f"stopped{len(self.bench.commands)}"
        directory.mkdir()
        here = directory / "here"
        words = ["nccl", verb, "--yes", "--json", self.bench.file]
        argv: list[Any] = [sys.executable, "-c", STOPPING, step[0], str(step[1]), str(here), *words]
        running = Running(argv, self.bench.work, self.bench.env, directory)
        self.bench.commands.append(running)
        return Stopped(running, here).wait()

    # --- files

    def file(self, host: int) -> Path:
        """The file as seen from outside."""
        return self.hosts[host].path(self.path)

    def content(self, host: int) -> bytes | None:
        """What it says; None: there is none."""
        file = self.file(host)
        return file.read_bytes() if file.exists() else None

    def contents(self) -> list[bytes | None]:
        """Of all hosts."""
        return [self.content(host) for host in range(len(self.hosts))]

    def beside(self, host: int) -> list[str]:
        """What of ours lies beside it."""
        return sorted(path.name for path in self.file(host).parent.glob(".nccl.conf.ncclrun*"))

    def administrators(self, host: int, data: bytes = ADMIN, mode: int = 0o640) -> None:
        """A file as somebody made it long ago."""
        file = self.file(host)
        file.write_bytes(data)
        file.chmod(mode)
        os.utime(file, ns=(10**18, 10**18 + 1))

    def kept(self, host: int) -> Kept | None:
        """All that must come back."""
        file = self.file(host)
        if not file.exists():
            return None
        status = file.stat()
        return Kept(file.read_bytes(), status.st_mode, status.st_mtime_ns, (status.st_uid, status.st_gid))

    def clean(self) -> None:
        """No file, and nothing beside it."""
        for host in range(len(self.hosts)):
            for left in [self.file(host), *self.file(host).parent.glob(".nccl.conf.ncclrun*")]:
                left.unlink(missing_ok=True)

    def nobody_is_at_work(self) -> None:
        """Waits until the node parts of commands that died have ended; a minute where the link was cut."""
        assert eventually(lambda: not any(map(strangers, self.hosts)), 90), [strangers(host) for host in self.hosts]


def _good(done: Done) -> Done:
    assert done.code == 0, done
    return done


# A mount of this machine's can't be bound in a host's mount namespace; a detached copy of it can be moved there.
_MOUNT = """
import ctypes, os, sys
pid, source, target = sys.argv[1:]
call = ctypes.CDLL(None, use_errno=True).syscall
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
OPEN_TREE, MOVE_MOUNT, AT_FDCWD, CLONE, EMPTY_PATH = 428, 429, -100, 1, 4
tree = checked(call(OPEN_TREE, AT_FDCWD, source.encode(), CLONE))
checked(ctypes.CDLL(None, use_errno=True).setns(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY), 0))
checked(call(MOVE_MOUNT, tree, b"", AT_FDCWD, target.encode(), EMPTY_PATH))
"""


def mount_in_all(cluster: Cluster, source: Path, target: str) -> None:
    """One directory of this machine in all hosts, as a file server's; gone with the hosts."""
    source.mkdir()
    for host in cluster.hosts:
        argv = [sys.executable, "-c", _MOUNT, str(host.pid), str(source), target]
        subprocess.run(argv, check=True)
