"""The script's directory as one reproducible archive: what travels, what stays, and when it is too much."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    here = Path.cwd()
    if not job.sync:
        return Source(job.program, str(here))
    if job.kind == "script":
        return _script_source(Path(job.program))
    if job.kind == "module":
        words = [f"{job.program.replace('.', '/')}.py", job.program.split(".")[0]]
    else:
        words = [job.program, *job.args]
    named = [word for word in words if word and not word.startswith("/") and "\0" not in word]
    if any(_is_here(word, directories=job.kind == "module") for word in named):
        return Source(job.program, None, pack(here))
    return Source(job.program, None)


def _script_source(script: Path) -> Source:
    if script.is_file():
        return Source(script.name, None, pack(script.parent, script))
    if script.is_absolute():
        return Source(str(script), None)
    raise UsageError(
        f"there is no script {script} here",
        fix="give the script's path on this machine; or, for one that the nodes have, its absolute path or --workdir",
    )


def _is_here(word: str, *, directories: bool) -> bool:
    try:
        path = Path(word)
        return path.is_file() or (directories and path.is_dir())
    except OSError:  # a word too long to be a path names no file here
        return False


def pack(directory: Path, script: Path | None = None) -> Archive:
    """Packs a directory; ``script``, in it, travels whatever .gitignore says.

    Raises UsageError when it is too large or can't be read.
    """
    directory = directory.resolve()
    notes: list[str] = []
    if _is_shelf(directory):
        # Sending a whole home would send keys and gigabytes; the files beside the script are what it can import.
        paths = sorted(p for p in directory.glob("*.py") if p.is_file())
        notes.append(f"{directory} is no project directory: only the .py files directly in it are sent")
    else:
        paths = sorted(_walk(directory, notes))
    if script is not None and directory / script.name not in paths:
        paths.append(directory / script.name)
    _refuse_too_much(directory, paths)
    return _archive(directory, paths, tuple(notes))


def _is_shelf(directory: Path) -> bool:
    """Whether the directory holds everything of a person or a machine rather than one project."""
    return directory in {Path.home().resolve(), *map(Path, SHELVES)}


def _archive(directory: Path, paths: list[Path], notes: tuple[str, ...]) -> Archive:
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=5, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in paths:
            try:
                _add(tar, path, path.relative_to(directory).as_posix())
            except OSError as error:
                raise UsageError(
                    f"can't read {path}, which would travel to the nodes: {error.strerror}",
                    fix="make it readable, add it to .gitignore, or use --no-sync or a workdir",
                ) from error
    data = buffer.getvalue()
    return Archive(
        directory=directory, data=data, sha256=hashlib.sha256(data).hexdigest(), files=len(paths), notes=notes
    )


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """One file or link, without owner and times: they differ between checkouts of the same content."""
    info = tarfile.TarInfo(name)
    info.mtime = FIXED_MTIME
    if path.is_symlink():
        info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
        tar.addfile(info)
        return
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        info.size = status.st_size
        info.mode = 0o755 if status.st_mode & 0o100 else 0o644
        tar.addfile(info, file)


def _walk(directory: Path, notes: list[str]) -> Iterator[Path]:
    """Regular files and inner links below ``directory`` that no .gitignore (there, above or below) leaves out."""
    yield from _walk_one(directory, directory, _rules_above(directory), notes)


def _walk_one(root: Path, directory: Path, rules: list[_Rules], notes: list[str]) -> Iterator[Path]:
    try:
        entries = sorted(directory.iterdir())
    except OSError as error:
        raise UsageError(
            f"can't read the directory {directory}, which would travel to the nodes: {error.strerror}",
            fix="make it readable, add it to .gitignore, or use --no-sync or a workdir",
        ) from error
    rules = [*rules, *_rules_of(directory)]
    for entry in entries:
        if entry.name in ALWAYS_LEFT or _ignored(entry, rules):
            continue
        if entry.is_symlink():
            if entry.resolve().is_relative_to(root):
                yield entry
            else:
                notes.append(f"not sent, a link out of the directory: {entry.relative_to(root)}")
        elif entry.is_dir():
            if not (entry / "pyvenv.cfg").exists():
                yield from _walk_one(root, entry, rules, notes)
        elif entry.is_file():
            yield entry
        else:
            notes.append(f"not sent, neither file nor directory: {entry.relative_to(root)}")


@dataclass(frozen=True)
class _Rules:
    """One .gitignore: patterns relative to where it lies."""

    base: Path
    spec: object

    def verdict(self, path: Path, is_dir: bool) -> bool | None:
        """True: ignored, False: taken back in by ``!``, None: not named."""
        name = path.relative_to(self.base).as_posix() + ("/" if is_dir else "")
        result: bool | None = self.spec.check_file(name).include  # type: ignore[attr-defined]
        return result


def _rules_of(directory: Path) -> list[_Rules]:
    file = directory / ".gitignore"
    if not file.is_file():
        return []
    from pathspec import GitIgnoreSpec

    return [_Rules(directory, GitIgnoreSpec.from_lines(file.read_text(errors="replace").splitlines()))]


def _rules_above(directory: Path) -> list[_Rules]:
    """The .gitignore files between the repository's root and ``directory``, outermost first."""
    chain: list[Path] = []
    current = directory
    while not (current / ".git").exists():
        if current.parent == current:
            return []
        current = current.parent
        chain.append(current)
    return [rule for above in reversed(chain) for rule in _rules_of(above)]


def _ignored(path: Path, rules: list[_Rules]) -> bool:
    """git's rule: the innermost file that says anything decides."""
    is_dir = path.is_dir() and not path.is_symlink()
    for rule in reversed(rules):
        verdict = rule.verdict(path, is_dir)
        if verdict is not None:
            return verdict
    return False


def _refuse_too_much(directory: Path, paths: list[Path]) -> None:
    sizes = sorted(((p.lstat().st_size, p) for p in paths), reverse=True)
    total = sum(size for size, _ in sizes)
    if total <= SIZE_LIMIT:
        return
    largest = "\n".join(f"  {size / (1 << 20):8.1f} MiB  {path.relative_to(directory)}" for size, path in sizes[:5])
    raise UsageError(
        f"{directory} has {total / (1 << 20):.0f} MiB in {len(paths)} files to send,"
        f" the limit is {SIZE_LIMIT >> 20} MiB; the largest:\n{largest}",
        fix="name what need not travel in .gitignore, or put the data on the hosts and set launch.workdir,"
        " or use --no-sync on a shared disk",
    )
