"""Runs as this machine remembers them: a private directory each, with record, end and every stream's bytes."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

from ncclrun.model.errors import NcclrunError, UsageError

STATE_FIX = "set XDG_STATE_HOME to a directory that you can write to"
OPEN_FILES = 256
"""Log files held open at a time: a large run has more streams than a process may have descriptors."""
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
            if isinstance(error, FileExistsError) and path.is_dir():
                message, fix = f"there is a run {run_id} already, in {path}", "choose another --run-id"
                raise UsageError(message, fix=fix) from error
            raise NcclrunError(f"can't make the run's directory {path}: {error.strerror}", fix=STATE_FIX) from error
        return cls(path)

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

    def write_end(self, exit_code: int, reason: str, *, complete: bool) -> None:
        """Notes the end; ``complete``: all that the run printed is here, so that `logs` need not ask the nodes."""
        self.write(
            "end.json", {"exit_code": exit_code, "reason": reason, "ended_at": time.time(), "complete": complete}
        )

    def read(self, name: str) -> dict[str, Any] | None:
        """The record, or None where it was not written."""
        try:
            record = json.loads((self.path / name).read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise NcclrunError(f"can't read {self.path / name}: {error}") from error
        return record if isinstance(record, dict) else None

    def forget(self) -> None:
        """Removes the directory of a run that never started, except what nodes on this machine keep in it."""
        for file in [*self.logs.glob("*"), self.path / "run.json", self.path / "end.json"]:
            file.unlink(missing_ok=True)
        with suppress(OSError):  # not empty: a node's own directory is in it, and that node removes it
            self.logs.rmdir()
            self.path.rmdir()


def find_run(run_id: str | None, *, going: bool = False) -> RunDir:
    """The named run, or the newest; raises UsageError with what there is.

    ``going``: rather the newest whose end is not known here, for who wants to stop or follow it.
    """
    runs = sorted(_runs(), key=lambda run: ((run.path / "run.json").stat().st_mtime_ns, run.run_id))
    if run_id is None:
        if not runs:
            raise UsageError("no run was started from this machine yet", fix="ncclrun launch CLUSTER SCRIPT")
        open_runs = [run for run in runs if not (run.read("end.json") or {}).get("complete")] if going else []
        return (open_runs or runs)[-1]
    for run in runs:
        if run.run_id == run_id:
            return run
    known = ", ".join(run.run_id for run in runs[-5:]) or "none"
    raise UsageError(f"no run {run_id!r} was started from this machine", fix=f"the last ones: {known}")


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


@dataclass(frozen=True)
class Place:
    """Which stream of which rank: global ``rank`` None for a launcher."""

    node_rank: int
    rank: int | None
    stream: str
    """``out`` or ``err``."""

    @property
    def filename(self) -> str:
        """Name of the stream's file in ``logs/``."""
        who = f"launcher{self.node_rank}" if self.rank is None else f"rank{self.rank}"
        return f"{who}.{self.stream}"


class LogSink(Protocol):
    """Where a follower puts the bytes of the streams."""

    lost: int
    trouble: str

    def append(self, place: Place, when: float, data: bytes) -> None:
        """Takes the next bytes of a stream."""

    def offsets(self, place_of: Callable[[str], Place], nproc: int) -> dict[str, int]:
        """Bytes that are here of each stream of a node, by the node's name for the stream."""

    def close(self) -> None:
        """Closes every file."""


class NoLogs:
    """Keeps nothing: for a command that stops a run whose logs another one writes."""

    lost = 0
    trouble = ""

    def append(self, place: Place, when: float, data: bytes) -> None:
        """Drops them; the nodes have theirs."""

    def offsets(self, place_of: Callable[[str], Place], nproc: int) -> dict[str, int]:
        """Nothing is here."""
        return {}

    def close(self) -> None:
        """Nothing is open."""


class LogWriter:
    """Appends what the nodes send, byte for byte, and notes the order in which it came.

    What is here of a stream is its beginning, without a gap: once the disk has refused bytes of it, none that come
    later are taken, so that the size always says where a reader of the node resumes.
    """

    def __init__(self, run: RunDir) -> None:
        self._logs = run.logs
        self._files: dict[str, FileIO] = {}
        self._cut: set[str] = set()
        try:
            self._order = (self._logs / "order").open("ab", buffering=0)
        except OSError as error:
            raise NcclrunError(f"can't write logs in {self._logs}: {error.strerror}", fix=STATE_FIX) from error
        self.lost = 0
        """Bytes that this machine's disk did not take."""
        self.trouble = ""
        """What the disk said when it took nothing."""
        self._be_the_only_one(run)

    def _be_the_only_one(self, run: RunDir) -> None:
        """Two that append would write everything twice; the lock goes with the process, however that ends."""
        try:
            flock(self._order, LOCK_EX | LOCK_NB)
        except BlockingIOError as error:
            self._order.close()
            message = f"another ncclrun follows run {run.run_id} and writes its logs"
            raise UsageError(message, fix=f"ncclrun logs -f {run.run_id} reads along") from error
        except OSError:
            pass  # a file system without locks

    def offsets(self, place_of: Callable[[str], Place], nproc: int) -> dict[str, int]:
        """Where a reader of the node resumes: bytes that are here, by the node's name for the stream."""
        names = [f"{who}.{kind}" for who in ("launcher", *range(nproc)) for kind in ("out", "err")]
        files = {name: self._logs / place_of(name).filename for name in names}
        return {name: file.stat().st_size if file.exists() else 0 for name, file in files.items()}

    def append(self, place: Place, when: float, data: bytes) -> None:
        """Adds to the end of the stream; a full disk here costs these bytes (counted), never the run."""
        name = place.filename
        written = 0
        try:
            if name not in self._cut:
                file = self._file(name)
                offset = file.tell()
                written = file.write(data)
                self._note(b"%.6f %s %d %d\n" % (when, name.encode(), offset, written))
        except OSError as error:
            self.trouble = error.strerror or str(error)
        if written < len(data):
            self._cut.add(name)
            self.lost += len(data) - written

    def _note(self, line: bytes) -> None:
        """A line of the order file, whole or not at all; without it the bytes show when the stream's next ones do."""
        before = self._order.tell()
        if self._order.write(line) < len(line):
            self._order.truncate(before)
            self._order.seek(before)

    def _file(self, name: str) -> FileIO:
        if name not in self._files:
            if len(self._files) >= OPEN_FILES:
                self._files.pop(next(iter(self._files))).close()
            self._files[name] = (self._logs / name).open("ab", buffering=0)
        return self._files[name]

    def close(self) -> None:
        """Closes every file."""
        for file in [*self._files.values(), self._order]:
            file.close()
