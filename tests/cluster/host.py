"""One test host: running things in it, looking at it from outside, and breaking it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.image import HOST_KEY, TRAINER, TRAINER_ID, make_key, shown_directories
from tests.cluster.network import Link, Wiring
from tests.cluster.registry import ClusterError

BOOT = Path(__file__).with_name("boot.sh")
USERS = {"root": (0, "/root"), TRAINER: (TRAINER_ID, f"/home/{TRAINER}")}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Process:
    """A process of a host, by its id outside, which is where the tests look from."""

    pid: int
    command: str


LISTENING = "Server listening on"
"""What sshd's log says each time it has begun to listen."""


class Host:
    """A host of the cluster; its files survive ``kill`` and ``reboot``, its processes don't."""

    port = 22

    def __init__(self, index: int, name: str, home: Path, wiring: Wiring) -> None:
        self.index = index
        self.name = name
        self._home = home
        self._wiring = wiring
        self.address = wiring.address(index)
        self.data_address = wiring.data_address(index)
        self.data_interface = wiring.data_interface(index)

    def __repr__(self) -> str:
        return f"<Host {self.index} {self.name} {self.address}>"

    # --- power

    def boot(self) -> None:
        """Starts the host's init (its sshd); ``wait_until_ready`` says when it answers."""
        for name in ("root", "work", "disk"):
            (self._home / name).mkdir(exist_ok=True)
        (self._home / "pid").unlink(missing_ok=True)
        (self._home / "boot_id").write_text(f"{uuid.uuid4()}\n")
        # setsid: no Ctrl-C of ours reaches the host, and it is nobody's child, so that it may outlive us.
        argv = ["setsid", "--fork", "nsenter", f"--net=/run/netns/{self._wiring.netns(self.index)}"]
        argv += ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
        argv += ["sh", str(BOOT), str(self._home), self.name, *shown_directories()]
        with (self._home / "sshd.log").open("ab") as log:
            subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True, cwd="/", env={"PATH": PATH}
            )

    def wait_until_ready(self, timeout: float = 30) -> None:
        """Returns when sshd sends its banner and the data link is up for the kernel, which looks once a second.

        Raises ClusterError with the end of sshd's log after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        while not answers(self.address, self.port) or not self._data_link_is_up():
            if time.monotonic() > deadline:
                raise ClusterError(f"{self.name} does not answer on {self.address}:\n{self.log()[-2000:]}")
            time.sleep(0.02)

    def _data_link_is_up(self) -> bool:
        return self.path(f"/sys/class/net/{self.data_interface}/operstate").read_text() == "up\n"

    @property
    def pid(self) -> int | None:
        """The init's process id as seen from here; None while the host is off."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            pid = int((self._home / "pid").read_text())
            # A number may have been given to another process since: our network is what tells.
            network = Path("/run/netns", self._wiring.netns(self.index)).stat().st_ino
            return pid if namespace(pid, "net") == network else None
        return None

    def kill(self) -> None:
        """A power cut: no packet leaves any more, every process is gone, nothing was said to anyone."""
        pid = self._running()
        self._wiring.power_off(self.index)
        end(pid)

    def reboot(self) -> None:
        """A new boot: another boot_id, no old process or connection, the same files. Power comes back if it was cut."""
        if self.pid is not None:
            self.kill()
        self._wiring.unplug(self.index)
        self._wiring.plug([self.index])
        self.boot()
        self.wait_until_ready()

    # --- cables and sshd

    def cut(self, link: Link) -> None:
        """Drops all packets of the ``management`` or the ``data`` link, both ways, silently."""
        self._wiring.cut(self.index, link)

    def heal(self, link: Link | None = None) -> None:
        """Lets packets through again (both links by default)."""
        for one in ("management", "data") if link is None else (link,):
            self._wiring.heal(self.index, one)

    def stop_sshd_sessions(self) -> int:
        """SIGSTOP to every sshd but init: TCP lives, nobody answers. Returns how many stand still now."""
        stopped = self._signal_sessions(signal.SIGSTOP)
        for pid in stopped:
            _wait_until_stopped(pid)
        return len(stopped)

    def continue_sshd_sessions(self) -> int:
        """SIGCONT to every sshd but init; returns how many there are."""
        return len(self._signal_sessions(signal.SIGCONT))

    def end_sshd_sessions(self) -> None:
        """SIGKILL to every sshd but init: the kernel closes their connections."""
        self._signal_sessions(signal.SIGKILL)

    def swap_host_key(self) -> None:
        """Gives sshd another host key, which no known_hosts has; open connections stay."""
        make_key(self.path(f"/{HOST_KEY}"), "swapped")
        self.reload_sshd()

    def reload_sshd(self) -> None:
        """Has sshd read its configuration and its key again; open connections stay."""
        before = self.log().count(LISTENING)
        os.kill(self._running(), signal.SIGHUP)
        # Until it has heard the signal the old one still answers, and then for a moment nobody.
        deadline = time.monotonic() + 30
        while self.log().count(LISTENING) <= before:
            if time.monotonic() > deadline:
                raise ClusterError(f"sshd of {self.name} did not start anew:\n{self.log()[-2000:]}")
            time.sleep(0.02)
        self.wait_until_ready()

    def public_host_key(self) -> str:
        """The host key in the form of known_hosts, ``ssh-ed25519 AAAA…``."""
        return " ".join((self._home / "disk" / f"{HOST_KEY}.pub").read_text().split()[:2])

    # --- processes

    def command(self, argv: Sequence[str], *, user: str = "root", env: dict[str, str] | None = None) -> list[str]:
        """The command line that runs ``argv`` inside the host, with a login's environment."""
        uid, home = USERS[user]
        enter = ["nsenter", f"--target={self._running()}", "--mount", "--uts", "--ipc", "--net", "--pid"]
        enter += [f"--setgid={uid}", f"--setuid={uid}", "--"]
        login = {"PATH": PATH, "HOME": home, "USER": user, "LOGNAME": user, **(env or {})}
        return [*enter, "env", "-i", f"--chdir={home}", *(f"{key}={value}" for key, value in login.items()), *argv]

    def exec(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        input: str | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 60,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Runs ``argv`` inside the host, not over SSH, and returns what it said."""
        command = self.command(argv, user=user, env=env)
        return subprocess.run(command, input=input, capture_output=True, text=True, timeout=timeout, check=check)

    def processes(self) -> list[Process]:
        """Everything that lives on the host, init and its sshd sessions included."""
        found = []
        for pid in self._pids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found.append(Process(pid, _words(pid, "cmdline")))
        return found

    def processes_with(self, text: str) -> list[Process]:
        """Processes that have ``text`` in their environment (a run's cookie, say)."""
        found = []
        for pid in self._pids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if text.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(Process(pid, _words(pid, "cmdline")))
        return found

    # --- files

    def path(self, path: str) -> Path:
        """Where a file of the running host is found from outside."""
        return Path(f"/proc/{self._running()}/root") / path.lstrip("/")

    def write(self, path: str, data: str | bytes, *, mode: int = 0o644, user: str = "root") -> Path:
        """Writes a file on the host, with its directories; returns where it is found from outside."""
        target = self.path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data if isinstance(data, bytes) else data.encode())
        target.chmod(mode)
        os.chown(target, USERS[user][0], USERS[user][0])
        return target

    def log(self) -> str:
        """What the host's sshd said, over all boots."""
        return (self._home / "sshd.log").read_text(errors="replace")

    def _running(self) -> int:
        if (pid := self.pid) is None:
            raise ClusterError(f"{self.name} is off")
        return pid

    def _pids(self) -> list[int]:
        """Ids of all processes in the host's pid namespace; none when it is off."""
        if (init := self.pid) is None:
            return []
        own = namespace(init, "pid")
        return [pid for pid in all_pids() if own is not None and namespace(pid, "pid") == own]

    def _signal_sessions(self, number: signal.Signals) -> list[int]:
        init = self._running()
        sessions = []
        for pid in self._pids():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may end at any moment
                if pid != init and _words(pid, "comm").startswith("sshd"):
                    os.kill(pid, number)
                    sessions.append(pid)
        return sessions


def _wait_until_stopped(pid: int) -> None:
    """Until a SIGSTOP has reached the process (a busy machine takes its time), or the process has ended."""
    deadline = time.monotonic() + 30
    while _state(pid) not in ("T", "Z", ""):
        if time.monotonic() > deadline:
            raise ClusterError(f"process {pid} did not stop")
        time.sleep(0.005)


def _state(pid: int) -> str:
    """The letter of /proc/PID/stat; "" for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def answers(address: str, port: int) -> bool:
    """Whether an SSH server sends its banner there within a second."""
    try:
        with socket.create_connection((address, port), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def all_pids() -> list[int]:
    """Ids of all processes of this machine."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def namespace(pid: int, kind: str) -> int | None:
    """Inode of the process's namespace; None when the process is gone (or a zombie that has left it)."""
    try:
        return Path(f"/proc/{pid}/ns/{kind}").stat().st_ino
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def end(pid: int, timeout: float = 10) -> None:
    """SIGKILLs the process and waits until it is dead; with an init the kernel ends all else in its namespace."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        if not select.select([handle], [], [], timeout)[0]:
            raise ClusterError(f"process {pid} outlives SIGKILL")
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def _words(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
