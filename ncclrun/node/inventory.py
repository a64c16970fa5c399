"""What of this user's runs is on this machine: state, since when, what lives, the last line, GPUs, size."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from . import gpuapps, gpus, machine, processes, rundir

SIZE_SECONDS = 5.0
"""For counting the sizes of all directories; those that are left then have none."""
LAST_BYTES = 16 << 10
LONGEST_TEXT = 400
BLOCK = 512  # the unit of st_blocks
LOCAL_RANK = b"LOCAL_RANK="


class Living(NamedTuple):
    """A process of a run; ``local_rank`` is "" for what is no worker's."""

    process: processes.Process
    local_rank: str


def living() -> dict[str, list[Living]]:
    """Every process with a cookie, and what descends from it, by cookie: one look at /proc for all runs."""
    table = processes.every()
    found: dict[str, list[Living]] = {}
    marked = {pid: cookie for pid in table if (cookie := processes.cookie_of(pid))}
    for pid, cookie in marked.items():
        heirs = [heir for heir in processes.descendants(pid, table) if heir not in marked]
        members = [table[one] for one in (pid, *heirs) if not table[one].ended]
        found.setdefault(cookie, []).extend(Living(one, _local_rank(one.pid)) for one in members)
    return found


def _local_rank(pid: int) -> str:
    try:
        environment = (processes.PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return ""
    words = (item[len(LOCAL_RANK) :] for item in environment.split(b"\0") if item.startswith(LOCAL_RANK))
    return next(words, b"").decode("ascii", "replace")


def parts(state: Path) -> list[rundir.RunDir]:
    """Every part of a run that belongs to this machine, of several of one name the newest; unreadable ones left out."""
    newest: dict[tuple[str, int], tuple[float, rundir.RunDir]] = {}
    for part in rundir.every(state):
        # What can't be read (made by root, or half removed) is no run that we could tell anything about.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            name, made = (part.run_id, part.node_rank), float(part.run()["prepared_at"])
            if name not in newest or made >= newest[name][0]:
                newest[name] = (made, part)
    return [part for _, part in newest.values()]


# --- one run


def phase(part: rundir.RunDir) -> dict[str, Any]:
    """`state`, `since`, `reason` of a part, and when it was started and ended. Raises OSError or KeyError if torn."""
    facts, state, end = part.run(), part.state(), part.end()
    times = {"prepared_at": facts["prepared_at"], "started_at": None, "ended_at": None}
    if end is not None:
        times.update(started_at=end.get("started_at"), ended_at=end["ended_at"])
        return {"state": "ended", "since": end["ended_at"], "reason": end["reason"], **times}
    if state is None:
        begun = "starting" if part.lives() else "prepared"
        return {"state": begun, "since": facts["prepared_at"], "reason": "", **times}
    owner = part.supervisor()
    if owner is not None:
        times["started_at"] = processes.started_at(owner)
        return {"state": state["state"], "since": state["time"], "reason": state["reason"], **times}
    rebooted = facts["boot_id"] != machine.boot_id()
    why = "the machine was restarted" if rebooted else "its supervisor is gone"
    return {"state": "lost", "since": None, "reason": why, **times}


def _exit(end: dict[str, Any] | None) -> dict[str, Any] | None:
    """How the first rank that failed ended; of none, the reason alone."""
    if end is None:
        return None
    bad = [rank for rank in end["ranks"] if not rank["stopped"] and (rank["code"] or rank["signal"])]
    first = min(bad, key=lambda rank: float(rank["ended_at"] or 0.0), default=None)
    told = None if first is None else {"rank": first["local_rank"], "code": first["code"], "signal": first["signal"]}
    return {"reason": end["reason"], "detail": end.get("detail", ""), "rank": told}


def _last(part: rundir.RunDir) -> dict[str, Any] | None:
    """The last line that a worker wrote; where none wrote anything, the launcher's."""
    for workers in (True, False):
        found = []
        for stream in part.streams():
            if stream.startswith("launcher") != workers:
                with contextlib.suppress(OSError):  # removed at this moment
                    status = (part.logs / f"{stream}.log").stat()
                    found += [(status.st_mtime, stream)] if status.st_size else []
        if found:
            when, stream = max(found)
            return {"stream": stream, "time": when, "text": _last_line(part.logs / f"{stream}.log")}
    return None


def _last_line(path: Path) -> str:
    """Of a progress bar, as it stands now."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
        text = file.read().decode("utf-8", "replace").rstrip()
    return text.rpartition("\n")[2].rpartition("\r")[2][-LONGEST_TEXT:]


def size_of(path: Path, deadline: float) -> int | None:
    """Bytes on the disk below a directory; None where the time (monotonic) runs out. Never follows a link."""
    total = 0
    waiting = [str(path)]
    while waiting:
        if time.monotonic() > deadline:
            return None
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue  # removed meanwhile, or closed to us
    return total


# --- GPUs


def _gpus(apps: list[dict[str, Any]], indexes: dict[str, int], pids: set[int]) -> list[dict[str, Any]] | None:
    """What processes of a run hold, by GPU; None where some users' process ids mean nothing here (a container)."""
    held: dict[str, int | None] = {}
    for app in apps:
        if app["pid"] in pids:
            uuid, memory = app["uuid"], app["memory"]
            held[uuid] = None if memory is None else memory + (held.get(uuid) or 0)
    if not held and not all(app["command"] for app in apps):
        return None
    found = [{"index": indexes.get(uuid), "uuid": uuid, "memory": memory} for uuid, memory in held.items()]
    return sorted(found, key=lambda gpu: (gpu["index"] is None, gpu["index"]))


# --- all


def _leftovers(alive: dict[str, list[Living]], known: set[str]) -> list[dict[str, Any]]:
    """Our own processes with the cookie of a run that has no directory here; none in containers, where it may be."""
    left = []
    for cookie, members in sorted(alive.items()):
        run_id, _, rest = cookie.partition("/")
        rank = rest.partition("/")[0]
        mine = [
            one.process
            for one in members
            if processes.owner_of(one.process.pid) == machine.uid() and processes.is_of_this_system(one.process.pid)
        ]
        if cookie not in known and mine and rundir.RUN_ID.match(run_id) and rank.isdigit():
            left.append({"run_id": run_id, "node_rank": int(rank), "alive": processes.describe(mine)})
    return left


def _entry(part: rundir.RunDir, alive: dict[str, list[Living]], deadline: float) -> dict[str, Any]:
    """All of an entry but its GPUs."""
    facts = part.run()
    members = alive.get(facts["cookie"], [])
    owner = part.supervisor()
    entry = {name: facts[name] for name in ("run_id", "node_rank", "nproc", "launcher", "boot_id")}
    return {
        **entry,
        "by": facts.get("by", ""),
        "about": facts.get("about", {}),
        **phase(part),
        "exit": _exit(part.end()),
        "supervisor": None if owner is None else owner.pid,
        "alive": len(members),
        "ranks_alive": len({one.local_rank for one in members} - {""}),
        "last": _last(part),
        "heard": part.heard(),
        "gpus": None,
        "size": size_of(part.path, deadline),
    }


def runs(state: Path, limit: int) -> dict[str, Any]:
    """The answer to `runs`: what has not ended, the newest ``limit`` of what has, and what has no directory."""
    alive = living()
    deadline = time.monotonic() + SIZE_SECONDS
    known: set[str] = set()
    going: list[dict[str, Any]] = []
    over: list[tuple[float, rundir.RunDir]] = []
    for part in parts(state):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # removed or torn: nothing can be told
            known.add(part.run()["cookie"])
            end = part.end()
            if end is None:
                going.append(_entry(part, alive, deadline))
            else:
                over.append((float(end["ended_at"]), part))
    for _, part in sorted(over, key=lambda one: one[0])[max(0, len(over) - limit) :]:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            going.append(_entry(part, alive, deadline))
    _add_gpus(going, alive)
    return {"runs": going, "left": _leftovers(alive, known), "time": time.time()}


def _add_gpus(entries: list[dict[str, Any]], alive: dict[str, list[Living]]) -> None:
    """Fills `gpus` of what lives, in place; the driver is asked only if anything does."""
    lives = [entry for entry in entries if entry["alive"]]
    indexes = {gpu["uuid"]: int(gpu["index"]) for gpu in gpus.find().gpus} if lives else {}
    apps = gpuapps.find() if indexes else []
    for entry in lives if indexes else []:
        prefix = f"{entry['run_id']}/{entry['node_rank']}/"
        pids = {one.process.pid for cookie, members in alive.items() if cookie.startswith(prefix) for one in members}
        entry["gpus"] = _gpus(apps, indexes, pids)
