"""`resolve --write`: the choice goes into the cluster file on this machine's disk, all of it or nothing."""

from __future__ import annotations

import errno
import os
import shlex
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from ncclrun.model.cluster import Node
from ncclrun.model.errors import NcclrunError, UsageError
from ncclrun.model.netevents import Written
from ncclrun.model.plan import Endpoint
from ncclrun.planning.clusteredit import write_choice
from ncclrun.planning.hostfile import is_hostfile


class Rewrite:
    """Puts interface and address of nodes into one cluster file, as it is when this is made.

    Raises UsageError then, before any work, where there is nothing to write to: ``cluster`` None stands for `--hosts`.
    """

    def __init__(self, cluster: str | None) -> None:
        if cluster is None:
            raise _nowhere("--hosts")
        self._path = Path(cluster)
        with _reported(self._path):
            _real(self._path)  # first: nobody writes into a pipe a second time
            self._content = self._path.read_bytes()
            if is_hostfile(self._content.decode("utf-8", "replace")):
                raise _nowhere(f"{cluster}, a hostfile,")

    def __call__(self, nodes: Sequence[Node], endpoints: Sequence[Endpoint]) -> Written:
        """Where that changes nothing, nothing is written and ``backup`` is "".

        Raises UsageError and SpecError as ``write_choice``, and NcclrunError where the file can't be replaced; it is
        as it was then.
        """
        edit = write_choice(self._content.decode("utf-8"), str(self._path), nodes, endpoints)
        after = edit.text.encode("utf-8")
        backup = "" if after == self._content else str(replace_file(self._path, self._content, after))
        return Written(path=str(self._path), backup=backup, changes=edit.changes)


def _nowhere(what: str) -> UsageError:
    return UsageError(
        f"{what} has no place for interfaces and addresses, so there is nothing to --write to",
        fix="make a cluster file: a line `nodes:`, and below it a line `- HOST` for each host",
    )


def replace_file(path: Path, before: bytes, after: bytes) -> Path:
    """Replaces a file's content ``before`` by ``after`` and returns the copy that is kept of it.

    At any moment the file is there, whole, the old one or the new one; mode and owner stay, and a symbolic link still
    points to it. The copy is ``NAME.bak``, or ``NAME.bak1`` and so on where there are older ones. Raises NcclrunError.
    """
    made: list[Path] = []
    with _reported(path):
        real = _real(path)
        status = real.stat()
        try:
            made.append(_fresh(real, after, status))
            made.append(_backup(real, before, status))
            if real.read_bytes() != before:
                raise NcclrunError(
                    f"{path} was changed by somebody since it was read; it is left as it is now",
                    fix="run the command again",
                )
            made[0].replace(real)
        except BaseException:
            for file in made:
                file.unlink(missing_ok=True)
            raise
        with suppress(OSError):  # the new file is in its place either way; some file systems know no such request
            _sync(real.parent)
    return made[1]


def _real(path: Path) -> Path:
    """The file behind links. Raises UsageError for what must not be replaced, and OSError for what can't be."""
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe as /dev/stdin has no path to look for
        raise UsageError(f"{path} is no regular file, so nothing is written to it", fix="name a file on the disk")
    real = path.resolve(strict=True)
    if not os.access(real, os.W_OK):  # a new file in its place would get round that
        fix = f"chmod u+w {shlex.quote(str(path))}"
        raise UsageError(f"{path} is write-protected, and is left as it is", fix=fix)
    if not os.access(real.parent, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return real


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Turns what the system refuses into words."""
    try:
        yield
    except OSError as error:
        folder = shlex.quote(str(path.resolve().parent))
        raise UsageError(
            f"{path} can't be replaced: {error.strerror or error}; it is as it was",
            fix=f"see who may write into its directory, and whether there is room:  ls -ld {folder}; df {folder}",
        ) from error


def _fresh(real: Path, content: bytes, status: os.stat_result) -> Path:
    """A file beside ``real`` under a name of its own."""
    number, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    _fill(number, Path(name), content, status)
    return Path(name)


def _backup(real: Path, content: bytes, status: os.stat_result) -> Path:
    """A copy under the first name that is free; an older copy is never written over."""
    for number in count():
        copy = real.with_name(f"{real.name}.bak{number or ''}")
        with suppress(FileExistsError):
            _fill(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), copy, content, status)
            return copy
    raise AssertionError("numbers do not end")


def _fill(number: int, path: Path, content: bytes, status: os.stat_result) -> None:
    """Gives a new, empty file its content and the owner and mode of ``status``; then it is safe on the disk."""
    try:
        with open(number, "wb") as file:
            file.write(content)
            file.flush()
            own = os.fstat(number)
            if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
                os.fchown(number, status.st_uid, status.st_gid)
            os.fchmod(number, stat.S_IMODE(status.st_mode))
            os.fsync(number)
    except BaseException:
        path.unlink()
        raise


def _sync(folder: Path) -> None:
    """The new name, too, is on the disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
