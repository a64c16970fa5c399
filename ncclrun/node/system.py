"""What the machine grants a process of ours: limits, memory, container, distribution; read from small files."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import Any

from . import oom, pcie
from .sysfs import entries, read

PROC = Path("/proc")
SYS = Path("/sys")
OS_RELEASE = (Path("/etc/os-release"), Path("/usr/lib/os-release"))
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # looked at alone
MARKS = {Path("/.dockerenv"): "docker", Path("/run/.containerenv"): "podman"}
KINDS_OF_CONTAINERS = {"kubepods": "kubernetes", "libpod": "podman", "containers/storage": "podman"}
TIME_ERROR = 5
TIMEX_BYTES = 512  # struct timex is smaller everywhere
SYSCTLS = ("net.ipv4.ip_local_port_range", "net.ipv4.conf.all.arp_ignore", "kernel.numa_balancing")
MODULES = ("nvidia", "nouveau", "nvidia_peermem", "nv_peer_mem", "ib_uverbs")


def limits() -> dict[str, dict[str, int | None]]:
    """Soft and hard limit by name, None for unlimited."""
    text = read(PROC / "self" / "limits")
    found = {}
    wanted = (("memlock", "Max locked memory"), ("nofile", "Max open files"), ("address_space", "Max address space"))
    for name, words in wanted:
        match = re.search(rf"^{words}\s+(\S+)\s+(\S+)", text, re.M)
        if match:
            soft, hard = (int(word) if word.isdigit() else None for word in match.groups())
            found[name] = {"soft": soft, "hard": hard}
    return found


def distribution() -> dict[str, str]:
    """``id``, ``like``, ``version`` and ``name`` of os-release, "" where it does not say."""
    text = next(filter(None, map(_text, OS_RELEASE)), "")
    fields = {key: value.strip("\"'") for key, value in re.findall(r"^([A-Z_]+)=(.*)$", text, re.M)}
    keys = {"id": "ID", "like": "ID_LIKE", "version": "VERSION_ID", "name": "PRETTY_NAME"}
    return {ours: fields.get(theirs, "") for ours, theirs in keys.items()}


def _text(path: Path) -> str:
    """A file that may hold names in any language."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def container() -> str:
    """Which kind of container this is, as far as it shows; "" for none."""
    for mark, kind in MARKS.items():
        if mark.exists():
            return kind
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if named := read(Path("/run/systemd/container")):
        return named
    groups = read(PROC / "1" / "cgroup") + read(PROC / "self" / "cgroup")
    # With cgroups of version 2 a container sees no path; where its root's layers lie outside shows all the same.
    layers = re.findall(r"^\S+ \S+ \S+ \S+ / .* - overlay .*", _text(PROC / "self" / "mountinfo"), re.M)
    match = re.search(r"\b(docker|kubepods|libpod|lxc|containerd|containers/storage)\b", " ".join([groups, *layers]))
    return KINDS_OF_CONTAINERS.get(match.group(1), match.group(1)) if match else ""


def _selinux() -> str:
    state = {"1": "enforcing", "0": "permissive"}
    return state.get(read(SYS / "fs" / "selinux" / "enforce"), "")


def _sizes(path: str) -> dict[str, int] | None:
    """Bytes and inodes of the file system there; None where it is not."""
    try:
        one = os.statvfs(path)
    except OSError:
        return None
    return {
        "size": one.f_blocks * one.f_frsize,
        "free": one.f_bavail * one.f_frsize,
        "inodes": one.f_files,
        "inodes_free": one.f_favail,
    }


def _memory() -> dict[str, int | None]:
    """Bytes: all, what could be had now, and what our control group may take (None: as much as it likes)."""
    text = read(PROC / "meminfo")
    found = {name: int(kib) << 10 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.M)}
    return {"total": found.get("MemTotal"), "available": found.get("MemAvailable"), "limit": _memory_limit()}


def _memory_limit() -> int | None:
    places = ("memory.max", "memory/memory.limit_in_bytes")
    words = (read(SYS / "fs" / "cgroup" / place) for place in places)
    # Version 1 says "unlimited" by a number near 2^63.
    return next((int(word) for word in words if word.isdigit() and int(word) < 1 << 60), None)


def _clock_synced() -> bool | None:
    """Whether the kernel holds its clock for right (NTP); None where it does not say."""
    try:
        state = int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES)))
    except AttributeError:
        return None
    return None if state < 0 else state != TIME_ERROR


def _glibc() -> str:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").rpartition(" ")[2]
    except (ValueError, OSError):
        return ""


def _modules() -> list[str]:
    loaded = {line.split(" ", 1)[0] for line in read(PROC / "modules").splitlines()}
    return [name for name in MODULES if name in loaded]


def find(state_dir: str) -> dict[str, Any]:
    """The fields of model System. ``state_dir`` is where run directories are made, "" if nowhere."""
    system = os.uname()
    return {
        "distribution": distribution(),
        "kernel": system.release,
        "arch": system.machine,
        "glibc": _glibc(),
        "container": container(),
        "selinux": _selinux(),
        "limits": limits(),
        "shared_memory": _sizes(SHARED_MEMORY),
        "state": _sizes(state_dir) if state_dir else None,
        "temporary": _sizes("/tmp"),  # noqa: S108  # looked at alone
        "memory": _memory(),
        "cards": len(pcie.gpus()),
        "modules": _modules(),
        "cpus_online": os.cpu_count() or 0,
        "numa_nodes": sum(bool(re.fullmatch(r"node\d+", one.name)) for one in entries(SYS / "devices/system/node")),
        "oom_kills": oom.kills(),
        "clock_synced": _clock_synced(),
        "sysctls": {name: read(PROC / "sys" / name.replace(".", "/")) for name in SYSCTLS},
    }
