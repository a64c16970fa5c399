"""Code archives: kept by their sha256, and unpacked so that nothing lands outside the directory they are meant for."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tarfile
import tempfile
import time
import zlib
from pathlib import Path
from typing import IO

from .refusal import Refusal

SHA256 = re.compile(r"[0-9a-f]{64}\Z")
KEPT_SECONDS = 7 * 86400.0


def check_sha256(value: object) -> str:
    """A sha256 in hex, or a refusal: it becomes a file name."""
    if not isinstance(value, str) or not SHA256.match(value):
        raise Refusal("bad_request", f"{value!r} is no sha256")
    return value


class Cache:
    """`<state>/ncclrun/code/<sha256>.tar.gz`: what was sent once is not sent again within a week of its last use."""

    def __init__(self, state: Path) -> None:
        self._base = state / "code"

    def path(self, sha256: str) -> Path:
        """Where this archive lies, or would."""
        return self._base / (check_sha256(sha256) + ".tar.gz")

    def has(self, sha256: str) -> bool:
        """Whether it is here; asking counts as use."""
        path = self.path(sha256)
        try:
            os.utime(path)
        except FileNotFoundError:
            return False
        return True

    def prune(self) -> None:
        """Drops what was not used for a week, unfinished transfers included."""
        for entry in list(self._base.iterdir()):
            try:
                if time.time() - entry.stat().st_mtime > KEPT_SECONDS:
                    entry.unlink()
            except FileNotFoundError:
                continue  # another node with the same home was faster


class Upload:
    """An archive that is coming in, piece by piece."""

    def __init__(self, cache: Cache, sha256: str) -> None:
        self._target = cache.path(sha256)
        self._sha256 = sha256
        self._digest = hashlib.sha256()
        self._target.parent.mkdir(mode=0o700, exist_ok=True)
        fd, name = tempfile.mkstemp(prefix="part.", dir=str(self._target.parent))
        self._path = Path(name)
        self._file: IO[bytes] = os.fdopen(fd, "wb")

    def add(self, piece: bytes) -> None:
        """The next bytes."""
        self._file.write(piece)
        self._digest.update(piece)

    def finish(self) -> None:
        """Keeps the archive; refuses with `corrupt` when it is not what was announced."""
        self._file.close()
        if self._digest.hexdigest() != self._sha256:
            self.abandon()
            raise Refusal("corrupt", "the code archive arrived damaged", "run the command again")
        self._path.replace(self._target)

    def abandon(self) -> None:
        """Leaves nothing behind."""
        self._file.close()
        self._path.unlink()


def _parts(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise Refusal("bad_code", f"the code archive holds a path that leads outside: {name!r}")
    return parts


def _stays_inside(link: str, depth: int) -> bool:
    """Whether a symbolic link ``depth`` directories below the root can't lead above it.

    Steps up count only before the first name: behind a name they could start from another link's target. All parents
    are real directories, so by induction over the links each stays inside.
    """
    steps = [step for step in link.split("/") if step not in ("", ".")]
    up = 0
    while up < len(steps) and steps[up] == "..":
        up += 1
    return not link.startswith("/") and "\0" not in link and up <= depth and ".." not in steps[up:]


def _parent(root: Path, parts: list[str]) -> Path:
    """Makes the directories above an entry; refuses when one of them is a link or a file."""
    path = root
    for part in parts[:-1]:
        path /= part
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            if not stat.S_ISDIR(path.lstat().st_mode):
                raise Refusal(
                    "bad_code", f"the code archive writes through {path.name!r}, which is no directory"
                ) from None
    return path


def _file(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    mode = 0o600 | (member.mode & 0o111)
    source = archive.extractfile(member)
    if source is None:
        raise Refusal("bad_code", f"the code archive holds no content for {member.name!r}")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as target:
        while True:
            piece = source.read(1 << 20)
            if not piece:
                return
            target.write(piece)


def _hard_link(root: Path, member: tarfile.TarInfo, path: Path) -> None:
    parts = _parts(member.linkname)
    source = root.joinpath(*parts)
    if not parts or _parent(root, parts) != source.parent or not stat.S_ISREG(source.lstat().st_mode):
        raise Refusal("bad_code", f"the code archive's {member.name!r} links to what is no file in it")
    os.link(source, path, follow_symlinks=False)


def _entry(archive: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    parts = _parts(member.name)
    if not parts:
        return  # the root itself
    path = _parent(root, parts) / parts[-1]
    if member.isdir():
        _parent(root, [*parts, ""])
    elif member.isreg():
        _file(archive, member, path)
    elif member.issym():
        if not _stays_inside(member.linkname, len(parts) - 1):
            raise Refusal("bad_code", f"the code archive's link {member.name!r} leads outside: {member.linkname!r}")
        path.symlink_to(member.linkname)
    elif member.islnk():
        _hard_link(root, member, path)
    else:
        raise Refusal("bad_code", f"the code archive holds a device or pipe: {member.name!r}")


def unpack(path: Path, root: Path) -> None:
    """Unpacks a .tar.gz into ``root``, an empty directory. Refuses with `bad_code`; OSError for the disk's faults."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                _entry(archive, member, root)
    except (tarfile.TarError, zlib.error, EOFError, FileExistsError, FileNotFoundError, NotADirectoryError) as error:
        raise Refusal("bad_code", f"the code archive can't be unpacked: {error}") from error
