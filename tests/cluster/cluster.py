"""The cluster as a whole: up, found again by another process, down without a trace."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.cluster import registry
from tests.cluster.host import Host, all_pids, end, namespace
from tests.cluster.image import Sshd, make_disk, make_key
from tests.cluster.network import DATA_INTERFACES, MOST_HOSTS, Layout, Wiring, namespaces
from tests.cluster.registry import ClusterError
from tests.cluster.spec import cluster_yaml, write_client_files

TOOLS = ("ip", "nft", "nsenter", "unshare", "setsid", "mount", "pivot_root", "ssh-keygen", "/usr/sbin/sshd")

_numbers = itertools.count()


@functools.cache
def why_not() -> str:
    """Why there can be no cluster on this machine; "" when there can be one."""
    if sys.platform != "linux":
        return "the namespace cluster needs Linux"
    if os.geteuid() != 0:
        return "the namespace cluster needs root"
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        needs = "the namespace cluster needs iproute2, nftables, util-linux and openssh-server"
        return f"{needs}; not found: {', '.join(missing)}"
    # Root in a container may lack the right to make namespaces and mounts.
    trial = ["unshare", "--mount", "--net", "--pid", "--fork", "mount", "-t", "tmpfs", "trial", "/tmp"]
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    return f"the namespace cluster needs the right to make namespaces: {done.stderr.strip()}" if done.returncode else ""


class Cluster:
    """N hosts, each with its own network, mounts, processes and host name, and a real sshd as init.

    The hosts see this machine's files through an overlay: what they write stays theirs, and what this machine writes
    after they have looked for it may stay hidden from them (use ``Host.write``). ``sshd`` holds keywords of sshd_config
    for all hosts, ``sshd_by_host`` for the host of that index. ``keep``: the cluster outlives this process.
    """

    def __init__(
        self,
        count: int,
        *,
        tag: str | None = None,
        shared_management: bool = False,
        interfaces: tuple[str, ...] = DATA_INTERFACES,
        mtu: int = 9000,
        data_ipv6: bool = False,
        decoys: bool = True,
        sshd: Sshd | None = None,
        sshd_by_host: Mapping[int, Sshd] | None = None,
        keep: bool = False,
    ) -> None:
        if not 1 <= count <= MOST_HOSTS:
            raise ClusterError(f"a cluster has 1 to {MOST_HOSTS} hosts, not {count}")
        self.tag = tag or f"t{os.getpid()}-{next(_numbers)}"
        self.count = count
        self._layout = Layout(shared_management, tuple(interfaces), mtu, data_ipv6, decoys)
        self._sshd = dict(sshd or {})
        self._sshd_by_host = {index: dict(own) for index, own in (sshd_by_host or {}).items()}
        self._keep = keep
        self.hosts: list[Host] = []

    @property
    def home(self) -> Path:
        """The cluster's directory: id_ed25519, known_hosts, ssh_config, and one directory a host."""
        return registry.directory(self.tag)

    @property
    def key(self) -> Path:
        """Private key that root and the trainer of every host accept."""
        return self.home / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """File with the keys of all hosts."""
        return self.home / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        """An ssh_config in which the hosts have their names."""
        return self.home / "ssh_config"

    def __enter__(self) -> Cluster:
        return self.up()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def up(self) -> Cluster:
        """Makes everything and returns when every sshd answers; what a dead process left behind goes first."""
        if reason := why_not():
            raise ClusterError(reason)
        with registry.lock():
            for tag in registry.tags():
                if registry.is_orphan(tag):
                    _remove(tag)
            if registry.load(self.tag) is not None:
                raise ClusterError(f"there is a cluster with the tag {self.tag!r} already")
            slot = registry.claim(self.tag, {"count": self.count, "layout": asdict(self._layout)}, keep=self._keep)
            wiring = Wiring(self.tag, slot, self._layout)
            wiring.reserve()
        try:
            self._start(wiring)
        except BaseException:
            self.down()
            raise
        return self

    def _start(self, wiring: Wiring) -> None:
        wiring.build(self.count)
        make_key(self.key, "test cluster")
        public = self.key.with_suffix(".pub").read_text()
        self.hosts = _hosts(self.home, self.count, wiring)
        for host in self.hosts:
            disk = self.home / host.name / "disk"
            disk.mkdir(parents=True)
            make_disk(disk, host.name, public, {**self._sshd, **self._sshd_by_host.get(host.index, {})})
            host.boot()
        write_client_files(self.home, self.hosts, "root")
        for host in self.hosts:
            host.wait_until_ready()

    @classmethod
    def find(cls, tag: str) -> Cluster:
        """The cluster of that tag, which another process made."""
        state = registry.load(tag)
        if not state:
            raise ClusterError(f"there is no cluster with the tag {tag!r}")
        cluster = cls(
            state["count"], tag=tag, **{**state["layout"], "interfaces": tuple(state["layout"]["interfaces"])}
        )
        cluster.hosts = _hosts(cluster.home, cluster.count, Wiring(tag, state["slot"], cluster._layout))
        return cluster

    def down(self) -> None:
        """Ends every process and takes namespaces, links, mounts and files away; safe to call twice."""
        with registry.lock():
            _remove(self.tag)
        self.hosts = []

    def mend(self) -> None:
        """Brings back what a test broke: heals cuts, wakes sshd sessions, boots hosts that are off."""
        for host in self.hosts:
            if host.pid is None:
                host.reboot()
            else:
                host.heal()
                host.continue_sshd_sessions()

    def yaml(self, *, user: str = "root", **extra: Any) -> str:
        """Text of a cluster file for all hosts; see ``spec.cluster_yaml`` for ``extra``."""
        return cluster_yaml(self.tag, self.hosts, self.home, user, extra)

    def write_yaml(self, directory: Path, *, user: str = "root", **extra: Any) -> Path:
        """Writes ``cluster.yaml`` into the directory and returns its path."""
        path = directory / "cluster.yaml"
        path.write_text(self.yaml(user=user, **extra))
        return path

    def processes_with(self, text: str) -> dict[str, list[str]]:
        """Commands on all hosts that have ``text`` in their environment, by host; {} when there are none."""
        found = {host.name: [process.command for process in host.processes_with(text)] for host in self.hosts}
        return {name: commands for name, commands in found.items() if commands}


def _hosts(home: Path, count: int, wiring: Wiring) -> list[Host]:
    return [Host(index, f"node{index}", home / f"node{index}", wiring) for index in range(count)]


def _remove(tag: str) -> None:
    """Takes a cluster away by what there is of it, whoever made it and however far it came."""
    state = registry.load(tag)
    names = namespaces(tag)
    inodes = {(Path("/run/netns") / name).stat().st_ino for name in names}
    # By namespace, never by name: these processes can only be the cluster's. Those inside the hosts go first, so that
    # what waits for them outside ends by itself and leaves no zombie.
    own = namespace(os.getpid(), "pid")
    for pid in sorted(all_pids(), key=lambda pid: namespace(pid, "pid") == own):
        if namespace(pid, "net") in inodes:
            end(pid)
    if state:
        layout = Layout(**{**state["layout"], "interfaces": tuple(state["layout"]["interfaces"])})
        Wiring(tag, state["slot"], layout).demolish(state["count"])
    registry.release(tag)
