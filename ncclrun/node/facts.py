"""What the node says of itself before a plan is made."""

from __future__ import annotations

import os
import re
import shutil
import socket
from typing import Any

from . import conffiles, gpuapps, gpus, interfaces, leftovers, machine, pythons, rdma, startup, statedir, system

# Set by a launcher for its workers; inherited from a login environment they would mislead ours.
STALE = re.compile(
    r"(?:RANK|LOCAL_RANK|NODE_RANK|GROUP_RANK|ROLE_RANK|ROLE_NAME|(?:LOCAL_|GROUP_|ROLE_)?WORLD_SIZE|MASTER_ADDR|MASTER_PORT"
    r"|PET_.*|TORCHELASTIC_.*|TORCH_NCCL_ASYNC_ERROR_HANDLING|NCCLRUN_.*)\Z"
)
PROXY = re.compile(r"(?:https?|all|no)_proxy\Z", re.IGNORECASE)
TELLING = re.compile(r"(?:NCCL|GLOO|TORCH|TP|UCX|FI)_.*\Z")


def free_bytes(state: statedir.StateDir) -> int:
    """Free bytes where run directories are made, 0 where they can't be made."""
    return shutil.disk_usage(state.path).free if state.path is not None else 0


def _ssh_address() -> str:
    """Where the SSH connection arrived: its client's address and port, then ours (an IPv6 one maybe with its zone)."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    return words[2].split("%")[0] if len(words) > 2 else ""


def settings(stale: list[str]) -> dict[str, Any]:
    """The fields of model NodeSettings; ``stale`` are a launcher's variables in the login environment."""
    login = {name: os.environ[name] for name in sorted(os.environ) if TELLING.match(name) and not STALE.match(name)}
    return {
        # NCCL looks for its file in HOME.
        "login": {**login, **({"HOME": os.environ["HOME"]} if "HOME" in os.environ else {})},
        "conf_files": conffiles.read(dict(os.environ)),
        # They answer who set what is there; where nothing is, there is nothing to ask.
        "mentions": startup.mentions(stale) if login or stale else [],
    }


def find(python: str) -> dict[str, Any]:
    """The fields of NodeFacts but the clock's. Takes as long as nvidia-smi and the training's Python do (bounded)."""
    state = statedir.find()
    found = gpus.find()
    devices = rdma.find()
    stale = sorted(name for name in os.environ if STALE.match(name))
    return {
        "hostname": socket.gethostname(),
        "user": machine.user(),
        "machine": machine.machine_id(),
        "boot_id": machine.boot_id(),
        "interfaces": interfaces.find(devices),
        "gpus": found.gpus,
        "visible_gpus": gpus.visible(found.gpus, os.environ.get("CUDA_VISIBLE_DEVICES")),
        "python": pythons.probe(python or "python3"),
        "cpus": len(os.sched_getaffinity(0)),
        "state_dir": str(state.path or ""),
        "free_bytes": free_bytes(state),
        "driver": found.driver,
        "gpu_trouble": found.trouble,
        "stale": stale,
        "rdma": devices,
        "verbs": rdma.verbs([device["name"] for device in devices]),
        "proxies": sorted(name for name in os.environ if PROXY.match(name) and os.environ[name]),
        "ssh_address": _ssh_address(),
        "settings": settings(stale),
        "cuda_visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        # A driver that hung over the first question would hang over this one.
        "gpu_processes": gpuapps.find() if any(gpu["used"] is not None for gpu in found.gpus) else [],
        "leftovers": leftovers.find(state.path) if state.path is not None else [],
        "system": system.find(str(state.path or "")),
    }
