"""The script's directory as one reproducible archive: what travels, what stays, and when it is too much."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ncclrun.commands.gitignore import Rules, is_ignored, rules_above, rules_in
from ncclrun.model.cluster import Node
from ncclrun.model.errors import UsageError
from ncclrun.model.job import JobSpec

SIZE_LIMIT = 100 << 20
"""Bytes (unpacked) that may travel; more belongs on the hosts (workdir) or on a shared disk (--no-sync)."""
ALWAYS_LEFT = frozenset(
    {".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", "node_modules"}
)
SHELVES = ("/", "/home", "/root", "/tmp", "/var/tmp")  # noqa: S108 - they are compared with, not written to
FIXED_MTIME = 946_684_800  # 2000-01-01: times differ between checkouts and would make the same content another archive


@dataclass(frozen=True)
class Archive:
    """A .tar.gz in memory. Same content, same ``sha256``."""

    directory: Path
    data: bytes
    sha256: str
    files: int
    notes: tuple[str, ...] = ()
    """What was left behind that a user might miss."""
    left_out: tuple[str, ...] = ()
    """What .gitignore files kept back: topmost names relative to the directory, ``/`` behind directories."""


@dataclass(frozen=True)
class Source:
    """Where the workers' program comes from on the nodes: what is sent, or the directory that they have."""

    program: str
    """The program as the nodes shall name it, relative to their working directory or absolute."""
    workdir: str | None
    archive: Archive | None = None


def find_source(job: JobSpec, nodes: Sequence[Node]) -> Source:
    """Decides what travels.

    With a workdir, or without sync, nothing does. A script that is here brings its directory; a module or a
    command that names something here brings the current one. Raises UsageError when the script is nowhere or
    there is too much to send.
    """
    if any(node.launch.workdir for node in nodes):
        bare = [node.name for node in nodes if not node.launch.workdir]
        if bare:
            raise UsageError(
                f"some nodes have a workdir and {', '.join(bare)} has none",
                fix="give all nodes one (launch.workdir), or none: then the script's directory is sent",
            )
        return Source(job.program, nodes[0].launch.workdir)
    here = _current_directory()
    if not job.sync:
        return Source(job.program, str(here))
    if job.kind == "script":
        return _script_source(Path(job.program))
    if job.kind == "module":
        package = job.program.split(".")[0]
        is_here = _is_file(job.program.replace(".", "/") + ".py") or Path(package).is_dir()
        return Source(job.program, None, pack(here) if is_here else None)
    named = [word for word in (job.program, *job.args) if not word.startswith("/") and _is_file(word)]
    return Source(job.program, None, pack(here, named) if named else None)


def _script_source(script: Path) -> Source:
    if _is_file(str(script)):
        # Python would take a name that starts with a sign for an option of its own.
        program = f"./{script.name}" if script.name.startswith("-") else script.name
        return Source(program, None, pack(script.parent, [script.name]))
    if script.is_absolute():
        return Source(str(script), None)
    with suppress(OSError, ValueError):  # no path at all, which is no directory either
        if script.is_dir():
            raise UsageError(f"{script} is a directory", fix="name the script in it")
    raise UsageError(
        f"there is no script {script} here",
        fix="give the script's path on this machine; or, for one that the nodes have, its absolute path or --workdir",
    )


def _current_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the current directory does not exist any more", fix="cd to one that does") from None


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except (OSError, ValueError):  # a word too long to be a path, or with a NUL byte, names no file here
        return False


def pack(directory: Path, named: Sequence[str] = ()) -> Archive:
    """Packs a directory; the files ``named``, relative to it, travel whatever .gitignore says.

    Empty directories travel too: programs expect the `out/` that they write to. Raises UsageError when there is too
    much or something can't be read.
    """
    directory = directory.resolve()
    notes: list[str] = []
    ignored: list[str] = []
    try:
        keep = {path for name in named if (path := _inside(directory, name))}
        if _is_shelf(directory):
            # Sending a whole home would send keys and gigabytes; the files beside the script are what it can import.
            paths = {path for path in directory.glob("*.py") if path.is_file()}
            notes.append(f"{shown(directory)} is no project directory: only the .py files directly in it are sent")
        else:
            paths = set(_walk(directory, directory, rules_above(directory), _Walk(keep, notes, ignored)))
        ordered = sorted(paths | keep)
        _refuse_too_much(directory, ordered)
        return replace(_archive(directory, ordered), notes=tuple(notes), left_out=tuple(ignored))
    except OSError as error:
        what = shown(Path(error.filename)) if error.filename else f"a file in {shown(directory)}"
        raise UsageError(
            f"can't read {what}, which would travel to the nodes: {error.strerror or error}",
            fix="make it readable, add it to .gitignore, or use --no-sync or a workdir",
        ) from error


def shown(path: Path) -> str:
    """A path for people: bytes that are no UTF-8, and control characters, escaped."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return text if text.isprintable() else repr(text)


def _inside(directory: Path, name: str) -> Path | None:
    """The file's own path in ``directory``; None for one outside, or behind a link (which travels as a link)."""
    path = Path(os.path.normpath(directory / name))
    return path if path.is_relative_to(directory) and path.parent == path.parent.resolve() else None


def _is_shelf(directory: Path) -> bool:
    """Whether the directory holds everything of a person or a machine rather than one project."""
    shelves = {Path(shelf) for shelf in SHELVES}
    with suppress(RuntimeError):  # a user whom the password file does not know, as in some containers
        shelves.add(Path.home().resolve())
    return directory in shelves


@dataclass(frozen=True)
class _Walk:
    """What a walk is told (``keep``: files that travel in any case) and what it has to tell."""

    keep: set[Path]
    notes: list[str]
    ignored: list[str]


def _walk(root: Path, directory: Path, rules: list[Rules], walk: _Walk) -> Iterator[Path]:
    """Files, directories and inner links below ``directory`` that no .gitignore (there, above or below) leaves out."""
    rules = [*rules, *rules_in(directory)]
    for entry in sorted(directory.iterdir()):
        is_link = entry.is_symlink()
        is_dir = entry.is_dir() and not is_link
        if entry in walk.keep or entry.name in ALWAYS_LEFT:
            continue
        if is_ignored(entry, rules, is_dir=is_dir):
            walk.ignored.append(shown(entry.relative_to(root)) + ("/" if is_dir else ""))
            continue
        if is_link:
            if _link(root, entry) is None:
                walk.notes.append(f"not sent, a link out of the directory: {shown(entry.relative_to(root))}")
            else:
                yield entry
        elif is_dir:
            if entry / "pyvenv.cfg" not in entry.iterdir():  # a virtual environment is of this machine only
                yield entry
                yield from _walk(root, entry, rules, walk)
        elif entry.is_file():
            yield entry
        else:
            walk.notes.append(f"not sent, neither file nor directory: {shown(entry.relative_to(root))}")


def _link(root: Path, path: Path) -> str | None:
    """Where a link that stays within ``root`` leads, from where it lies; None for one that leads out, and for a file.

    Rewritten, since a node takes no absolute link and none that leaves the directory on its way.
    """
    if not path.is_symlink():
        return None
    target = Path(os.path.realpath(path))
    return os.path.relpath(target, path.parent) if target.is_relative_to(root) else None


def _archive(directory: Path, paths: Sequence[Path]) -> Archive:
    buffer = io.BytesIO()
    files = 0
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=5, mtime=0) as packed,
        # The encoding is named so that names arrive byte for byte, whatever the locale here is.
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8") as tar,
    ):
        for path in paths:
            files += _add(tar, directory, path)
    data = buffer.getvalue()
    return Archive(directory=directory, data=data, sha256=hashlib.sha256(data).hexdigest(), files=files)


def _add(tar: tarfile.TarFile, root: Path, path: Path) -> bool:
    """One entry, without owner and times: they differ between checkouts of the same content. False: a directory."""
    info = tarfile.TarInfo(path.relative_to(root).as_posix())
    info.mtime = FIXED_MTIME
    link = _link(root, path)
    if link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, link
        tar.addfile(info)
        return True
    if path.is_dir():
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(info)
        return False
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        info.size = status.st_size
        info.mode = 0o755 if status.st_mode & 0o100 else 0o644
        tar.addfile(info, file)
    return True


def _refuse_too_much(directory: Path, paths: Sequence[Path]) -> None:
    files = [path for path in paths if path.is_file() and _link(directory, path) is None]
    sizes = sorted(((path.stat().st_size, path) for path in files), reverse=True)
    total = sum(size for size, _ in sizes)
    if total <= SIZE_LIMIT:
        return
    largest = "\n".join(
        f"  {size / (1 << 20):8.1f} MiB  {shown(path.relative_to(directory))}" for size, path in sizes[:5]
    )
    raise UsageError(
        f"{shown(directory)} has {total / (1 << 20):.0f} MiB in {len(files)} files to send,"
        f" the limit is {SIZE_LIMIT >> 20} MiB; the largest:\n{largest}",
        fix="name what need not travel in .gitignore, or put the data on the hosts and set launch.workdir,"
        " or use --no-sync on a shared disk",
    )
