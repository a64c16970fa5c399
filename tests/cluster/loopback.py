"""The small cluster for those who are not root: a real sshd on 127.0.0.N a host, all with this machine's files."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.cluster.host import Process, all_pids, answers
from tests.cluster.image import DEFAULTS, Sshd, make_key, sshd_config
from tests.cluster.registry import ClusterError
from tests.cluster.spec import cluster_yaml, write_client_files

SSHD = "/usr/sbin/sshd"


def why_not() -> str:
    """Why there can be no loopback cluster here; "" when there can be one."""
    missing = [tool for tool in (SSHD, "ssh-keygen") if not shutil.which(tool)]
    return f"the loopback cluster needs openssh-server; not found: {', '.join(missing)}" if missing else ""


class LoopbackHost:
    """An sshd of the user who runs the tests; network and processes are the machine's own."""

    data_interface = "lo"

    def __init__(self, index: int, home: Path) -> None:
        self.index = index
        self.name = f"node{index}"
        self.address = self.data_address = f"127.0.0.{index + 10}"
        self.home = home
        self.port = _free_port(self.address)
        self._sshd: subprocess.Popen[bytes] | None = None

    def boot(self, sshd: Sshd | None = None) -> None:
        """Starts the sshd, with these keywords of sshd_config besides the usual ones if it is the first time."""
        config = self.home / "sshd_config"
        if not config.exists():
            make_key(self.home / "host_key", self.name)
            own = {
                "Port": str(self.port),
                "ListenAddress": self.address,
                "HostKey": str(self.home / "host_key"),
                "AuthorizedKeysFile": str(self.home.parent / "id_ed25519.pub"),
                "StrictModes": "no",  # the temporary directory's parents are not ours to judge
            }
            config.write_text(sshd_config({**DEFAULTS, **own, **(sshd or {})}))
        with (self.home / "sshd.log").open("ab") as log:
            self._sshd = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 30
        while not answers(self.address, self.port):
            if time.monotonic() > deadline or self._sshd.poll() is not None:
                raise ClusterError(
                    f"{self.name} does not answer on {self.address} port {self.port}:\n{self.log()[-2000:]}"
                )
            time.sleep(0.02)

    @property
    def pid(self) -> int | None:
        """The sshd's process id; None while it is off."""
        return self._sshd.pid if self._sshd is not None and self._sshd.poll() is None else None

    def kill(self) -> None:
        """SIGKILL to the sshd and all that descends from it; unlike at a power cut, peers see their connections end."""
        if self._sshd is None:
            return
        for pid in [self._sshd.pid, *_descendants(self._sshd.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._sshd.wait()
        self._sshd = None

    def reboot(self) -> None:
        """Another sshd at the same address; the boot_id is this machine's and stays."""
        self.kill()
        self.boot()

    def stop_sshd_sessions(self) -> int:
        """SIGSTOP to the sshd's sessions: TCP lives, nobody answers. Returns how many were stopped."""
        return self._signal_sessions(signal.SIGSTOP)

    def continue_sshd_sessions(self) -> int:
        """SIGCONT to the sshd's sessions; returns how many there are."""
        return self._signal_sessions(signal.SIGCONT)

    def swap_host_key(self) -> None:
        """Gives sshd another host key, which no known_hosts has."""
        make_key(self.home / "host_key", "swapped")
        self.reboot()

    def public_host_key(self) -> str:
        """The host key in the form of known_hosts, ``ssh-ed25519 AAAA…``."""
        return " ".join((self.home / "host_key.pub").read_text().split()[:2])

    def exec(
        self, argv: Sequence[str], *, timeout: float = 60, check: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Runs ``argv`` on this machine."""
        return subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=check)

    def processes_with(self, text: str) -> list[Process]:
        """Processes of the user, on whichever host of the cluster, that have ``text`` in their environment."""
        found = []
        for pid in all_pids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                if text.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                    found.append(Process(pid, words.decode(errors="replace").strip()))
        return found

    def path(self, path: str) -> Path:
        """The file itself."""
        return Path(path)

    def log(self) -> str:
        """What the sshd said."""
        return (self.home / "sshd.log").read_text(errors="replace")

    def _signal_sessions(self, number: signal.Signals) -> int:
        if self._sshd is None:
            raise ClusterError(f"{self.name} is off")
        reached = 0
        for pid in _descendants(self._sshd.pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended while we looked
                if Path(f"/proc/{pid}/comm").read_text().startswith("sshd"):
                    os.kill(pid, number)
                    reached += 1
        return reached


class Loopback:
    """A cluster of ``count`` such hosts; the same ways in as ``Cluster``, as far as one machine without root goes."""

    def __init__(self, count: int, *, sshd: Sshd | None = None) -> None:
        self.count = count
        self.user = getpass.getuser()
        self.hosts: list[LoopbackHost] = []
        self._sshd = sshd
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    @property
    def home(self) -> Path:
        """The directory with id_ed25519, known_hosts and ssh_config."""
        if self._directory is None:
            raise ClusterError("the loopback cluster is down")
        return Path(self._directory.name)

    def __enter__(self) -> Loopback:
        return self.up()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def up(self) -> Loopback:
        """Starts all and returns when they answer."""
        if reason := why_not():
            raise ClusterError(reason)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # an sshd of root insists on it
        self._directory = tempfile.TemporaryDirectory(prefix="ncclrun-loopback-")
        make_key(self.home / "id_ed25519", "test cluster")
        try:
            for index in range(self.count):
                (self.home / f"node{index}").mkdir()
                self.hosts.append(LoopbackHost(index, self.home / f"node{index}"))
                self.hosts[-1].boot(self._sshd)
        except BaseException:
            self.down()
            raise
        write_client_files(self.home, self.hosts, self.user)
        return self

    def down(self) -> None:
        """Ends every sshd and its sessions; safe to call twice."""
        for host in self.hosts:
            host.kill()
        self.hosts = []
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def yaml(self, **extra: Any) -> str:
        """Text of a cluster file for all hosts; see ``spec.cluster_yaml`` for ``extra``."""
        return cluster_yaml("loopback", self.hosts, self.home, self.user, extra)

    def write_yaml(self, directory: Path, **extra: Any) -> Path:
        """Writes ``cluster.yaml`` into the directory and returns its path."""
        path = directory / "cluster.yaml"
        path.write_text(self.yaml(**extra))
        return path


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def _descendants(pid: int) -> list[int]:
    """Children, grandchildren and so on; what was orphaned before is not among them."""
    parents = {}
    for other in all_pids():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            parents[other] = int(Path(f"/proc/{other}/stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return found[1:]
