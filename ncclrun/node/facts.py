"""What the node says of itself before a plan is made."""

from __future__ import annotations

import os
import re
import shutil
import socket
from typing import Any

from . import gpus, interfaces, machine, pythons, statedir

# Set by a launcher for its workers; inherited from a login environment they would mislead ours.
STALE = re.compile(
    r"(?:RANK|LOCAL_RANK|NODE_RANK|GROUP_RANK|ROLE_RANK|ROLE_NAME|(?:LOCAL_|GROUP_|ROLE_)?WORLD_SIZE|MASTER_ADDR|MASTER_PORT"
    r"|PET_.*|TORCHELASTIC_.*|TORCH_NCCL_ASYNC_ERROR_HANDLING|NCCLRUN_.*)\Z"
)
TELLING = re.compile(r"(?:NCCL|GLOO|TORCH|TP|UCX|FI)_.*\Z")


def free_bytes(state: statedir.StateDir) -> int:
    """Free bytes where run directories are made, 0 where they can't be made."""
    return shutil.disk_usage(state.path).free if state.path is not None else 0


def find(python: str) -> dict[str, Any]:
    """The fields of NodeFacts but the clock's. Takes as long as nvidia-smi and the training's Python do (bounded)."""
    state = statedir.find()
    found = gpus.find()
    return {
        "hostname": socket.gethostname(),
        "user": machine.user(),
        "machine": machine.machine_id(),
        "boot_id": machine.boot_id(),
        "interfaces": interfaces.find(),
        "gpus": found.gpus,
        "visible_gpus": gpus.visible(found.gpus, os.environ.get("CUDA_VISIBLE_DEVICES")),
        "python": pythons.probe(python or "python3"),
        "cpus": len(os.sched_getaffinity(0)),
        "state_dir": str(state.path or ""),
        "free_bytes": free_bytes(state),
        "driver": found.driver,
        "stale": sorted(name for name in os.environ if STALE.match(name)),
        "environment": sorted(name for name in os.environ if TELLING.match(name) and not STALE.match(name)),
    }
