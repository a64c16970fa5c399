"""Which clusters exist on this machine: their directories, their share of the address plan, and who owns them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BASE = Path("/run/ncclrun-cluster")
SLOTS = 100
"""Clusters that one machine can hold: each has its own second octet in 10.88.0.0 to 10.187.0.0."""


class ClusterError(RuntimeError):
    """The test cluster could not do what was asked."""


def directory(tag: str) -> Path:
    """Where the cluster of that tag keeps everything; the tag becomes part of names of namespaces."""
    if not re.fullmatch(r"[a-z0-9_-]{1,20}", tag):
        raise ClusterError(f"a tag is up to 20 of a-z, 0-9, _ and -, not {tag!r}")
    return BASE / tag


@contextlib.contextmanager
def lock() -> Iterator[None]:
    """One claim at a time on this machine."""
    BASE.mkdir(mode=0o755, exist_ok=True)
    with (BASE / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def start_time(pid: int) -> str | None:
    """When that process started, in clock ticks since boot: with the pid it names one process for good. None: gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return stat.rpartition(")")[2].split()[19]


def claim(tag: str, state: dict[str, Any], *, keep: bool) -> int:
    """Makes the cluster's directory and returns its slot. It is a tmpfs: an overlay's upper must not lie in its lower.

    ``keep``: the cluster outlives this process. Call it with the lock held.
    """
    home = directory(tag)
    slot = _free_slot()
    home.mkdir(mode=0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "ncclrun-cluster", home], check=True)
    owner = None if keep else [os.getpid(), start_time(os.getpid())]
    save(tag, {**state, "slot": slot, "owner": owner})
    return slot


def save(tag: str, state: dict[str, Any]) -> None:
    """Writes what a later process needs to know, whole."""
    path = directory(tag) / "state.json"
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(state))
    draft.rename(path)


def load(tag: str) -> dict[str, Any] | None:
    """What was saved; None when there is no such cluster, {} when its making was cut short."""
    home = directory(tag)
    if not home.is_dir():
        return None
    path = home / "state.json"
    state: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return state


def release(tag: str) -> None:
    """Takes the directory away."""
    home = directory(tag)
    if home.is_mount():
        # Lazily: a log that somebody still reads must not keep the rest alive.
        subprocess.run(["umount", "-l", home], check=True)
    with contextlib.suppress(FileNotFoundError):
        home.rmdir()


def tags() -> list[str]:
    """All clusters of this machine."""
    return sorted(path.name for path in BASE.iterdir() if path.is_dir()) if BASE.is_dir() else []


def is_orphan(tag: str) -> bool:
    """Whether the cluster belonged to a process that is gone."""
    state = load(tag)
    if state is None or not state.get("owner"):
        return state == {}
    pid, started = state["owner"]
    return bool(start_time(pid) != started)


def _free_slot() -> int:
    """The lowest slot that no cluster has and whose addresses this machine doesn't route somewhere already."""
    taken = {state["slot"] for tag in tags() if (state := load(tag))}
    routes = subprocess.run(["ip", "-4", "route", "show", "table", "all"], check=True, capture_output=True, text=True)
    for slot in range(SLOTS):
        if slot not in taken and f"10.{88 + slot}." not in routes.stdout:
            return slot
    raise ClusterError(f"all {SLOTS} address ranges for test clusters are in use on this machine")
