"""What lies beside a conf file that we changed: the original, the record of what is ours, and what is in the making."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from . import conffiles
from .refusal import Refusal

NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
"""A file system without hard links, or a rule against them (fs.protected_hardlinks)."""

NEW_MODE = 0o644
MOST_RECORD_BYTES = 1 << 20


def digest(data: bytes | None) -> str | None:
    """SHA-256; None for no file."""
    return None if data is None else hashlib.sha256(data).hexdigest()


class Seen(NamedTuple):
    """A conf file at a moment; ``data`` and ``status`` are None where there is none."""

    data: bytes | None
    status: os.stat_result | None

    @property
    def sha256(self) -> str | None:
        """Of its bytes."""
        return digest(self.data)

    @property
    def mode(self) -> int:
        """Its permission bits; of a file that is not there those of a new one."""
        return NEW_MODE if self.status is None else stat.S_IMODE(self.status.st_mode)


def see(path: Path, uid: int | None = None) -> Seen:
    """A file that we may replace, or none; refuses what is another's or no plain file. Raises OSError.

    ``uid``: whose it may be; ours if left out.
    """
    own = os.geteuid() if uid is None else uid
    try:
        status = path.lstat()
    except FileNotFoundError:
        return Seen(None, None)
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(path)
        fix = f"put the file itself there:  cp --remove-destination {target} {path}   (or, for none:  rm {path})"
        raise Refusal("symlink", f"{path} is a link to {target}, which would be cut", fix)
    if not stat.S_ISREG(status.st_mode):
        what = conffiles.kind(status)
        raise Refusal("not_regular", f"{path} is {what} and no file", f"move it away:  mv {path} {path}.away")
    if status.st_uid != own:
        whose, ours = conffiles.owner(status.st_uid), conffiles.owner(own)
        raise Refusal("owner", f"{path} belongs to {whose}, not to {ours}", f"sudo chown {ours} {path}")
    try:
        data, status = conffiles.content(path, conffiles.MOST_BYTES + 1)
    except PermissionError as error:
        raise Refusal("unreadable", f"{path} can't be read by {conffiles.owner(own)}", f"chmod u+r {path}") from error
    if len(data) > conffiles.MOST_BYTES:
        fix = f"see what fills it:  less {path}"
        raise Refusal("too_long", f"{path} is longer than {conffiles.MOST_BYTES >> 10} KiB", fix)
    return Seen(data, status)


def write(path: Path, data: bytes, mode: int, like: os.stat_result | None = None) -> None:
    """Makes a file with these bytes, on the disk when this returns, of ``like``'s owner and group. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        made = os.fstat(fd)
        if like is not None and (made.st_uid, made.st_gid) != (like.st_uid, like.st_gid):
            os.fchown(fd, like.st_uid, like.st_gid)
        os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)


def keep(path: Path, name: Path) -> None:
    """Gives a file a second name, so that it lives on when the first is taken; a copy where there are no links."""
    try:
        os.link(path, name)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        data, status = conffiles.content(path, conffiles.MOST_BYTES)
        write(name, data, stat.S_IMODE(status.st_mode), status)
        os.utime(name, ns=(status.st_atime_ns, status.st_mtime_ns))


def remove(*paths: Path) -> None:
    """Removes what of these is there. Raises OSError."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


class Kept:
    """The files beside a conf file."""

    def __init__(self, file: Path) -> None:
        self._stem = f".{file.name.lstrip('.')}.ncclrun"
        self.file = file
        self.directory = file.parent
        self.lock = self._beside(".lock")
        self.record = self._beside(".json")
        self.new, self.old = self._beside(".new"), self._beside(".old")
        self.record_new, self.record_old = self._beside(".json.new"), self._beside(".json.old")

    def _beside(self, suffix: str) -> Path:
        return self.directory / (self._stem + suffix)

    def backup(self, sha256: str) -> Path:
        """Where an original with this SHA-256 is kept."""
        return self._beside(f"-{sha256[:8]}")

    def backups(self) -> list[Path]:
        """All originals that are kept."""
        return list(self.directory.glob(self._stem + "-????????"))

    def aside(self, sha256: str) -> Path:
        """Where a file with edits that are to be discarded is kept; for good, unlike the originals."""
        return self._beside(f"-edited-{sha256[:8]}")

    def read_record(self) -> dict[str, Any] | None:
        """The record; None without one. Refuses one that is damaged with `bad_record`. Raises OSError."""
        try:
            data, _status = conffiles.content(self.record, MOST_RECORD_BYTES)
        except FileNotFoundError:
            return None
        with contextlib.suppress(ValueError):
            record = json.loads(data.decode("ascii"))
            if isinstance(record, dict) and record.get("written") and "original" in record:
                return record
        fix = f"compare {self.file} with {self.directory / self._stem}-*, then remove {self.record}"
        raise Refusal("bad_record", f"{self.record}, which tells what of {self.file} is ours, is damaged", fix)

    def write_record(self, record: dict[str, Any]) -> None:
        """Replaces the record; the one before stays as `record_old`. Raises OSError."""
        if self.record.exists():
            keep(self.record, self.record_old)
        write(self.record_new, json.dumps(record).encode("ascii"), 0o644)
        self.record_new.replace(self.record)

    def original(self, record: dict[str, Any]) -> bytes | None:
        """The bytes of the original, None if there was no file; refuses with `no_backup`. Raises OSError."""
        if record["original"] is None:
            return None
        data, path = self._backed_up(record["original"]["sha256"]), self.backup(record["original"]["sha256"])
        if data is None:
            message = f"what {self.file} was before the first push can't be brought back: {path} is gone or changed"
            raise Refusal("no_backup", message, f"edit {self.file} yourself", {"backup": str(path)})
        return data

    def intact(self, sha256: str) -> bool:
        """Whether an original with this SHA-256 is kept. Raises OSError."""
        return self._backed_up(sha256) is not None

    def _backed_up(self, sha256: str) -> bytes | None:
        with contextlib.suppress(FileNotFoundError, conffiles.NoFile):
            data, _status = conffiles.content(self.backup(sha256), conffiles.MOST_BYTES)
            return data if digest(data) == sha256 else None
        return None

    def clear(self, visible: str | None) -> None:
        """Removes what a push left that died; ``visible`` is the file's SHA-256. Raises OSError."""
        record = self.read_record()
        if record is not None and self.record_old.exists() and visible != record["written"][-1]:
            self.record_old.replace(self.record)  # it died before its new file was in place
        remove(self.new, self.old, self.record_new, self.record_old)

    def sync(self) -> None:
        """Makes what was renamed and linked survive a power cut. Raises OSError."""
        fd = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
