"""What lives of this user's runs here although their supervisors are dead, and how exactly that is ended."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from . import gpuapps, lost, processes, rundir
from .refusal import Refusal

MOST_TOLD = 20


def _ancestors(table: dict[int, processes.Process]) -> set[int]:
    """This process and those above it."""
    found: set[int] = set()
    pid = os.getpid()
    while pid in table and pid not in found:
        found.add(pid)
        pid = table[pid].ppid
    return found


def _part(state: Path, cookie: str) -> rundir.RunDir | None:
    """The part of a run whose processes have this cookie, if it was started and its supervisor is dead.

    One whose directory is nowhere may have a supervisor that we can't find: it is left alone.
    """
    run_id = cookie.partition("/")[0]
    if rundir.RUN_ID.match(run_id):
        # What can't be read (made by root, or half removed) is not known to be dead.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            for part in rundir.here(state, run_id):
                if part.run()["cookie"] == cookie and part.state() is not None and part.supervisor() is None:
                    return part
    return None


def find(state: Path) -> list[dict[str, Any]]:
    """The fields of model Leftover for each part of a run that is dead and not gone."""
    table = processes.every()
    marked: dict[str, list[processes.Process]] = {}
    for process in table.values():
        cookie = processes.cookie_of(process.pid)
        if cookie and not process.ended and processes.is_of_this_system(process.pid):
            marked.setdefault(cookie, []).append(process)
    above = _ancestors(table)
    found = []
    for cookie, members in sorted(marked.items()):
        part = _part(state, cookie)
        if part is not None and not any(process.pid in above for process in members):
            found.append(
                {
                    "run_id": part.run_id,
                    "node_rank": part.node_rank,
                    "seconds": max(gpuapps.age(process) for process in members),
                    "count": len(members),
                    "processes": [
                        {"pid": process.pid, "command": processes.command_of(process.pid)}
                        for process in members[:MOST_TOLD]
                    ],
                }
            )
    return found


def clear(part: rundir.RunDir) -> list[dict[str, object]]:
    """Ends what lives of a part whose supervisor is dead; returns what survives. Refuses with `supervised`."""
    if part.supervisor() is not None:
        raise Refusal("supervised", f"run {part.run_id} is alive there", f"ncclrun stop {part.run_id}")
    facts = part.run()
    lost.settle(part, facts)
    return processes.describe(processes.members(str(facts["cookie"]).__eq__))
