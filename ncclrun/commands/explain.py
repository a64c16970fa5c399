"""`ncclrun explain`: the logs of a run, or files, or standard input, through the one engine to one diagnosis."""

from __future__ import annotations

import codecs
import gzip
import re
import shlex
import zlib
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from ncclrun.commands.bundle import write
from ncclrun.commands.control import Control, Interrupted
from ncclrun.commands.history import RunDir, find_run
from ncclrun.commands.logfiles import Place
from ncclrun.commands.logs import read_logs
from ncclrun.commands.member import Member
from ncclrun.diagnosis.explain.judge import Recorded, judge
from ncclrun.diagnosis.explain.scan import LogScan, Progress
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import EXIT_INTERRUPTED, UsageError
from ncclrun.model.events import Event, Log, Warn
from ncclrun.model.explainevents import Verdict
from ncclrun.model.lines import LineAssembler
from ncclrun.transport.base import Transport

STDIN = "<stdin>"
BLOCK = 1 << 20
MOST_FILES = 5000
"""Of directories; what lies beyond is told and not read."""
SNIFFED = 1024
"""Bytes of a file by which a text is told from what is none."""
MOST_AT_END = 32 << 20
"""Bytes of a run's logs that are looked at when it ends: a launch is to end within seconds."""
EXIT_UNKNOWN = 1
"""Something failed, or may have, and no cause of it is found."""
SAID: dict[Verdict, str] = {
    "cause": "the cause is named above",
    "component": "what failed is named above, its cause is not known",
    "failed": "who failed first is named above, its logs do not say why",
    "stopped": "the run was stopped, and shows no fault before that",
    "consequence": "only consequences were found, their cause is in none of these logs",
    "healthy": "no sign of a fault",
    "nothing": "no known fault, and no sign of success either",
}
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_RANK = re.compile(r"(?<![a-z])rank[-_.]?(\d{1,6})(?!\d)")


def explain(
    targets: Sequence[str],
    transport: Transport,
    control: Control,
    stdin: BinaryIO | None = None,
    *,
    bundle: Path | None = None,
    mask: bool = False,
) -> Iterator[Event]:
    """The diagnosis of a run (the last one by default), or of files, directories and ``-``; ends with Ended.

    ``bundle`` is where it is written with the logs, ``mask`` without addresses and names. Raises UsageError for what is
    neither a file nor a run.
    """
    run = None if _are_files(targets) else _run(targets)
    try:
        scans = yield from (_of_run(run, transport, control) if run else _of_files(targets, control, stdin))
    except Interrupted:
        yield Ended(run_id="", exit_code=EXIT_INTERRUPTED, reason="interrupted", seconds=0.0)
        return
    if run is None:
        found = judge(scans)
    else:
        end = run.end() or {}
        known = {name: end[name] for name in ("reason", "cause", "rank", "hint") if name in end}
        found = judge(scans, Recorded(run_id=run.run_id, cluster=_cluster(run), **known))
    yield found
    if bundle is not None:
        yield write(bundle, found, scans, run, mask=mask)
    code = EXIT_UNKNOWN if found.verdict in ("consequence", "nothing") else 0
    yield Ended(run_id=found.run_id, exit_code=code, reason=SAID[found.verdict], seconds=0.0)


def _cluster(run: RunDir) -> str:
    """What named its cluster on the command line."""
    return str((run.read("run.json") or {}).get("source") or "")


def _are_files(targets: Sequence[str]) -> bool:
    return bool(targets) and all(target == "-" or "/" in target or Path(target).exists() for target in targets)


def _run(targets: Sequence[str]) -> RunDir:
    if len(targets) > 1:
        missing = next(target for target in targets if target != "-" and not Path(target).exists())
        raise UsageError(
            f"there is no file {shlex.quote(missing)}", fix="several targets are to be files; a run is one"
        )
    try:
        return find_run(targets[0] if targets else None)
    except UsageError as error:
        if not targets:
            raise
        message = f"there is neither a file nor a run {shlex.quote(targets[0])}"
        raise UsageError(message, fix=error.fix) from error


def _of_run(run: RunDir, transport: Transport, control: Control) -> Generator[Event, None, list[LogScan]]:
    scans: dict[str, LogScan] = {}
    progress: dict[tuple[int, int | None], Progress] = defaultdict(Progress)
    for event in read_logs(run.run_id, transport, control):
        control.check()
        if not isinstance(event, Log):
            yield event
            continue
        name = Place(event.node_rank, event.rank, event.stream).filename
        scan = scans.get(name)
        if scan is None:
            scan = scans[name] = LogScan(name, event.node, event.rank, progress[event.node_rank, event.rank])
        scan.feed(event.text)
    return list(scans.values())


def of_run_here(run: RunDir, members: Sequence[Member]) -> list[LogScan]:
    """What lies here of a run's logs, at most MOST_AT_END bytes: of each stream the beginning and the end."""
    places = [
        (member, Place(member.node_rank, rank, stream))
        for member in members
        for rank in (None, *range(member.first_rank, member.first_rank + member.nproc))
        for stream in ("out", "err")
    ]
    scans = []
    for member, place in places:
        file = run.logs / place.filename
        if file.is_file():
            scan = LogScan(place.filename, member.node.name, place.rank)
            with file.open("rb") as stream:
                _feed(scan, _head_and_tail(stream, MOST_AT_END // (2 * len(places))))
            scans.append(scan)
    return scans


def _head_and_tail(stream: BinaryIO, share: int) -> Iterator[bytes]:
    yield stream.read(share)
    size = stream.seek(0, 2)
    if size > share:
        stream.seek(max(share, size - share))
        yield stream.read(share)


def _of_files(
    targets: Sequence[str], control: Control, stdin: BinaryIO | None
) -> Generator[Event, None, list[LogScan]]:
    scans = []
    for target in targets:
        if target == "-":
            if stdin is None:
                raise UsageError("standard input is closed", fix="ncclrun explain - < FILE")
            scans.append(LogScan(STDIN))
            _read(scans[-1], stdin.read, control)
            continue
        files = _files(Path(target))
        left_out = 0
        for file in files[:MOST_FILES]:
            try:
                with file.open("rb") as stream:
                    start = stream.peek(SNIFFED)[:SNIFFED]
                    packed = start.startswith(b"\x1f\x8b")
                    if b"\0" in start and not packed and not start.startswith(_UTF16) and Path(target).is_dir():
                        left_out += 1  # a checkpoint beside the logs
                        continue
                    read = gzip.GzipFile(fileobj=stream).read1 if packed else stream.read
                    scan = LogScan(str(file), rank=_rank(file))
                    scans.append(scan)
                    _read(scan, read, control)
            except (OSError, EOFError, zlib.error) as error:
                reason = getattr(error, "strerror", None) or str(error)
                broken = scans.pop() if scans and scans[-1].name == str(file) else None
                if broken and broken.lines:
                    scans.append(broken)
                    yield Warn(text=f"{file} is read only up to line {broken.lines}: {reason}")
                    continue
                if len(files) == 1:
                    fix = f"look at it:  ls -ld {shlex.quote(str(file))}"
                    raise UsageError(f"{file} can't be read: {reason}", fix=fix) from error
                yield Warn(text=f"{file} can't be read and is left out: {reason}")
        if left_out:
            yield Warn(text=f"{target}: {left_out} files are no text and are left out", fix="name one to have it read")
        if len(files) > MOST_FILES:
            yield Warn(text=f"{target} has {len(files)} files: only the first {MOST_FILES} were read", fix="name fewer")
    return scans


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise UsageError(f"there is no file {shlex.quote(str(path))}", fix="ncclrun runs   lists this machine's runs")
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.is_file())
    if not files:
        raise UsageError(f"there is no file in {shlex.quote(str(path))}", fix="name the directory that has the logs")
    return files


def _rank(file: Path) -> int | None:
    named = _RANK.search(file.name)
    return int(named[1]) if named else None


def _read(scan: LogScan, read: Callable[[int], bytes], control: Control) -> None:
    def pieces() -> Iterator[bytes]:
        first = read(BLOCK)
        # Windows' shells write UTF-16, and a mark before it that tells so.
        decode = codecs.getincrementaldecoder("utf-16")("replace").decode if first.startswith(_UTF16) else None
        for piece in chain([first], iter(lambda: read(BLOCK), b"")):
            control.check()
            yield piece if decode is None else decode(piece).encode("utf-8", "replace")

    _feed(scan, pieces())


def _feed(scan: LogScan, pieces: Iterable[bytes]) -> None:
    lines = LineAssembler()
    try:
        for piece in pieces:
            whole = lines.feed(piece)
            if whole is not None:
                scan.feed(whole)
    finally:  # of a file that breaks off, what came before is a log too
        rest = lines.flush()
        if rest is not None:
            scan.feed(rest)


def with_finding(run: RunDir, ended: Ended, members: Sequence[Member]) -> Ended:
    """The end of a run that failed or hung, with the fault that its logs show, if they are here and one is known."""
    if ended.cause is None and ended.reason not in ("timeout", "stalled"):
        return ended
    try:
        scans = of_run_here(run, members)
    except OSError:  # the end is told all the same, and `explain` says what can't be read
        return ended
    rank = ended.cause.rank if ended.cause else None
    found = judge(scans, Recorded(reason=ended.reason, rank=rank, cluster=_cluster(run)))
    known = found.verdict in ("cause", "component") and found.found is not None and found.found.id != "program"
    return replace(ended, finding=found.found) if known else ended
