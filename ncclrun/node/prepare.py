"""Makes a run's directory ready on this node, or says why it can't be; a refusal leaves nothing behind."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import time
from pathlib import Path
from typing import Any, Iterator

from . import archive, machine, pythons, rundir, worker
from .preparation import Order
from .refusal import Refusal

LEAST_FREE = 64 << 20
# Files of the run and of the code that is sent; a file system without a fixed number of them says 0 of 0.
LEAST_FILES = 1000
# After a day nobody is about to start a run that was only prepared.
STALE_SECONDS = 86400.0
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def draft(state: Path, order: Order) -> Path:
    """The directory while it is being made: renaming it is what makes it count."""
    return state / "runs" / order.run_id / f".{order.directory}.{os.getpid()}"


def scrap(path: Path) -> None:
    """Removes a draft, and the run's directory when nothing else is in it."""
    # Whatever can't be removed (the reason is told by what failed before) must not end the node part.
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):  # not there, or another node's part lives in it
        path.parent.rmdir()


@contextlib.contextmanager
def _disk_faults(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise disk_full(path) from error
        where = error.filename or path
        raise Refusal("no_directory", f"{where}: {error.strerror}", "set XDG_STATE_HOME to another disk") from error


def disk_full(path: Path) -> Refusal:
    """The refusal where a run would have no room."""
    return Refusal("disk_full", f"the disk of {path} is full ({LEAST_FREE >> 20} MiB are needed)", f"df -h {path}")


def _check_free(state: Path) -> int:
    free = shutil.disk_usage(state).free
    if free < LEAST_FREE:
        raise disk_full(state)
    room = os.statvfs(state)
    if room.f_files and room.f_favail < LEAST_FILES:
        raise Refusal(
            "disk_full",
            f"the disk of {state} takes only {room.f_favail} more files ({LEAST_FILES} are needed)",
            f"df -i {state}",
        )
    return free


def _check_unused(state: Path, order: Order) -> None:
    for part in rundir.here(state, order.run_id):
        other = part.run().get("token") != order.token
        if other or part.path.name == order.directory:
            raise Refusal(
                "run_exists",
                f"a run named {order.run_id} is on that host already: {part.path}",
                "leave --run-id out, or give another",
            )


def _check_python(order: Order) -> None:
    if order.launcher != "torchrun":
        return
    facts = pythons.probe(order.python)
    if not facts["version"] or (facts["error"] and not facts["torch"]):
        raise Refusal("no_python", facts["error"], "set launch.python (or the node's python) to one that runs there")
    if not facts["torch"]:
        executable = facts["executable"]
        raise Refusal("no_torch", f"{executable} has no torch", f"{executable} -m pip install torch")


def _working_directory(order: Order, final: Path) -> Path:
    if order.workdir is not None:
        path = machine.expand(order.workdir)
        fix = "make it there, or correct workdir (it is a path on the node)"
        if not path.is_absolute():
            raise Refusal("no_workdir", f"workdir {order.workdir} is not absolute", "write it from / or ~ on")
        if not path.is_dir():
            raise Refusal("no_workdir", f"workdir {path} is no directory there", fix)
        if not os.access(path, os.W_OK | os.X_OK):
            raise Refusal("no_workdir", f"workdir {path} can't be written by {machine.user()}", fix)
        return path
    if order.code is not None:
        return final / "code"
    home = machine.home()
    return home if home is not None and home.is_dir() else final


def _checkpoint_dir(order: Order) -> str:
    """The absolute path of the directory for checkpoints, which is there then; "" if none is wanted."""
    if order.checkpoint_dir is None:
        return ""
    path = machine.expand(order.checkpoint_dir)
    fix = "correct checkpoint_dir (it is a path on the node)"
    if not path.is_absolute():
        raise Refusal("no_checkpoint_dir", f"checkpoint_dir {order.checkpoint_dir} is not absolute", fix)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refusal("no_checkpoint_dir", f"checkpoint_dir {path}: {error.strerror}", fix) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise Refusal("no_checkpoint_dir", f"checkpoint_dir {path} can't be written by {machine.user()}", fix)
    return str(path)


def _script_hash(order: Order, directory: Path) -> str:
    """sha256 of the script as it lies on this node; ``directory`` is the working directory as it is now."""
    if order.script is None:
        return ""
    path = directory / machine.expand(order.script)
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            for piece in iter(lambda: file.read(1 << 20), b""):
                digest.update(piece)
    except OSError as error:
        sent = order.workdir is None and not Path(order.script).is_absolute()
        where = f"{order.script} in the code that was sent" if sent else str(path)
        raise Refusal("no_script", f"the script {where}: {error.strerror}", "correct its path, or workdir") from error
    return digest.hexdigest()


def _check_program(order: Order, directory: Path) -> None:
    """That the command of `--launcher exec` is here: else the other nodes' workers would run when ours can't."""
    if order.program is None:
        return
    if "/" in order.program:
        path = directory / order.program
        if path.is_file() and os.access(path, os.X_OK):
            return
        if path.is_file():
            raise Refusal("no_program", f"{order.program} may not be executed", f"chmod +x {order.program}")
        raise Refusal("no_program", f"{order.program} is not there (in {directory})", "correct its path, or workdir")
    if shutil.which(order.program, path=order.search) is None:
        raise Refusal("no_program", f"{order.program} is not in PATH", "give its path, or install it there")


def _fill(path: Path, final: Path, order: Order, cwd: Path) -> None:
    for name in ("logs", "pipes", "torch"):
        (path / name).mkdir(mode=0o700)
    if order.launcher == "torchrun":
        names = [f"{rank}.{stream}" for rank in range(order.nproc) for stream in ("out", "err")]
        for name in [*names, "ranks"]:
            os.mkfifo(path / "pipes" / name, 0o600)
    part = rundir.RunDir(path)
    part.reserve(order.nproc)
    part.worker.write_text(worker.SCRIPT, "ascii")
    if order.conf is not None:
        part.write_conf(order.conf)
    rundir.write_whole(
        path / "run.json",
        {
            "run_id": order.run_id,
            "token": order.token,
            "cookie": f"{order.run_id}/{order.node_rank}/{order.token}",
            "node_rank": order.node_rank,
            "nproc": order.nproc,
            "launcher": order.launcher,
            "cwd": str(cwd),
            "dir": str(final),
            "boot_id": machine.boot_id(),
            "host": machine.host_id(),
            "by": order.by,
            "about": order.about,
            "checkpoint_dir": _checkpoint_dir(order),
            "prepared_at": time.time(),
        },
    )


def _clear_unstarted(state: Path) -> None:
    """Removes what was prepared and never started by a node part that could not do it itself: its host went down."""
    for part in rundir.every(state):
        # What can't be read (made by root, or half removed) is left as it is, and must not stop us.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            facts = part.run()
            stale = facts["boot_id"] != machine.boot_id() or time.time() - facts["prepared_at"] > STALE_SECONDS
            if stale and not part.control.exists():
                scrap(part.path)


def _others(state: Path, order: Order) -> list[str]:
    """Runs of this user that live on this machine now: for a warning before two share the GPUs."""
    found = set()
    for part in rundir.every(state):
        # What can't be read (made by root, or half removed) is no run of ours that lives, and must not stop us.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if part.run_id != order.run_id and part.end() is None and part.supervisor():
                found.add(part.run_id)
    return sorted(found)


def _publish(path: Path, final: Path, order: Order, state: Path) -> None:
    try:
        path.rename(final)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        _check_unused(state, order)  # somebody was faster: it names them
        raise


def build(state: Path, order: Order, path: Path, cache: archive.Cache) -> dict[str, Any]:
    """Makes the directory in ``path`` (a draft) and gives it its place. The answer's fields but `port`."""
    final = path.parent / order.directory
    free = _check_free(state)
    with _disk_faults(path):
        _check_unused(state, order)
    _check_python(order)
    cwd = _working_directory(order, final)
    done = False
    try:
        with _disk_faults(path):
            path.mkdir(mode=0o700, parents=True)
            (path / "code").mkdir(mode=0o700)
            if order.code is not None:
                if not cache.has(order.code):
                    raise Refusal("no_code", f"the code archive {order.code} is not there", "run the command again")
                archive.unpack(cache.path(order.code), path / "code")
            there = path / "code" if cwd == final / "code" else cwd
            digest = _script_hash(order, there)
            _check_program(order, there)
            _fill(path, final, order, cwd)
            _clear_unstarted(state)
            others = _others(state, order)
            _publish(path, final, order, state)
            done = True
    finally:
        if not done:
            scrap(path)
    return {"dir": str(final), "cwd": str(cwd), "script_sha256": digest, "free_bytes": free, "others": others}
