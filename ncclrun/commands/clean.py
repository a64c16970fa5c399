"""`ncclrun clean`: old run directories here and on the nodes, oldest first; never one of a run that lives."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from types import TracebackType

from pydantic import TypeAdapter

from ncclrun.commands.answers import read_answer
from ncclrun.commands.asking import Asking, unique_nodes, way_to
from ncclrun.commands.control import Control
from ncclrun.commands.history import RunDir, all_runs, find_run
from ncclrun.commands.recorded import run_nodes, starter_lives
from ncclrun.model.cluster import ClusterSpec, Node
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import EXIT_UNREACHABLE, NcclrunError
from ncclrun.model.events import Event
from ncclrun.model.runevents import Cleaned, KeptRun, OldRun
from ncclrun.model.words import listed
from ncclrun.transport.base import Transport

CLEAN_TIMEOUT = 630.0
"""Seconds for a node to remove what may be many directories: what it allows itself, and some."""


@dataclass(frozen=True)
class Wish:
    """What may go: named runs, else what ended ``older_than`` seconds ago, else what ``keep_size`` bytes don't hold.

    ``here``: no node is asked, and only what this machine keeps goes.
    """

    run_ids: tuple[str, ...] = ()
    older_than: float | None = None
    keep_size: int | None = None
    here: bool = False


@dataclass(frozen=True)
class _There:
    """A node's answer."""

    removed: tuple[OldRun, ...]
    kept: tuple[KeptRun, ...]
    code: int


@dataclass(frozen=True)
class _Record:
    """What this machine keeps of a run; ``why`` it stays whatever the nodes say, "" if it may go."""

    run: RunDir
    ended: float | None
    at: float
    """When it ended or, where that is not known, was started."""
    size: int
    why: str


_ANSWER = TypeAdapter(_There)


class Clean:
    """One `clean`: ``preview`` says what would go, ``remove`` does it. As a context it holds the nodes' channels.

    With a ``cluster`` its nodes are asked for all runs of this user, else the nodes of this machine's own old runs for
    those alone.
    """

    def __init__(self, wish: Wish, cluster: ClusterSpec | None, transport: Transport, control: Control) -> None:
        self._wish = wish
        self._whole = cluster is not None
        if not self._whole:
            for run_id in wish.run_ids:
                find_run(run_id)  # a slip of the pen is told before anything else
        self._records = _chosen(_records(), wish)
        nodes: Sequence[Node] = cluster.nodes if cluster is not None else _nodes_of(self._to_go())
        self._asking = Asking(() if wish.here else nodes, transport, control)
        self._began = time.monotonic()
        self._busy: dict[str, str] = {}
        """Why a run must stay here: what lives of it, and where."""

    def _to_go(self) -> list[_Record]:
        """Of the chosen records those that may go if their nodes agree."""
        return [
            record for record in self._records if record.ended is not None or record.run.run_id in self._wish.run_ids
        ]

    def __enter__(self) -> Clean:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._asking.__exit__(kind, error, trace)

    def preview(self, *, dry_run: bool) -> Iterator[Event]:
        """A Cleaned for each place says what would go; then Ended where that is nothing, or with ``dry_run``."""
        if self._asking.nodes:
            yield from self._asking.connect()
        found = list(self._everywhere(dry_run=True))
        yield from found
        if not any(place.removed or place.code for place in found):
            yield self._ended("nothing to remove")
        elif dry_run:
            yield self._ended("dry run: nothing was removed")

    def remove(self) -> Iterator[Event]:
        """Removes; a Cleaned for each place, then Ended: 255 where a host was not reached."""
        found = list(self._everywhere(dry_run=False))
        yield from found
        yield self._ended("removed")

    def _everywhere(self, *, dry_run: bool) -> Iterator[Cleaned]:
        """The nodes first: what lives there keeps its record here."""
        named = list(self._wish.run_ids) or None
        by_age = self._whole and named is None
        if not self._whole:
            named = [record.run.run_id for record in self._to_go()]
        arguments = {
            "run_ids": named,
            "older_than": self._wish.older_than if by_age else None,
            "keep_size": self._wish.keep_size if by_age else None,
            "dry_run": dry_run,
        }
        found: dict[int, Cleaned] = {}
        for place, answer in self._asking.ask("clean", CLEAN_TIMEOUT, arguments):
            node = self._asking.nodes[place]
            there = read_answer(_ANSWER, answer, f"{node.name}: what it says of its old runs makes")
            for kept in there.kept:
                self._busy[kept.run_id] = f"{node.name}: {kept.why}"
            found[place] = Cleaned(
                node=node.name,
                host=node.host,
                removed=there.removed,
                kept=there.kept,
                code=there.code,
                dry_run=dry_run,
            )
        yield from (found[place] for place in sorted(found))
        yield self._here(dry_run=dry_run)

    def _here(self, *, dry_run: bool) -> Cleaned:
        removed, kept = [], []
        for record in self._records:
            why = record.why or self._busy.get(record.run.run_id, "") or self._unknown(record)
            if not why and not dry_run:
                why = _remove(record.run)
            if why:
                kept.append(KeptRun(run_id=record.run.run_id, node_rank=None, size=record.size, why=why))
            else:
                removed.append(
                    OldRun(run_id=record.run.run_id, node_rank=None, size=record.size, ended_at=record.ended)
                )
        return Cleaned(node="", host="", removed=tuple(removed), kept=tuple(kept), code=0, dry_run=dry_run)

    def _unknown(self, record: _Record) -> str:
        """Why a record is still needed: to find what lies, or lives, on nodes that we did not hear."""
        if record.ended is None and record.run.run_id not in self._wish.run_ids:
            return f"its end is not known here; ncclrun attach {record.run.run_id} learns it"
        if self._wish.here:
            return ""
        heard = {way_to(self._asking.nodes[place]) for place in self._asking.sessions if place not in self._asking.lost}
        silent = [one.node.name for one in run_nodes(record.run) if way_to(one.node) not in heard]
        if not silent or (self._whole and record.ended is not None):
            return ""
        return f"{listed(silent, 4)} not reached; --here removes what is kept here all the same"

    def _ended(self, reason: str) -> Ended:
        lost = listed([self._asking.nodes[place].name for place in sorted(self._asking.lost)])
        return Ended(
            run_id="",
            exit_code=EXIT_UNREACHABLE if lost else 0,
            reason=f"{reason}; not reached: {lost}" if lost else reason,
            seconds=time.monotonic() - self._began,
        )


def _nodes_of(records: Sequence[_Record]) -> list[Node]:
    return unique_nodes([one.node for record in records for one in run_nodes(record.run)])


# --- what this machine keeps


def _records() -> list[_Record]:
    """All of them, oldest first; a damaged one can't be judged and stays."""
    found = []
    for run in all_runs():
        try:
            record, end = run.read("run.json") or {}, run.end()
            run_nodes(run)
            ended = None if end is None else float(end["ended_at"])
            at = ended if ended is not None else float(record["started_at"])
        except (NcclrunError, KeyError, TypeError, ValueError):
            continue
        why = f"an ncclrun follows it here (pid {record['pid']})" if starter_lives(record) else ""
        found.append(_Record(run, ended, at, sum(_size(path) for path in _own(run)), why))
    return sorted(found, key=lambda record: record.at)


def _chosen(records: Sequence[_Record], wish: Wish) -> list[_Record]:
    """The records that the wish is about, oldest first."""
    if wish.run_ids:
        return [record for record in records if record.run.run_id in wish.run_ids]
    now = time.time()
    old = [record for record in records if wish.older_than is not None and now - record.at > wish.older_than]
    if wish.keep_size is not None:
        total = sum(record.size for record in records) - sum(record.size for record in old)
        for record in records:
            if total <= wish.keep_size:
                break
            if record not in old and record.ended is not None:
                old.append(record)
                total -= record.size
    return old


def _own(run: RunDir) -> list[Path]:
    """What is ours in the directory: a node's own parts (``3-0a1b…``, hidden while they are made) are that node's."""
    with suppress(FileNotFoundError):
        return [path for path in run.path.iterdir() if not path.name.removeprefix(".")[:1].isdigit()]
    return []


def _size(path: Path) -> int:
    """Bytes on the disk of a file or directory, links not followed."""
    with suppress(FileNotFoundError):
        size = path.lstat().st_blocks * 512
        if path.is_dir() and not path.is_symlink():
            size += sum(_size(one) for one in path.iterdir())
        return size
    return 0


def _remove(run: RunDir) -> str:
    """Removes what is ours in the directory; why it is still there, "" if it has gone."""
    try:
        run.logs.mkdir(exist_ok=True)
        with (run.logs / "order").open("ab") as order:
            try:
                flock(order, LOCK_EX | LOCK_NB)  # who attaches holds it, and nobody can while we do
            except BlockingIOError:
                return "an ncclrun follows it here"
            # The record goes last: what is half removed can still be found, and cleaned again.
            for path in sorted(_own(run), key=lambda path: path.name == "run.json"):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        with suppress(OSError):  # a node's own part is in it
            run.path.rmdir()
    except OSError as error:
        return f"it can't be removed: {error.filename}: {error.strerror}"
    return ""
