"""Where the workers of a run are: the Python stacks of each, by py-spy or by the handler that it was armed with."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from importlib.abc import InspectLoader
from pathlib import Path
from typing import Any, NamedTuple

from . import commands, processes, rundir, stackarm, stacktext

PYSPY_SECONDS = 10.0
# A process writes its stacks in a moment, however busy it is; one that sleeps in the kernel never does.
HANDLER_SECONDS = 3.0
LOOK_SECONDS = 0.05
QUIET_LOOKS = 3
MOST_FRAMES = 8000
"""Of all workers of a node: an answer has to fit into one frame (wire.MAX_HEADER)."""
_HEAD = re.compile(rb"main (0x[0-9a-f]+) fd (\d+)\n")


class Armed(NamedTuple):
    """A process's file of stacks: where the next dump begins in it, and its main thread's id."""

    path: Path
    main: str
    size: int


def arm(directory: Path) -> None:
    """Makes the directory that arms a Python whose PYTHONPATH begins with it. Raises OSError."""
    loader = stackarm.__spec__.loader if stackarm.__spec__ is not None else None
    assert isinstance(loader, InspectLoader)
    directory.mkdir(mode=0o700, exist_ok=True)
    (directory / "sitecustomize.py").write_text(loader.get_source(stackarm.__name__) or "", "utf-8")


def _environment(pid: int) -> dict[bytes, bytes]:
    """What a process was started with; {} when it is gone or another's."""
    try:
        text = (processes.PROC / str(pid) / "environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    return dict(item.split(b"=", 1) for item in text.split(b"\0") if b"=" in item)


def _workers(cookie: str) -> tuple[dict[int, processes.Process], dict[int, processes.Process]]:
    """The topmost process of each local rank, and all that lives of the run, by pid."""
    table = {process.pid: process for process in processes.members(lambda found: found == cookie)}
    ranks: dict[int, int] = {}
    for pid in table:
        value = _environment(pid).get(b"LOCAL_RANK", b"")
        if value.isdigit():
            ranks[pid] = int(value)
    found: dict[int, processes.Process] = {}
    for pid, rank in sorted(ranks.items(), key=lambda item: table[item[0]].start):
        # Children have the variable too; an orphan of a worker is younger than it.
        if table[pid].ppid not in ranks:
            found.setdefault(rank, table[pid])
    return found, table


def _below(top: processes.Process, table: dict[int, processes.Process]) -> list[processes.Process]:
    """The worker and what is below it, nearest first, older before younger."""
    found = [top]
    for parent in found:
        children = [process for process in table.values() if process.ppid == parent.pid and process not in found]
        found += sorted(children, key=lambda process: process.start)
    return found


def _armed(directory: Path, process: processes.Process) -> Armed | None:
    """Its file, if this very process is armed and its descriptor still leads there."""
    path = directory / f"{process.pid}-{process.start}.txt"
    try:
        with path.open("rb") as file:
            head = _HEAD.match(file.readline())
            here = os.fstat(file.fileno())
        if head is None:
            return None
        there = (processes.PROC / str(process.pid) / "fd" / head[2].decode("ascii")).stat()
    except OSError:
        return None  # not armed, or gone, or it closed all descriptors: then nothing may be asked of it
    same = (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
    return Armed(path, head[1].decode("ascii"), here.st_size) if same else None


def _is_python(pid: int) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/exe")).name.startswith("python")
    except OSError:
        return False


def _waits_in(pid: int) -> str:
    """The kernel's function that its main thread sleeps in; "" when it does not, or nobody may know."""
    try:
        text = (processes.PROC / str(pid) / "wchan").read_text("ascii").strip()
    except OSError:
        return ""
    return "" if text == "0" else text


def _pyspy_of(pid: int) -> str | None:
    """The py-spy beside the process's Python, or in its PATH."""
    try:
        program = (processes.PROC / str(pid) / "cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return None
    places = [os.path.dirname(program), _environment(pid).get(b"PATH", b"")]  # noqa: PTH120  # bytes
    path = shutil.which("py-spy", path=os.fsdecode(b":".join(place for place in places if place)))
    return path if path is not None and path.startswith("/") else None


def _by_pyspy(program: str, pid: int, seconds: float) -> list[dict[str, Any]]:
    """Raises OSError or ValueError with why there is nothing."""
    output = commands.ask([program, "dump", "--pid", str(pid), "--nonblocking", "--json"], seconds)
    if output.code != 0:
        said = (output.err or output.out).strip().splitlines()[:1]
        raise ValueError(said[0][:200] if said else "py-spy gave no answer")
    return stacktext.pyspy(output.out, pid)


class Rank:
    """One worker, and what was found of its stacks."""

    def __init__(self, local_rank: int, target: processes.Process | None, armed: Armed | None) -> None:
        self.local_rank = local_rank
        self.target = target
        self.armed = armed
        self.how = "none"
        self.stacks: list[dict[str, Any]] = []
        self.error = "" if target is not None else "this rank has no process"

    def by_pyspy(self, seconds: float) -> None:
        """Asks py-spy, if there is one."""
        program = None if self.target is None else _pyspy_of(self.target.pid)
        if self.target is None or program is None:
            return
        try:
            self.stacks = _by_pyspy(program, self.target.pid, seconds)
            self.how = "py-spy"
        except (OSError, ValueError) as error:
            self.error = f"{program}: {error}"

    def signal(self) -> bool:
        """Asks the process itself; False where it can't be asked."""
        if self.target is None or self.how != "none":
            return False
        if self.target.state in "Tt":
            self.error = self.error or "it is stopped, so it can't tell its stack"
        elif self.armed is None:
            self.error = self.error or "it is not armed (launched without --stall, or no Python), and has no py-spy"
        else:
            return processes.send(self.target, signal.SIGURG)
        return False

    def read(self) -> str:
        """What it has written since it was signalled."""
        assert self.armed is not None
        with self.armed.path.open("rb") as file:
            file.seek(self.armed.size)
            return file.read(1 << 20).decode("utf-8", "replace")

    def take(self, text: str) -> None:
        """Takes the dump that it wrote."""
        assert self.armed is not None
        self.stacks = stacktext.faulthandler(text, self.armed.main)
        if self.stacks:
            self.how, self.error = "faulthandler", ""
        else:
            self.error = self.error or f"it told nothing for {HANDLER_SECONDS:g} s"

    def as_json(self, most: int) -> dict[str, Any]:
        """Its entry of the answer."""
        now = None if self.target is None else processes.look(self.target.pid)
        return {
            "local_rank": self.local_rank,
            "pid": None if now is None else now.pid,
            "how": self.how,
            "stacks": stacktext.shortened(self.stacks, most),
            "state": "" if now is None else now.state,
            "wchan": "" if now is None else _waits_in(now.pid),
            "error": self.error,
        }


def _target(worker: processes.Process, table: dict[int, processes.Process], directory: Path) -> tuple[Any, Any]:
    """The process that has the worker's Python stacks, and how it is armed."""
    family = _below(worker, table)
    for process in family:
        armed = _armed(directory, process)
        if armed is not None:
            return process, armed
    return next((process for process in family if _is_python(process.pid)), worker), None


def _hear(asked: list[Rank]) -> None:
    """Waits for what was asked for: until no file has grown for a while, or the time is up."""
    deadline = time.monotonic() + HANDLER_SECONDS
    said = {rank.local_rank: "" for rank in asked}
    quiet = 0
    while asked and time.monotonic() < deadline and not (quiet >= QUIET_LOOKS and all(said.values())):
        time.sleep(LOOK_SECONDS)
        now = {rank.local_rank: rank.read() for rank in asked}
        quiet, said = (quiet + 1 if now == said else 0), now
    for rank in asked:
        rank.take(said[rank.local_rank])


def find(run: rundir.RunDir, seconds: float) -> dict[str, Any]:
    """The answer to `stacks`, after at most about ``seconds``."""
    deadline = time.monotonic() + max(0.0, seconds - HANDLER_SECONDS)
    facts = run.run()
    workers, table = _workers(facts["cookie"])
    ranks = []
    for local_rank in range(facts["nproc"]):
        worker = workers.get(local_rank)
        target, armed = (None, None) if worker is None else _target(worker, table, run.path / "stacks")
        ranks.append(Rank(local_rank, target, armed))
    refused = ""
    for rank in ranks:
        left = deadline - time.monotonic()
        if rank.target is not None and not refused and left > 0:
            rank.by_pyspy(min(left, PYSPY_SECONDS))
            refused = rank.error  # what keeps it from one keeps it from all
        rank.error = rank.error or refused
    _hear([rank for rank in ranks if rank.signal()])
    return {"ranks": [rank.as_json(max(1, MOST_FRAMES // len(ranks))) for rank in ranks]}
