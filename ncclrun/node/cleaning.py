"""Removes old run directories of this machine, by age and size and oldest first; never what lives."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

from . import inventory, prepare, rundir
from .refusal import Refusal

UPLOAD_SECONDS = 3600.0
"""An archive that was used within this time may belong to a launch that is under way."""


class Wish(NamedTuple):
    """What may go: what ended ``older_than`` seconds ago, then what has no room in ``keep_size`` bytes; None: any."""

    older_than: float | None
    keep_size: int | None
    run_ids: frozenset[str] | None
    dry_run: bool


class Candidate(NamedTuple):
    """One part: ``why`` it stays, "" if it may go; ``ended`` is when, as far as that is known."""

    part: rundir.RunDir
    ended: float
    size: int
    why: str
    over: bool = True
    """Its end is written: one that goes on is no candidate that anybody would miss, unless it is named."""

    def as_json(self) -> dict[str, Any]:
        """What both lists of the answer tell of it."""
        return {"run_id": self.part.run_id, "node_rank": self.part.node_rank, "size": self.size}


def wish(request: dict[str, Any]) -> Wish:
    """The wish in a request, or a refusal."""
    older_than, keep_size, run_ids = (request.get(name) for name in ("older_than", "keep_size", "run_ids"))
    for name, value in (("older_than", older_than), ("keep_size", keep_size)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0):
            raise Refusal("bad_request", f"{name} must be a number from 0, not {value!r}")
    if run_ids is not None and not isinstance(run_ids, list):
        raise Refusal("bad_request", "run_ids must be a list")
    if older_than is None and keep_size is None and run_ids is None:
        raise Refusal("bad_request", "clean needs an age, a size or run ids")
    named = None if run_ids is None else frozenset(rundir.check_run_id(run_id) for run_id in run_ids)
    return Wish(older_than, keep_size, named, bool(request.get("dry_run")))


def _why_kept(part: rundir.RunDir, phase: dict[str, Any], alive: int) -> str:
    """What speaks against removing this part, whatever its age; "" if nothing does."""
    if part.supervisor() is not None:
        return f"it is {phase['state']}" if phase["state"] != "ended" else "it is ending right now"
    if alive:
        return f"{alive} of its processes live"
    if phase["state"] == "prepared" and time.time() - phase["prepared_at"] < prepare.STALE_SECONDS:
        return "it is being prepared"
    return ""


def _candidates(state: Path) -> list[Candidate]:
    """Every part of this machine, those from before a restart too, oldest end first."""
    found = []
    living = inventory.living()
    for part in rundir.every(state):
        # What can't be read (made by root, or half removed) is left as it is, and must not stop us.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            phase = inventory.phase(part)
            ended = float(phase["ended_at"] or part.path.stat().st_mtime)
            why = _why_kept(part, phase, len(living.get(part.run()["cookie"], [])))
            size = inventory.size_of(part.path, float("inf")) or 0
            found.append(Candidate(part, ended, size, why, phase["state"] == "ended"))
    return sorted(found, key=lambda one: one.ended)


def choose(candidates: list[Candidate], wanted: Wish, now: float) -> list[Candidate]:
    """Those of ``candidates`` (oldest first) that are to go. Sizes count all of them, what may not go too."""
    asked = [one for one in candidates if wanted.run_ids is None or one.part.run_id in wanted.run_ids]
    free = [one for one in asked if not one.why]
    if wanted.older_than is None and wanted.keep_size is None:
        return free
    gone = [one for one in free if wanted.older_than is not None and now - one.ended > wanted.older_than]
    if wanted.keep_size is not None:
        total = sum(one.size for one in candidates) - sum(one.size for one in gone)
        for one in free:
            if total <= wanted.keep_size:
                break
            if one not in gone:
                gone.append(one)
                total -= one.size
    return gone


def _remove(one: Candidate) -> str:
    """Removes a part, unless it has come to life; why it is still there, "" if it has gone."""
    path = one.part.path
    aside = path.with_name(f".{path.name}.{os.getpid()}.gone")
    try:
        cookie = one.part.run()["cookie"]
        path.rename(aside)
    except OSError as error:
        return f"it can't be removed: {error.strerror}"
    # Who started it between our look and the rename runs in there; who comes later finds no run.
    moved = rundir.RunDir(aside)
    if moved.supervisor() is not None or inventory.living().get(cookie):
        aside.rename(path)
        return "it was started at this moment"
    trouble = ""
    try:
        shutil.rmtree(aside)
    except OSError as error:
        trouble = f"not all of it could be removed: {error.filename}: {error.strerror}"
    with contextlib.suppress(OSError):  # another part, or what its controller keeps, is in it
        path.parent.rmdir()
    return trouble


def _drafts(state: Path) -> list[Path]:
    """What dead preparations and removals left half done."""
    found = (state / "runs").glob("*/.*-*")
    return [path for path in found if time.time() - path.lstat().st_mtime > prepare.STALE_SECONDS]


def _code(state: Path, wanted: Wish) -> list[Path]:
    """Archives that no launch has used for so long."""
    if wanted.older_than is None:
        return []
    oldest = time.time() - max(wanted.older_than, UPLOAD_SECONDS)
    with contextlib.suppress(FileNotFoundError):
        return [entry for entry in (state / "code").iterdir() if entry.stat().st_mtime < oldest]
    return []


def clean(state: Path, wanted: Wish) -> dict[str, Any]:
    """The answer to `clean`; with ``dry_run`` what it would be, and nothing is touched."""
    candidates = _candidates(state)
    chosen = choose(candidates, wanted, time.time())
    whys = {one: "" if wanted.dry_run else _remove(one) for one in chosen}
    removed = [{**one.as_json(), "ended_at": one.ended} for one in chosen if not whys[one]]
    asked = [one for one in candidates if (one.over if wanted.run_ids is None else one.part.run_id in wanted.run_ids)]
    kept = [{**one.as_json(), "why": one.why or whys[one]} for one in asked if one.why or whys.get(one)]
    code = _code(state, wanted)
    size = sum(path.stat().st_blocks * inventory.BLOCK for path in code)
    if not wanted.dry_run:
        for path in code:
            with contextlib.suppress(FileNotFoundError):  # another node with the same home was faster
                path.unlink()
        if wanted.older_than is not None:
            for path in _drafts(state):
                prepare.scrap(path)
    return {"removed": removed, "kept": kept, "code": size}
