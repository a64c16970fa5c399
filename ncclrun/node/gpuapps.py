"""Which processes use this node's GPUs, as nvidia-smi lists them, and whose they are, as far as it can be seen here."""

from __future__ import annotations

import os
import time
from typing import Any

from . import commands, gpus, machine, processes
from .sysfs import read

QUERY = "pid,gpu_uuid,used_memory,name"
# NVIDIA's own daemon for sharing a GPU is no user of it.
DAEMONS = ("nvidia-cuda-mps-server",)


def parse(text: str) -> list[dict[str, Any]]:
    """What nvidia-smi prints for QUERY: ``pid``, ``uuid``, ``memory`` (MiB or None), ``name``; no other lines."""
    rows = [[cell.strip() for cell in line.split(",", 3)] for line in text.splitlines()]  # a name may hold commas
    return [
        {"pid": int(row[0]), "uuid": row[1], "memory": gpus.number(row[2]), "name": row[3]}
        for row in rows
        if len(row) == 4 and gpus.DIGITS.match(row[0])
    ]


def age(process: processes.Process) -> float:
    """Seconds since it started."""
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - process.start / os.sysconf("SC_CLK_TCK"))


def _program(words: str) -> str:
    """The program of a command line, as far as the kernel's own short names go."""
    return words.partition(" ")[0].rpartition("/")[2][:15]


def _is(process: processes.Process, name: str) -> bool:
    """Whether this is the process that the driver means: seen from a container its id may be another's."""
    here = {_program(processes.command_of(process.pid)), read(processes.PROC / str(process.pid) / "comm")}
    return not process.ended and _program(name) in here - {""}


def describe(app: dict[str, Any]) -> dict[str, Any]:
    """The fields of model GpuProcess, empty from ``user`` on where the process is hidden."""
    process = processes.look(app["pid"])
    told = {**app, "user": "", "command": "", "run_id": "", "seconds": None}
    if process is None or not _is(process, app["name"]):
        return told
    owner = processes.owner_of(app["pid"])
    return {
        **told,
        "user": machine.name_of(owner),
        "command": processes.command_of(app["pid"]),
        "run_id": processes.cookie_of(app["pid"]).partition("/")[0] if owner == machine.uid() else "",
        "seconds": age(process),
    }


def find() -> list[dict[str, Any]]:
    """The fields of model GpuProcess for each process on a GPU; none where nvidia-smi is missing or does not answer."""
    smi = commands.locate("nvidia-smi", gpus.SMI_PLACES)
    if smi is None:
        return []
    try:
        output = commands.ask([smi, f"--query-compute-apps={QUERY}", "--format=csv,noheader,nounits"], gpus.SMI_SECONDS)
    except OSError:
        return []
    apps = parse(output.out) if output.code == 0 else []
    return [describe(app) for app in apps if app["name"].rpartition("/")[2] not in DAEMONS]
