"""A run's logs on this machine: where each stream lies, and who may add to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from errno import ENOSPC
from fcntl import LOCK_EX, LOCK_NB, flock
from io import FileIO
from os import SEEK_END, strerror
from pathlib import Path
from typing import Protocol

from ncclrun.commands.history import STATE_FIX, RunDir
from ncclrun.model.amounts import size_text
from ncclrun.model.cluster import Node
from ncclrun.model.errors import NcclrunError, UsageError
from ncclrun.model.events import Warn

OPEN_FILES = 256
"""Log files held open at a time: a large run has more streams than a process may have descriptors."""


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


def gap(node: Node, place: Place, size: int) -> Warn:
    """Says that so many bytes of a stream are nowhere."""
    who = "its launcher" if place.rank is None else f"rank {place.rank}"
    return Warn(
        node=node.name,
        text=f"{size_text(size)} of {who}'s std{place.stream} are not kept: nobody had fetched them, and the node has "
        f"the last {node.launch.log_limit} of a stream (launch.log_limit), nothing of a run directory that was removed",
        fix="set a larger launch.log_limit, or let an ncclrun follow the run",
    )


def sizes(logs: Path, place_of: Callable[[str], Place], nproc: int) -> dict[str, int]:
    """Bytes in ``logs`` of each stream of a node, by the node's name for the stream."""
    names = [f"{who}.{kind}" for who in ("launcher", *range(nproc)) for kind in ("out", "err")]
    files = {name: logs / place_of(name).filename for name in names}
    return {name: file.stat().st_size if file.exists() else 0 for name, file in files.items()}


class LogSink(Protocol):
    """Where a follower puts the bytes of the streams."""

    lost: int
    trouble: str

    def append(self, place: Place, when: float, data: bytes) -> None:
        """Takes the next bytes of a stream."""

    def skip(self, place: Place, when: float, size: int) -> None:
        """The next ``size`` bytes of a stream are nowhere."""

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

    def skip(self, place: Place, when: float, size: int) -> None:
        """As nothing is kept, nothing is missing."""

    def offsets(self, place_of: Callable[[str], Place], nproc: int) -> dict[str, int]:
        """Nothing is here."""
        return {}

    def close(self) -> None:
        """Nothing is open."""


class ReadAlong(NoLogs):
    """Keeps nothing, and begins where the logs that another one writes here are now."""

    def __init__(self, run: RunDir) -> None:
        self._logs = run.logs

    def offsets(self, place_of: Callable[[str], Place], nproc: int) -> dict[str, int]:
        """What is here of each stream."""
        return sizes(self._logs, place_of, nproc)


class LogsTaken(UsageError):
    """Another ncclrun writes this run's logs here."""


class LogWriter:
    """Appends what the nodes send, byte for byte, and notes the order in which it came.

    What is here of a stream is its beginning, without a gap of ours: once the disk has refused bytes of it, none that
    come later are taken, so that the size always says where a reader of the node resumes. What the node had let go is a
    hole, and a line of the order file that ends in `missing`.
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
            raise LogsTaken(message, fix=f"ncclrun logs -f {run.run_id} reads along") from error
        except OSError:
            pass  # a file system without locks

    def offsets(self, place_of: Callable[[str], Place], nproc: int) -> dict[str, int]:
        """Where a reader of the node resumes: bytes that are here, by the node's name for the stream."""
        return sizes(self._logs, place_of, nproc)

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
            self.trouble = self.trouble or "it took a part only"

    def skip(self, place: Place, when: float, size: int) -> None:
        """Leaves a hole, told first; where the disk refuses either, the stream ends here."""
        name = place.filename
        try:
            if name not in self._cut:
                file = self._file(name)
                offset = file.tell()
                if not self._note(b"%.6f %s %d %d missing\n" % (when, name.encode(), offset, size)):
                    raise OSError(ENOSPC, strerror(ENOSPC))
                file.truncate(offset + size)
                file.seek(0, SEEK_END)
        except OSError as error:
            self.trouble = error.strerror or str(error)
            self._cut.add(name)

    def _note(self, line: bytes) -> bool:
        """A line of the order file, whole or not at all; without it the bytes show when the stream's next ones do."""
        before = self._order.tell()
        whole = self._order.write(line) == len(line)
        if not whole:
            self._order.truncate(before)
            self._order.seek(before)
        return whole

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
