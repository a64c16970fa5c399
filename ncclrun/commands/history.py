"""Runs as this machine remembers them: a private directory each, with record and end (the logs: logfiles.py)."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ncclrun.model.endevents import Cause, Ended
from ncclrun.model.errors import NcclrunError, UsageError

ELSEWHERE = "add --cluster FILE for one that another machine started"
STATE_FIX = "set XDG_STATE_HOME to a directory that you can write to"
_END: dict[str, type | tuple[type, ...]] = {"exit_code": int, "reason": str, "ended_at": (int, float)}
RUN_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")


def state_home() -> Path:
    """``$XDG_STATE_HOME/ncclrun``, else ``~/.local/state/ncclrun``. Raises NcclrunError for a user without a home."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if base.startswith("/"):  # the XDG specification: a relative path is invalid and shall be ignored
        return Path(base) / "ncclrun"
    try:
        return Path.home() / ".local" / "state" / "ncclrun"
    except RuntimeError as error:
        raise NcclrunError("this user has no home directory to keep runs in", fix=STATE_FIX) from error


def new_run_id() -> str:
    """Sorts by time and is unlikely to meet another: ``20260131-142501-9f3c``."""
    return time.strftime("%Y%m%d-%H%M%S-") + os.urandom(2).hex()


def check_run_id(run_id: str) -> str:
    """The run id itself; raises UsageError for one that could not be a directory name everywhere."""
    if not RUN_ID.match(run_id):
        raise UsageError(
            f"{run_id!r} can't be a run id",
            fix="use lower case letters, digits, '.', '_' and '-', starting with a letter or digit, at most 64 in all",
        )
    return run_id


def refuse_used(run_id: str) -> None:
    """Raises UsageError where this machine knows a run of that id."""
    path = state_home() / "runs" / run_id
    if path.is_dir():
        raise UsageError(f"there is a run {run_id} already, in {path}", fix="choose another --run-id")


def attempt_id(name: str, number: int) -> str:
    """The run id of an attempt of a run: the name itself for the first, ``<name>.2``, ``<name>.3`` for the others."""
    return name if number == 1 else f"{name}.{number}"


@dataclass(frozen=True)
class RunDir:
    """``<state>/runs/<run id>/``: run.json, end.json, logs/ (and the directories of nodes on this machine)."""

    path: Path

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self.path.name

    @property
    def logs(self) -> Path:
        """Where the streams lie: ``rank<R>.out`` and ``.err``, ``launcher<K>.out`` and ``.err``, ``order``."""
        return self.path / "logs"

    @classmethod
    def create(cls, run_id: str) -> RunDir:
        """A new directory, 0700; raises UsageError for an id used before, NcclrunError when it can't be made."""
        path = state_home() / "runs" / run_id
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.mkdir(mode=0o700)
            (path / "logs").mkdir(mode=0o700)
        except OSError as error:
            if isinstance(error, FileExistsError):
                refuse_used(run_id)
            raise NcclrunError(f"can't make the run's directory {path}: {error.strerror}", fix=STATE_FIX) from error
        return cls(path)

    @classmethod
    def adopt(cls, run_id: str, record: dict[str, Any]) -> RunDir:
        """The directory of a run that another machine started, made at the first time; raises NcclrunError."""
        run = cls(state_home() / "runs" / check_run_id(run_id))
        try:
            # What stands there already may be a node's own part, where this machine is one of the nodes.
            run.logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise NcclrunError(f"can't make the run's directory {run.path}: {error.strerror}", fix=STATE_FIX) from error
        known = run.read("run.json")
        if known is None:
            run.write("run.json", record)
        elif known.get("token") != record["token"]:
            message = (
                f"this machine knows another run {run_id}; the nodes have one that {record.get('by') or '?'} started"
            )
            raise UsageError(message, fix="XDG_STATE_HOME=$HOME/elsewhere before the command keeps the two apart")
        return run

    def write(self, name: str, record: dict[str, Any]) -> None:
        """Writes ``name`` (run.json, end.json) whole or not at all; raises NcclrunError where the disk refuses."""
        partial = self.path / f".{name}.new"
        try:
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(record, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path / name)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise NcclrunError(
                f"can't write {self.path / name}: {error.strerror}", fix="free some space here"
            ) from error

    def write_end(self, ended: Ended, *, program: str, complete: bool) -> None:
        """Notes the end; ``complete``: all that the run printed is here, so that `logs` need not ask the nodes."""
        self.write(
            "end.json",
            {
                "exit_code": ended.exit_code,
                "reason": ended.reason,
                "cause": "" if ended.cause is None else in_a_line(ended.cause),
                "rank": None if ended.cause is None else ended.cause.rank,
                "hint": "" if ended.cause is None else ended.cause.hint,
                "nodes": len(ended.nodes),
                "program": program,
                "seconds": ended.seconds,
                "ended_at": time.time(),
                "complete": complete,
            },
        )

    def read(self, name: str) -> dict[str, Any] | None:
        """The record, or None where it was not written."""
        try:
            record = json.loads((self.path / name).read_text())
            return {**record}
        except FileNotFoundError:
            return None
        except OSError as error:
            raise NcclrunError(f"can't read {self.path / name}: {error.strerror}") from error
        except (ValueError, TypeError) as error:
            raise self.damaged(name, error) from error

    def end(self) -> dict[str, Any] | None:
        """How it ended, or None where that is not known here; raises NcclrunError for a damaged record."""
        end = self.read("end.json")
        if end is not None and (wrong := [key for key, kind in _END.items() if not isinstance(end.get(key), kind)]):
            raise self.damaged("end.json", f"no {wrong[0]}")
        return end

    def cluster(self) -> str:
        """What named its cluster on the command line, "" where that is not known."""
        return str((self.read("run.json") or {}).get("source") or "")

    def damaged(self, name: str, why: object) -> NcclrunError:
        """What is said of a record that can't be used: what its nodes know is as good."""
        path = self.path / name
        fix = f"rm {path};  ncclrun attach {self.run_id}  learns the end from the nodes"
        if name == "run.json":
            fix = f"rm -r {self.path};  with --cluster FILE its nodes are asked for the run"
        return NcclrunError(f"the record {path} is damaged: {why}", fix=fix)

    def forget(self) -> None:
        """Removes the directory of a run that never started, except what nodes on this machine keep in it."""
        for file in [*self.logs.glob("*"), self.path / "run.json", self.path / "end.json"]:
            file.unlink(missing_ok=True)
        with suppress(OSError):  # not empty: a node's own directory is in it, and that node removes it
            self.logs.rmdir()
            self.path.rmdir()


def in_a_line(cause: Cause) -> str:
    """``rank 3 on gpu2: exit code 1, ValueError: no data``."""
    who = cause.node if cause.rank is None else f"rank {cause.rank} on {cause.node}"
    return f"{who}: {cause.how}" + (f", {cause.exception}" if cause.exception else "")


def find_run(run_id: str | None, *, going: bool = False) -> RunDir:
    """The named run, or the newest; raises UsageError with what there is.

    Of a run of several attempts the name means the last one; ``<name>.1`` is the first. ``going``: rather the newest
    whose end is not known here, for who wants to stop or follow it.
    """
    runs = all_runs()
    if run_id is None:
        if not runs:
            raise UsageError(
                "no run was started from this machine yet", fix=f"ncclrun launch CLUSTER SCRIPT, or {ELSEWHERE}"
            )
        open_runs = [run for run in runs if not _has_ended(run)] if going else []
        return (open_runs or runs)[-1]
    attempts = [run for run in runs if run.run_id.startswith(f"{run_id}.") and _name(run) == run_id]
    if attempts:
        return attempts[-1]
    for run in runs:
        if run.run_id == run_id or (run_id == f"{run.run_id}.1" and _name(run) == run.run_id):
            return run
    fix = f"{near(run_id, [run.run_id for run in runs])}, or {ELSEWHERE}"
    raise UsageError(f"no run {run_id!r} was started from this machine", fix=fix)


def _has_ended(run: RunDir) -> bool:
    """Whether all of its end is known here; a damaged record of one run is in no other's way."""
    try:
        return bool((run.end() or {}).get("complete"))
    except NcclrunError:
        return False


def near(run_id: str, known: Sequence[str]) -> str:
    """Which of the known runs (the newest last) may be meant by an id that none has."""
    begun = [one for one in known if run_id and one.startswith(run_id)] or get_close_matches(run_id, known, 3, 0.8)
    if begun:
        return f"did you mean {' or '.join(begun[-3:])}?"
    return f"the last runs: {', '.join(known[-5:])}" if known else "no run is known here"


def _name(run: RunDir) -> str | None:
    """The name of the run that this is an attempt of; None where nobody asked for retries."""
    return (run.read("run.json") or {}).get("name")


def all_runs() -> list[RunDir]:
    """The runs that were started from this machine or taken up here, the newest last."""
    return sorted(_runs(), key=lambda run: ((run.path / "run.json").stat().st_mtime_ns, run.run_id))


def _runs() -> Iterator[RunDir]:
    base = state_home() / "runs"
    if base.is_dir():
        for path in base.iterdir():
            if (path / "run.json").is_file():
                yield RunDir(path)


def process_start(pid: int) -> int | None:
    """Start time of a process in ticks since boot: with the pid, its identity. None: no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
