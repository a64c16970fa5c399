"""A run that a fault hits: how it is started, what is done to it, and what is waited for."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.cluster.host import Host
from tests.faults.fault import Fault
from tests.faults.outside import Outside
from tests.faults.workload import ORDERS, WRITTEN, script
from tests.jobs.bench import Bench, Done, Running, eventually, make_empty, run_directories

LEASE = 5
GRACE = 1
NO_FILTER = "nft 'add table inet fault; delete table inet fault'"
ENOUGH = 90.0
"""Seconds, for what takes the lease, the grace and a little: the machine may be busy."""


class Scene(Outside):
    """One run on the bench's hosts, with as many ranks on the node that is hit as on every other.

    ``target`` is the node_rank that is hit, ``rank`` the rank there that is (its last one).
    """

    def __init__(self, bench: Bench, fault: Fault, target: int) -> None:
        hosts, nproc = bench.cluster.hosts[: fault.nodes], 1 if fault.work == "gloo" else 2
        super().__init__(bench, hosts, nproc, target)
        self.fault = fault
        self.cluster = bench.cluster
        self.host: Host = self.hosts[target]
        self.others = [host for host in self.hosts if host is not self.host]
        self.hit_hosts = [self.host]
        """What was hit; a fault that hits more than one adds them."""
        self.rank = (target + 1) * self.nproc - 1
        self.elsewhere = (target + 1) % len(self.hosts) * self.nproc
        """A rank of another node."""
        self.ranks = range(len(self.hosts) * self.nproc)
        self.options = ["--nodes", f"0-{fault.nodes - 1}"]
        """Of the launch; a setting may add some."""
        self.env: dict[str, str] = {}
        self.piped = False
        """Whether the output of the launch goes to a reader that may go away."""
        self.where: list[str] = []
        """How a run is found by one who did not start it."""
        self.also: list[Running] = []
        """Further commands that must end as the first one does."""
        self.quiet: set[int] = set()
        """Ranks that were told to end, or to print no more, while others go on."""
        self.job: Running | None = None
        self.done: Done | None = None
        """What the command said that saw the end."""
        self.bench.cold = True  # what is broken is to be a process as a person starts it
        self.hit_at = 0.0
        """When the harm was done, on the monotonic clock."""
        self.linked = True
        """Whether the supervisors are to hear each other before the harm is done."""
        self.afterwards = ExitStack()
        """Callbacks that take back what was done to the hosts."""
        self.yaml()
        for host in self.hosts:
            make_empty(host)
            for directory in (WRITTEN, ORDERS):
                shutil.rmtree(host.path(directory), ignore_errors=True)

    def yaml(self, **extra: Any) -> None:
        """Writes the cluster file anew, with short times; ``extra`` as in ``cluster_yaml``."""
        self.bench.yaml(**{**extra, "launch": {"lease": LEASE, "grace": GRACE, **extra.get("launch", {})}})

    # --- the run

    def start(self) -> None:
        """Launches; returns when every rank has made its first steps and the supervisors hear each other."""
        self.launch()
        self.until(lambda: all(self.steps(rank) >= 2 for rank in self.ranks))
        if self.fault.seen.logs == "beginning":
            self.until(lambda: all(map(self.log_here, self.ranks)))
        self.until(lambda: self.are_linked() or not self.linked)
        if self.fault.controller == "dead":
            self.kill_controller()

    def launch(self) -> Running:
        """Only starts the command."""
        self.bench.script(script(self.fault.work))
        own = ["--json", "--nproc-per-node", str(self.nproc), *self.options, self.bench.file]
        if self.fault.work == "light":
            words = ["launch", "--launcher", "exec", *own, sys.executable, "worker.py"]
        else:
            words = ["launch", *own, "worker.py"]
        self.job = self.bench.start(*words, env=self.env, piped=self.piped)
        return self.job

    def until(self, true: Any, seconds: float = ENOUGH) -> None:
        """Waits for what comes about while ncclrun runs, or without it where it was killed."""
        if self.job is not None:
            self.job.until(true, seconds)
        else:
            assert eventually(true, seconds), "it did not come about"

    def attach(self) -> Running:
        """A new controller takes the run up; what it says is what counts from here on."""
        self.job = self.bench.start("attach", "--json", *self.where)
        return self.job

    def go_elsewhere(self) -> None:
        """From here on commands are typed on another machine, which has nothing but the cluster file."""
        self.bench.state = self.bench.directory / "elsewhere"
        self.bench.env = {**self.bench.env, "XDG_STATE_HOME": str(self.bench.state)}
        self.where = ["--cluster", self.bench.file]

    def leave(self) -> Done:
        """Waits for the command to end while the run goes on; a new one is to tell the end."""
        assert self.job is not None
        done, self.job = self.job.wait(), None
        return done

    def kill_controller(self) -> None:
        """SIGKILL to ncclrun; the run is on its own."""
        assert self.job is not None
        self.job.process.send_signal(signal.SIGKILL)
        self.job.process.wait()
        self.job = None

    def finish(self) -> None:
        """Has every rank end with 0."""
        for rank in self.ranks:
            self.order(rank, "wish = 1")

    # --- harm

    def hit(self) -> None:
        """Now: the times that are measured count from here. Without it, they count from the call of ``inject``."""
        self.hit_at = time.monotonic()

    def press(self, number: signal.Signals = signal.SIGINT) -> None:
        """A signal to ncclrun."""
        assert self.job is not None
        self.job.press(number)

    def until_said(self, text: str, times: int = 1) -> None:
        """Waits for ncclrun to say it."""
        assert self.job is not None
        self.job.until_said(text, times)

    def order(self, rank: int, python: str) -> None:
        """Has a rank run some Python before its first step or at its next, and at each after that.

        ``sys, os, signal, subprocess, time`` are imported there; ``order.unlink()`` makes it the last time.
        """
        host = self.host_of(rank)
        part = host.write(f"{ORDERS}/{rank}.part", python)
        part.rename(part.with_name(str(rank)))

    def shell(self, host: Host, text: str) -> None:
        """Runs a line of shell as root of that host."""
        host.exec(["/bin/sh", "-c", text], check=True)

    def later(self, host: Host, text: str) -> None:
        """Runs it when all is over, unless the host was started anew by then."""
        boot = host.pid

        def run() -> None:
            if host.pid == boot:
                self.shell(host, text)

        self.afterwards.callback(run)

    def mount(self, place: str, options: str) -> None:
        """A disk of its own at ``place`` of the host that is hit."""
        self.shell(self.host, f"mkdir -p {place} && mount -t tmpfs -o {options} fault {place}")
        self.later(self.host, f"umount -l {place}")

    def do(self, rank: int, python: str) -> None:
        """``order`` that the rank survives, before the harm; returns when it has been carried out."""
        self.order(rank, f"order.unlink()\n{python}")
        self.until(lambda: not self.host_of(rank).path(f"{ORDERS}/{rank}").exists())
        before = self.steps(rank)
        self.until(lambda: self.steps(rank) > before)
        self.hit()

    def ends(self, rank: int) -> None:
        """Has a rank end with 0 while others go on."""
        self.order(rank, "sys.exit(0)")
        self.quiet.add(rank)
        self.until_ended(rank)

    def until_ended(self, rank: int) -> None:
        """Returns when nothing of it lives."""
        self.until(lambda: not self.workers(rank))

    def filter(self, host: Host, rule: str, hook: str = "input") -> None:
        """A rule of the host's own firewall, in the words of nft, until it is taken back."""
        chain = f"add chain inet fault {hook} {{ type filter hook {hook} priority 0; }}"
        self.shell(host, f"nft 'add table inet fault; {chain}; add rule inet fault {hook} {rule}'")
        self.later(host, NO_FILTER)

    def unfilter(self, host: Host) -> None:
        """Takes back the rules of that host."""
        self.shell(host, NO_FILTER)

    def signal(self, pids: list[int], number: signal.Signals) -> None:
        """Sends it to each, by ids as seen from here; who has ended meanwhile is left out."""
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    # --- waiting for it, and what ncclrun has said

    def all_make_steps(self, more: int = 5) -> None:
        """Returns when every rank has made so many more steps."""
        before = {rank: self.steps(rank) for rank in self.ranks if rank not in self.quiet}
        self.until(lambda: all(self.steps(rank) >= steps + more for rank, steps in before.items()))

    def is_started(self) -> bool:
        """Whether a node has begun the run; what is only prepared is waited for until its node has taken it back."""

        def parts() -> list[Path]:
            return [part for host in self.hosts for part in run_directories(host)]

        assert eventually(lambda: all((part / "control").exists() for part in parts()), ENOUGH)
        return parts() != []

    def until_stands_still(self) -> None:
        """Returns when no rank has made a step for a second."""
        seen = [-1]
        changed = time.monotonic()

        def still() -> bool:
            nonlocal seen, changed
            now = [self.steps(rank) for rank in self.ranks]
            if now != seen:
                seen, changed = now, time.monotonic()
            return time.monotonic() > changed + 1

        self.until(still)

    def unknown(self) -> set[str]:
        """Nodes that ncclrun has told to be out of its reach."""
        assert self.job is not None
        return {event["node"] for event in self.job.events("node") if event["state"] == "unknown"}

    def back(self) -> set[str]:
        """Nodes that ncclrun has reached again."""
        assert self.job is not None
        return {event["node"] for event in self.job.events("node") if event["reason"] == "reachable again"}

    def said(self) -> str:
        """All that the command has said until now."""
        assert self.job is not None
        so_far = self.job.so_far()
        return so_far.out + so_far.err
