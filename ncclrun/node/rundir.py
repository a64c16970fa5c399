"""A run's directory on this machine: its files by name, and how they are written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Iterator

from . import machine, processes
from .refusal import Refusal

RUN_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")
STREAM = re.compile(r"(?:[0-9]{1,5}|launcher)\.(?:out|err)\Z")
# Room for the end record on a full disk: its fixed part, and what a worker may add (tail of stderr, error file).
RESERVE_BASE = 128 << 10
RESERVE_WORKER = 16 << 10
# A record has to fit into one frame to the controller (wire.MAX_HEADER).
LARGEST_END = 4 << 20


def check_run_id(run_id: object) -> str:
    """The run id, or a refusal: it becomes part of a path."""
    if not isinstance(run_id, str) or not RUN_ID.match(run_id):
        raise Refusal("bad_run_id", f"{run_id!r} is no run id", "use a-z, 0-9, '.', '_', '-'; at most 64 characters")
    return run_id


def write_whole(path: Path, value: Any) -> None:
    """JSON that a reader sees old or new, never half, power cut included. Raises OSError."""
    fd, name = tempfile.mkstemp(prefix=path.name + ".", dir=str(path.parent))
    try:
        with os.fdopen(fd, "w", encoding="ascii") as file:
            json.dump(value, file)
            file.flush()
            os.fsync(fd)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink()
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Makes a rename survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class RunDir:
    """`<state>/ncclrun/runs/<run id>/<node_rank>-<machine>/`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run_id = path.parent.name
        self.logs = path / "logs"
        self.pipes = path / "pipes"
        self.control = path / "control"
        self.worker = path / "worker.sh"
        self.complaints = path / "supervisor.log"

    @property
    def node_rank(self) -> int:
        """The part of the run that this is."""
        return int(self.path.name.split("-", 1)[0])

    def _json(self, name: str) -> dict[str, Any] | None:
        try:
            value = json.loads((self.path / name).read_text("ascii"))
        except FileNotFoundError:
            return None
        return value if isinstance(value, dict) else None

    def run(self) -> dict[str, Any]:
        """run.json; FileNotFoundError when the directory is gone."""
        value = self._json("run.json")
        if value is None:
            raise FileNotFoundError(str(self.path / "run.json"))
        return value

    def state(self) -> dict[str, Any] | None:
        """state.json, None before the start."""
        return self._json("state.json")

    def end(self) -> dict[str, Any] | None:
        """exit.json, None before the end."""
        return self._json("exit.json")

    def write_state(self, value: dict[str, Any]) -> None:
        """Replaces state.json."""
        write_whole(self.path / "state.json", value)

    def reserve(self, workers: int) -> None:
        """Takes the end record's room on the disk now. Raises OSError (ENOSPC)."""
        fd = os.open(self.path / "exit.part", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # Spaces rather than fallocate, which NFS lacks; JSON ignores them.
            room = memoryview(b" " * (RESERVE_BASE + RESERVE_WORKER * workers))
            while room:
                room = room[os.write(fd, room) :]
            os.fsync(fd)
        finally:
            os.close(fd)

    def write_end(self, value: dict[str, Any], small: dict[str, Any]) -> None:
        """Writes exit.json in the reserved room; ``small`` is for a disk or a frame that ``value`` doesn't fit."""
        part = self.path / "exit.part"
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            text = json.dumps(value).encode("ascii")
            if len(text) > LARGEST_END:
                text = json.dumps(small).encode("ascii")
            try:
                _overwrite(fd, text)
            except OSError:
                text = json.dumps(small).encode("ascii")
                _overwrite(fd, text)
            os.ftruncate(fd, len(text))
            os.fsync(fd)
        finally:
            os.close(fd)
        part.replace(self.path / "exit.json")
        sync_directory(self.path)

    def write_conf(self, text: str) -> None:
        """Makes nccl.conf, for NCCL_CONF_FILE to name; like the directory it is for our eyes alone. Raises OSError."""
        fd = os.open(self.path / "nccl.conf", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
            file.flush()
            os.fsync(fd)

    def supervisor(self) -> processes.Process | None:
        """The living supervisor of this run, None when there is none (any more)."""
        state = self.state()
        if state is None or self.run()["boot_id"] != machine.boot_id():
            return None
        process = processes.look(int(state["supervisor"]["pid"]))
        if process is None or process.ended or process.start != state["supervisor"]["start"]:
            return None
        return process

    def streams(self) -> list[str]:
        """Names of the streams that have a log, workers first, in order of local rank."""
        try:
            names = [entry.stem for entry in self.logs.iterdir() if entry.suffix == ".log" and STREAM.match(entry.stem)]
        except FileNotFoundError:
            return []
        return sorted(names, key=lambda name: (name.startswith("launcher"), len(name), name))


def _overwrite(fd: int, text: bytes) -> None:
    place = 0
    while place < len(text):
        place += os.pwrite(fd, text[place:], place)


def here(state: Path, run_id: str) -> Iterator[RunDir]:
    """The directories of a run that belong to this machine, also those from before it restarted."""
    host, this = machine.host_id(), machine.machine_id()
    parent = state / "runs" / run_id
    if not parent.is_dir():
        return
    for entry in sorted(parent.iterdir()):
        if not re.match(r"[0-9]+-", entry.name):
            continue  # one that is being made or removed
        found = RunDir(entry)
        if entry.name.endswith("-" + this) or found.run().get("host") == host:
            yield found


def find(state: Path, run_id: str, node_rank: int) -> RunDir:
    """A node's part of a run; refuses with `unknown_run`. The newest of several (a restart lies between them)."""
    parts = [part for part in here(state, check_run_id(run_id)) if part.node_rank == node_rank]
    if not parts:
        raise Refusal("unknown_run", f"run {run_id} has no node_rank {node_rank} on that host")
    return max(parts, key=lambda part: float(part.run()["prepared_at"]))
