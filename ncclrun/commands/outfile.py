"""A file that an option asks for (`--save`, `--html`, `--bundle`): there whole or not at all, and in nobody's place."""

from __future__ import annotations

import os
import secrets
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path

from ncclrun.model.errors import UsageError

BEGINNING = 512
"""Bytes among which the mark stands."""


@dataclass(frozen=True)
class OutFile:
    """A kind of file. One of the same kind is replaced, anything else that is there is left alone."""

    option: str
    mark: bytes
    """Stands at the beginning of each of its kind, and of no other."""
    mode: int = 0o600

    def refuse_unwritable(self, path: Path) -> None:
        """Raises UsageError before the work where the file can't be written after it."""
        folder = _real(path).parent
        try:
            if not folder.is_dir():
                raise self._error(path, f"there is no directory {folder}", f"mkdir -p {shlex.quote(str(folder))}")
            if path.is_dir():
                raise self._error(path, "that is a directory", "name a file in it")
            if path.exists():
                self._refuse_foreign(path)
        except OSError as error:
            raise self._error(path, error.strerror, f"look at it:  ls -ld {shlex.quote(str(path))}") from error
        if not os.access(folder, os.W_OK):
            raise self._error(path, "no file can be made in its directory", "name a file in another directory")

    def write(self, path: Path, content: bytes) -> None:
        """Makes it under another name, and gives it its own when it is whole. Raises UsageError and leaves nothing."""
        self.refuse_unwritable(path)
        real = _real(path)
        partial = real.with_name(f".{secrets.token_hex(4)}.part")
        try:
            try:
                descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, self.mode)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(real)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise self._error(path, error.strerror, f"name another file with {self.option}") from error

    def _refuse_foreign(self, path: Path) -> None:
        if not stat.S_ISREG(path.stat().st_mode):
            raise self._error(path, "that is no regular file", "name a file on a disk")
        with path.open("rb") as file:
            start = file.read(BEGINNING)
        if start and self.mark not in start:
            what = f"a file is there, and {self.option} did not make it: it is left as it is"
            raise self._error(path, what, "name one that is not there")

    def _error(self, path: Path, what: str | None, fix: str) -> UsageError:
        return UsageError(f"{self.option} {path}: {what}", fix=fix)


def _real(path: Path) -> Path:
    """What a link leads to, be it there or not; of links that lead round in a circle the path itself."""
    return Path(os.path.realpath(path))
