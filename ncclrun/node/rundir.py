"""A run's directory on this machine: its files by name, and how they are written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Iterator

from . import endrecord, machine, processes
from .refusal import Refusal

RUN_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")
STREAM = re.compile(r"(?:[0-9]{1,5}|launcher)\.(?:out|err)\Z")
CLAIM = re.compile(r"[0-9]{1,9}\Z")
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


def publish(part: Path, final: Path) -> bool:
    """Gives a whole file its final name, for good; False, and nothing of ``part`` stays, where that name is taken."""
    try:
        os.link(part, final)  # which, unlike a rename, replaces nothing
    except FileExistsError:
        part.unlink()
        return False
    except OSError:
        if final.exists():
            part.unlink()
            return False
        part.replace(final)  # a file system without links
    else:
        part.unlink()
    sync_directory(final.parent)
    return True


def sync_directory(path: Path) -> None:
    """Makes a rename survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _record(data: bytes) -> dict[str, Any] | None:
    """None where it is none."""
    try:
        value = json.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


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

    def _bytes(self, name: str) -> bytes | None:
        """None where it is not there."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def _json(self, name: str) -> dict[str, Any] | None:
        """None where it is not there, and where somebody, or a disk, has damaged it."""
        data = self._bytes(name)
        return None if data is None else _record(data)

    def run(self) -> dict[str, Any]:
        """run.json; FileNotFoundError when it is gone, or damaged."""
        value = self._json("run.json")
        if value is None:
            raise FileNotFoundError(str(self.path / "run.json"))
        return value

    def state(self) -> dict[str, Any] | None:
        """state.json, None before the start."""
        return self._json("state.json")

    def end(self) -> dict[str, Any] | None:
        """exit.json, None before the end; a damaged one says nothing but that."""
        data = self._bytes("exit.json")  # once: one that is not there now may be there, and sound, a moment later
        value = None if data is None else _record(data)
        if data is None or value is not None:
            return value
        path = self.path / "exit.json"
        at = path.stat().st_mtime
        said = endrecord.record(reason="lost", detail=f"{path} is damaged", started_at=at, ranks=[], survivors=[])
        return {**said, "ended_at": at}

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
        publish(part, self.path / "exit.json")

    def write_lost(self, record: dict[str, Any]) -> None:
        """The end of a part whose supervisor wrote none; nothing where there is one by then. Raises OSError."""
        part = self.path / f"exit.{os.urandom(4).hex()}.part"
        try:
            write_whole(part, record)
            publish(part, self.path / "exit.json")
        finally:
            if part.exists():
                part.unlink()

    def write_peers(self, peers: dict[int, float | None]) -> None:
        """Replaces peers.json; it is old in seconds, so it is not made to survive anything. Raises OSError."""
        part = self.path / "peers.part"
        part.write_text(json.dumps(peers), "ascii")
        part.replace(self.path / "peers.json")

    def peers(self) -> dict[str, float | None] | None:
        """peers.json: seconds of silence by node_rank; None on nodes that don't know."""
        return self._json("peers.json")

    def heard(self) -> dict[str, float | None]:
        """When each other supervisor that this one knows of was heard last, by our clock; None: it has said its end."""
        peers = self.peers()
        if peers is None:
            return {}
        written = (self.path / "peers.json").stat().st_mtime
        return {rank: None if silent is None else written - silent for rank, silent in peers.items()}

    def complain_on_stderr(self) -> None:
        """From now on what this process writes to stderr is kept in supervisor.log. Raises OSError."""
        fd = os.open(self.complaints, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.dup2(fd, 2)
        os.close(fd)

    def restore(self, facts: dict[str, Any]) -> None:
        """Makes a part that somebody has removed under its run again (``facts``: its run.json). Raises OSError."""
        for path in (self.logs, self.pipes, self.path / "torch"):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self.path / "exit.part").exists():
            self.reserve(int(facts["nproc"]))
        write_whole(self.path / "run.json", facts)

    # --- who may start it, and who gives orders

    def take(self) -> bool:
        """Makes it ours to start, or to take away unstarted; False where somebody was faster. Raises OSError."""
        try:
            os.mkfifo(self.control, 0o600)  # of two who try at once one makes it
        except FileExistsError:
            return False
        return True

    def order(self, order: dict[str, Any] | None) -> bool:
        """Gives the supervisor an order, if any; False when none reads, or one that reads nothing any more."""
        try:
            fd = os.open(self.control, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False  # ENXIO: it has just gone
        try:
            if order is not None:
                os.write(fd, json.dumps(order).encode("ascii") + b"\n")
        except OSError:
            return False
        finally:
            os.close(fd)
        return True

    def last_claim(self) -> tuple[int, dict[str, Any]]:
        """The highest epoch that was claimed, and by whom: {by, host, since}; (0, {}) where nobody did."""
        directory = self.path / "claims"
        entries = directory.iterdir() if directory.is_dir() else ()
        epoch = max((int(entry.name) for entry in entries if CLAIM.match(entry.name)), default=0)
        return epoch, (self._json(f"claims/{epoch}") or {}) if epoch else {}

    def claim(self, epoch: int | None, who: dict[str, Any]) -> int | None:
        """Claims an epoch above all others, the next one for None; the epoch, or None where it is too low.

        Raises OSError.
        """
        directory = self.path / "claims"
        directory.mkdir(mode=0o700, exist_ok=True)
        while True:
            last = self.last_claim()[0]
            wanted = last + 1 if epoch is None else epoch
            if wanted <= last:
                return None
            part = directory / f".{os.urandom(4).hex()}.part"
            write_whole(part, who)
            if publish(part, directory / str(wanted)):
                return wanted

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

    def keepers(self) -> list[processes.Process]:
        """The living supervisor, and its warden: the parent that is of its session; where that is dead, init is not."""
        owner = self.supervisor()
        above = None if owner is None else processes.look(owner.ppid)
        with contextlib.suppress(ProcessLookupError):  # they go at this moment
            if owner is not None and above is not None and os.getsid(above.pid) == os.getsid(owner.pid):
                return [owner, above]
        return [] if owner is None else [owner]

    def lives(self) -> bool:
        """Whether it has a supervisor; where no state tells of one, whether anybody reads the orders."""
        return self.order(None) if self.state() is None else self.supervisor() is not None

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


def every(state: Path) -> Iterator[RunDir]:
    """The parts of all runs that belong to this machine; what can't be read (root's, half removed) is left out."""
    base = state / "runs"
    for entry in sorted(base.iterdir()) if base.is_dir() else []:
        if RUN_ID.match(entry.name):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                yield from list(here(state, entry.name))


def find(state: Path, run_id: str, node_rank: int) -> RunDir:
    """A node's part of a run; refuses with `unknown_run`. The newest of several (a restart lies between them)."""
    parts = [part for part in here(state, check_run_id(run_id)) if part.node_rank == node_rank]
    if not parts:
        raise Refusal("unknown_run", f"run {run_id} has no node_rank {node_rank} on that host")
    return max(parts, key=lambda part: float(part.run()["prepared_at"]))
