"""`resolve --write`: the choice goes into the cluster file on this machine's disk, all of it or nothing."""

from __future__ import annotations

import os
import shlex
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from ncclrun.model.cluster import Node
from ncclrun.model.errors import NcclrunError
from ncclrun.model.events import Written
from ncclrun.model.plan import Endpoint
from ncclrun.planning.clusteredit import write_choice


def write_endpoints(path: Path, before: bytes, nodes: Sequence[Node], endpoints: Sequence[Endpoint]) -> Written:
    """Puts interface and address of these nodes into the cluster file ``path``, whose content was ``before``.

    Where that changes nothing, nothing is written and ``backup`` is "". Raises UsageError and SpecError as
    ``write_choice``, and NcclrunError where the file can't be replaced; it is as it was then.
    """
    edit = write_choice(before.decode("utf-8"), str(path), nodes, endpoints)
    after = edit.text.encode("utf-8")
    backup = "" if after == before else str(replace_file(path, before, after))
    return Written(path=str(path), backup=backup, changes=edit.changes)


def replace_file(path: Path, before: bytes, after: bytes) -> Path:
    """Replaces a file's content ``before`` by ``after`` and returns the copy that is kept of it.

    At any moment the file is there, whole, the old one or the new one; mode and owner stay, and a symbolic link still
    points to it. The copy is ``NAME.bak``, or ``NAME.bak1`` and so on where there are older ones. Raises NcclrunError.
    """
    made: list[Path] = []
    try:
        real = path.resolve(strict=True)
        status = real.stat()
        if not stat.S_ISREG(status.st_mode):
            raise NcclrunError(f"{path} is no regular file, so nothing is written to it", fix="name a file on the disk")
        if not os.access(real, os.W_OK):  # a new file in its place would get round that
            raise NcclrunError(
                f"{path} is write-protected, and is left as it is", fix=f"chmod u+w {shlex.quote(str(path))}"
            )
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
                with suppress(FileNotFoundError):
                    file.unlink()
            raise
        _sync(real.parent)
    except OSError as error:
        folder = shlex.quote(str(path.resolve().parent))
        raise NcclrunError(
            f"{path} can't be replaced: {error.strerror or error}; it is as it was",
            fix=f"see who may write into its directory, and whether there is room:  ls -ld {folder}; df {folder}",
        ) from error
    return made[1]


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
