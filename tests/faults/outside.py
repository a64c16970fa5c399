"""A run as it is seen from outside: its processes and files on the hosts, and the logs here."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.cluster.host import Host, all_pids
from tests.faults.workload import WRITTEN
from tests.jobs.bench import COOKIE, Bench, run_directories


class Outside:
    """One run on ``hosts``, with ``nproc`` ranks on each; ``target`` is the node_rank that is hit."""

    def __init__(self, bench: Bench, hosts: list[Host], nproc: int, target: int) -> None:
        self.bench = bench
        self.hosts = hosts
        self.nproc = nproc
        self.target = target

    def soon(self) -> float:
        """Unix time by which every rank has read its orders."""
        return time.time() + 1

    def host_of(self, rank: int) -> Host:
        """Where it runs."""
        return self.hosts[rank // self.nproc]

    def steps(self, rank: int) -> int:
        """How many lines the rank has written on its host."""
        return self.written(rank).count(b"\n")

    def written(self, rank: int) -> bytes:
        """All that the rank printed, as kept on its host (which must be on)."""
        file = self.host_of(rank).path(f"{WRITTEN}/{rank}.out")
        return file.read_bytes() if file.exists() else b""

    def lives(self, rank: int) -> list[bytes]:
        """What the rank printed each time that it was started, as far as it came to a first step."""
        first = b"rank %d step 0 " % rank
        return [first + rest for rest in self.written(rank).split(first)[1:]]

    def children(self, parent: int) -> list[int]:
        """Ids of the processes that a process has started and that live."""
        return [pid for pid in all_pids() if (stat := _stat(pid))[1] == parent and stat[2] != "Z"]

    def part(self, host: Host) -> Path:
        """The run's directory on that host."""
        (part,) = run_directories(host)
        return part

    def record(self, host: Host) -> dict[str, Any] | None:
        """The end as that host has written it; None where it has not."""
        parts = run_directories(host)
        if len(parts) != 1 or not (parts[0] / "exit.json").exists():
            return None
        record: dict[str, Any] = json.loads((parts[0] / "exit.json").read_text())
        return record

    def alive(self, host: Host) -> list[int]:
        """All processes of the run on that host, by the cookie; none where it is off."""
        return [process.pid for process in host.processes_with(COOKIE)]

    def left(self, host: Host) -> list[str]:
        """Commands of all that lives there, cookie or not, but sshd and what came by it; none where it is off."""
        return [
            p.command for p in host.processes() if not p.command.startswith("sshd") and not _came_by_ssh(p.pid, host)
        ]

    def worker(self, rank: int) -> int:
        """Its process id as seen from here."""
        (pid,) = self.workers(rank)
        return pid

    def workers(self, rank: int) -> list[int]:
        """Its process ids as seen from here: none when it has ended, several when it has forked."""
        return [
            process.pid
            for process in self.host_of(rank).processes_with(f"\0RANK={rank}\0")
            if "worker.py" in process.command and "torch.distributed.run" not in process.command
        ]

    def serving(self, host: Host) -> list[int]:
        """Processes there that came by SSH and are not sshd: node parts that serve a controller."""
        return [p.pid for p in host.processes() if not p.command.startswith("sshd") and _came_by_ssh(p.pid, host)]

    def torchrun(self, host: Host) -> int:
        """The launcher's process id there."""
        (pid,) = [process.pid for process in host.processes() if "torch.distributed.run" in process.command]
        return pid

    def supervisor(self, host: Host) -> int:
        """The process that has the run's control FIFO open."""
        control = (self.part(host) / "control").stat().st_ino
        for process in host.processes():
            for fd in Path(f"/proc/{process.pid}/fd").iterdir():
                if fd.exists() and fd.stat().st_ino == control:
                    return process.pid
        raise AssertionError(f"{host.name} has no supervisor")

    def zombies(self, parent: int) -> int:
        """How many children of a process wait for it to take their end."""
        return sum(_stat(pid)[1:] == (parent, "Z") for pid in all_pids())

    def warden(self, supervisor: int) -> int:
        """Its parent, which clears up after it."""
        return _stat(supervisor)[1]

    def are_linked(self) -> bool:
        """Whether node 0's supervisor hears all others."""
        parts = run_directories(self.hosts[0])
        if len(parts) != 1 or not (parts[0] / "peers.json").exists():
            return False
        heard = json.loads((parts[0] / "peers.json").read_text())
        return set(heard) >= {str(node_rank) for node_rank in range(1, len(self.hosts))}

    def silence(self) -> float:
        """For how many seconds another node has not heard the one that is hit, as it last said."""
        teller = self.hosts[0 if self.target else 1]
        heard: dict[str, float] = json.loads((self.part(teller) / "peers.json").read_text())
        return heard[str(self.target)]

    def log_here(self, rank: int) -> bytes:
        """A rank's stdout as it lies beside the controller."""
        (run,) = self.bench.runs_here()
        file = run / "logs" / f"rank{rank}.out"
        return file.read_bytes() if file.exists() else b""


def _came_by_ssh(pid: int, host: Host) -> bool:
    """Whether a session of the host's sshd is above it; orphans have only init above them, which is sshd itself."""
    _, above, _ = _stat(pid)
    while above > 1 and above != host.pid:
        name, above, _ = _stat(above)
        if name.startswith("sshd"):
            return True
    return False


def _stat(pid: int) -> tuple[str, int, str]:
    """Name, parent and state of a process; ("", 0, "") when it has ended."""
    try:
        before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except (FileNotFoundError, ProcessLookupError):
        return "", 0, ""
    state, parent = after.split()[:2]
    return before.partition("(")[2], int(parent), state
