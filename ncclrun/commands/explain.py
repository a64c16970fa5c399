"""`ncclrun explain`: the logs of a run, or files, or standard input, through the one engine to one diagnosis."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from ncclrun.commands.bundle import write
from ncclrun.commands.control import Control, Interrupted
from ncclrun.commands.history import RunDir, find_run
from ncclrun.commands.logfiles import Place
from ncclrun.commands.logs import kept_logs, read_logs
from ncclrun.commands.reading import BROKEN, Source, feed, files_of, is_folder, is_there
from ncclrun.commands.source import near_misses
from ncclrun.diagnosis.explain.judge import Recorded, judge
from ncclrun.diagnosis.explain.scan import CUT, LogScan, Progress
from ncclrun.diagnosis.pages import IDS, page
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import EXIT_INTERRUPTED, UsageError
from ncclrun.model.events import Event, Log, Warn
from ncclrun.model.explainevents import Explained, FindingPage, Verdict
from ncclrun.model.words import listed
from ncclrun.transport.base import Transport

STDIN = "<stdin>"
QUIET = 2.0
"""Seconds after which it is told that a pipe or a terminal is waited for."""
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
_RANK = re.compile(r"(?<![a-z])rank[-_.]?(\d{1,6})(?!\d)")


def explain(
    targets: Sequence[str],
    transport: Transport,
    control: Control,
    stdin: int = 0,
    *,
    bundle: Path | None = None,
    mask: bool = False,
) -> Iterator[Event]:
    """The diagnosis of a run (the last one by default), or of files, directories and ``-`` (the descriptor ``stdin``).

    An id of a fault gives its page. Ends with Ended. ``bundle`` is where it is written with the logs, ``mask`` without
    addresses and names. Raises UsageError for what is none of these.
    """
    if "" in targets:  # which as a path is this directory with all that lies in it
        raise UsageError("an empty name is given", fix='a variable of the shell may not be set: echo "$NAME"')
    if _is_page(targets):
        yield FindingPage(id=targets[0], text=page(targets[0]))
        yield Ended(run_id="", exit_code=0, reason=f"the page of {targets[0]}", seconds=0.0)
        return
    kept = _kept(targets)
    run = kept or (None if _are_files(targets) else _run(targets))
    try:
        if run is None:
            scans = yield from _of_files(targets, control, stdin)
        else:
            logs = kept_logs(run, CUT) if kept else read_logs(run.run_id, transport, control, cut=CUT)
            scans = yield from _of_run(logs, control)
        found = _judged(scans, run)
        yield found
        if bundle is not None:
            yield write(bundle, found, scans, run, control, mask=mask)
    except Interrupted:
        yield Ended(run_id="", exit_code=EXIT_INTERRUPTED, reason="interrupted", seconds=0.0)
        return
    code = EXIT_UNKNOWN if found.verdict in ("consequence", "nothing") else 0
    yield Ended(run_id=found.run_id, exit_code=code, reason=SAID[found.verdict], seconds=0.0)


def _judged(scans: Sequence[LogScan], run: RunDir | None) -> Explained:
    if run is None:
        return judge(scans)
    end = run.end() or {}
    known = {name: end[name] for name in ("reason", "cause", "rank", "hint") if name in end}
    return judge(scans, Recorded(run_id=run.run_id, cluster=run.cluster(), **known))


def _are_files(targets: Sequence[str]) -> bool:
    return bool(targets) and all(target == "-" or "/" in target or is_there(Path(target)) for target in targets)


def _is_page(targets: Sequence[str]) -> bool:
    """Whether it is a fault's id that is named, and neither a file nor a run."""
    if len(targets) != 1 or targets[0] not in IDS or _are_files(targets):
        return False
    try:
        find_run(targets[0])
    except UsageError:
        return True
    return False


def _run(targets: Sequence[str]) -> RunDir:
    if len(targets) > 1:
        missing = next(target for target in targets if target != "-" and not is_there(Path(target)))
        raise UsageError(
            f"there is no file {shlex.quote(missing)}", fix="several targets are to be files; a run is one"
        )
    try:
        return find_run(targets[0] if targets else None)
    except UsageError as error:
        if not targets:
            raise
        message = f"there is neither a file nor a run nor a fault {shlex.quote(targets[0])}"
        raise UsageError(message, fix=_meant(targets[0]) or error.fix) from error


def _meant(name: str) -> str:
    """Which fault or file may be meant by a name that nothing has."""
    try:
        files = [item.name for item in Path().iterdir()]
    except OSError:  # a directory that can't be listed has no names to offer
        files = []
    close = get_close_matches(name, [*IDS, *files], cutoff=0.75)
    return f"did you mean {' or '.join(map(shlex.quote, close))}?" if close else ""


def _kept(targets: Sequence[str]) -> RunDir | None:
    """The run whose directory that is, as ncclrun keeps it: here, or brought from another machine."""
    run = RunDir(Path(targets[0]).resolve()) if len(targets) == 1 and is_folder(Path(targets[0])) else None
    return run if run and (run.path / "run.json").is_file() and (run.logs / "order").is_file() else None


def _of_run(logs: Iterable[Event], control: Control) -> Generator[Event, None, list[LogScan]]:
    scans: dict[str, LogScan] = {}
    progress: dict[tuple[int, int | None], Progress] = defaultdict(Progress)
    for event in logs:
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


def _of_files(targets: Sequence[str], control: Control, stdin: int) -> Generator[Event, None, list[LogScan]]:
    scans: list[LogScan] = []
    for target in dict.fromkeys(targets):
        path = Path(target)
        if target != "-" and is_folder(path):
            yield from _of_directory(path, control, scans, alone=len(targets) == 1)
            continue
        if target != "-" and not is_there(path):
            fix = near_misses(path, (".log", ".err", ".out"))
            raise UsageError(f"there is no file {shlex.quote(target)}", fix=fix)
        yield from _of_file(None if target == "-" else path, control, scans, stdin, alone=len(targets) == 1)
    if not any(scan.lines for scan in scans):
        raise UsageError(f"there is nothing to read in {listed(targets)}", fix="name the file that has the output")
    return scans


def _of_directory(folder: Path, control: Control, scans: list[LogScan], *, alone: bool) -> Iterator[Event]:
    files, closed, more = files_of(folder, control)
    for error in closed:
        yield Warn(text=f"{error.filename} can't be looked into: {error.strerror}")
    if not files:
        empty = UsageError(f"there is no file in {folder}", fix="name the directory that has the logs")
        if alone:
            raise empty
        yield Warn(text=empty.message, fix=empty.fix)
    before = len(scans)
    no_text: list[Path] = []
    for file in files:
        yield from _of_file(file, control, scans, alone=alone and len(files) == 1, no_text=no_text)
    if no_text:
        what = f"{folder}: {len(no_text)} files are no text and are left out"
        yield Warn(text=what, fix=f"name one to have it read, as {shlex.quote(str(no_text[0]))}")
    if more:
        yield Warn(text=f"{folder} has more files: only {len(scans) - before} were read", fix="name fewer")


def _of_file(
    path: Path | None,
    control: Control,
    scans: list[LogScan],
    stdin: int = -1,
    *,
    alone: bool,
    no_text: list[Path] | None = None,
) -> Iterator[Event]:
    """One file, or the descriptor; what is no text is read all the same unless there is a list for it."""
    name = STDIN if path is None else str(path)
    scan = LogScan(name, rank=None if path is None else _rank(path))
    try:
        with Source(path, stdin, control) as source:
            if source.silent(QUIET):
                yield Warn(text=f"{name} has said nothing yet, and is waited for", fix="Ctrl-C leaves it")
            if path is not None and no_text is not None and not source.is_text():
                no_text.append(path)  # a checkpoint beside the logs
                return
            feed(scan, source.pieces())
    except BROKEN as error:
        reason = getattr(error, "strerror", None) or str(error)
        if scan.lines:
            yield Warn(text=f"{name} is read only up to line {scan.lines}: {reason}")
        elif alone:
            fix = f"look at it:  ls -ld {shlex.quote(name)}"
            raise UsageError(f"{name} can't be read: {reason}", fix=fix) from error
        else:
            yield Warn(text=f"{name} can't be read and is left out: {reason}")
            return
    except UsageError as error:
        if alone:
            raise
        yield Warn(text=f"{error.message}; left out", fix=error.fix)
        return
    scans.append(scan)


def _rank(file: Path) -> int | None:
    named = _RANK.search(file.name)
    return int(named[1]) if named else None
