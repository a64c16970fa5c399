"""What `explain` reads that is no run: files, those of directories, pipes, terminals, unpacked and as UTF-8."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import select
import shlex
import stat
import time
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from ncclrun.commands.control import Control
from ncclrun.diagnosis.explain.scan import CUT, LogScan
from ncclrun.model.errors import UsageError
from ncclrun.model.lines import LineAssembler

BLOCK = 1 << 20
MOST_FILES = 5000
"""Of a directory; what lies beyond is told and not read."""
SNIFFED = 1024
"""Bytes of a file by which a text is told from what is none."""
POLL = 0.2
"""Seconds in which a Ctrl-C is heard while nothing comes."""
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What reading raises of a file that can't be read, or is not whole."""
_GZIP, _BZIP2, _XZ = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0"
_ZSTD, _LZ4, _ZIP = b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"PK\x03\x04"
_OTHERS = {_ZSTD: "zstd -dc", _LZ4: "lz4 -dc", _ZIP: "unzip -p"}
"""What is packed in a way that is not read here, and what unpacks it."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class _Patient(io.RawIOBase):
    """Bytes of a descriptor, waited for so that a Ctrl-C is heard: a pipe may never say anything."""

    def __init__(self, number: int, control: Control) -> None:
        self._number = number
        self._control = control
        self._comes = not stat.S_ISREG(os.fstat(number).st_mode)

    def readable(self) -> bool:
        return True

    def ready(self, seconds: float) -> bool:
        """Whether there is something to read, or its end, within that time. Raises Interrupted."""
        if not self._comes:
            return True
        poll = select.poll()
        poll.register(self._number, select.POLLIN)
        until = time.monotonic() + seconds
        while not (there := poll.poll(1000 * POLL)) and time.monotonic() < until:
            self._control.check()
        return bool(there)

    def readinto(self, into: memoryview) -> int:  # type: ignore[override]  # typeshed's Buffer has no name before 3.12
        self._control.check()
        while not self.ready(float("inf")):
            pass
        return os.readv(self._number, [into])


class Source:
    """One of them, open. Raises UsageError for devices and sockets, OSError for what can't be opened."""

    def __init__(self, path: Path | None, stdin: int, control: Control) -> None:
        """``path`` None: the descriptor ``stdin``, which stays open."""
        self._control = control
        self._own = None if path is None else _opened(path)
        self._raw = _Patient(stdin if self._own is None else self._own, control)
        self._name = "-" if path is None else str(path)
        self._bytes = io.BufferedReader(self._raw, BLOCK)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        if self._own is not None:
            os.close(self._own)

    def silent(self, seconds: float) -> bool:
        """Whether nothing comes within that time."""
        return not self._raw.ready(seconds)

    def is_text(self) -> bool:
        """False for what begins like a picture or a checkpoint (torch's are zip files)."""
        start = self._start()
        return b"\0" not in start or start.startswith((_GZIP, _BZIP2, _XZ, _ZSTD, _LZ4, *_UTF16))

    def pieces(self) -> Iterator[bytes]:
        """Its text. Raises one of BROKEN where it breaks off, Interrupted, and UsageError for how it is packed."""
        read = self._unpacked().read1
        first = read(BLOCK)
        # Windows' shells write UTF-16, and a mark before it that tells so.
        decode = codecs.getincrementaldecoder("utf-16")("replace").decode if first.startswith(_UTF16) else None
        for piece in chain([first], iter(lambda: read(BLOCK), b"")):
            self._control.check()
            yield piece if decode is None else decode(piece).encode("utf-8", "replace")

    def _start(self) -> bytes:
        return self._bytes.peek(SNIFFED)[:SNIFFED]

    def _unpacked(self) -> io.BufferedReader[_Patient] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile:
        start = self._start()
        if start.startswith(_GZIP):
            return gzip.GzipFile(fileobj=self._bytes)
        if start.startswith(_BZIP2):
            return bz2.BZ2File(self._bytes)
        if start.startswith(_XZ):
            return lzma.LZMAFile(self._bytes)
        for mark, unpack in _OTHERS.items():
            if start.startswith(mark):
                fix = f"{unpack} {shlex.quote(self._name)} | ncclrun explain -"
                raise UsageError(f"{self._name} is packed in a way that is not read here", fix=fix)
        return self._bytes


def _opened(path: Path) -> int:
    """Opened without waiting for who writes to a pipe: that is waited for while a Ctrl-C is heard."""
    mode = path.stat().st_mode
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISSOCK(mode):
        kind = "socket" if stat.S_ISSOCK(mode) else "device"
        raise UsageError(
            f"{path} is a {kind}, and no log", fix="name files, directories or pipes, or - for what is typed"
        )
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def is_folder(path: Path) -> bool:
    """False also where that can't be known: who opens it learns why."""
    try:
        return path.is_dir()
    except OSError:
        return False


def is_there(path: Path) -> bool:
    """True also where that can't be known: who opens it learns why."""
    try:
        return path.exists()
    except OSError:
        return True


def files_of(folder: Path, control: Control) -> tuple[list[Path], list[OSError], bool]:
    """Its files and those of all directories in it, in order; which can't be looked into; whether there are more files.

    Links to directories are not followed, so that none leads round in a circle.
    """
    files: list[Path] = []
    closed: list[OSError] = []
    for base, folders, names in os.walk(folder, onerror=closed.append):
        control.check()
        folders.sort()
        for name in sorted(names):
            file = Path(base, name)
            try:
                if not file.is_file():
                    continue
            except OSError as error:
                closed.append(error)
                continue
            if len(files) == MOST_FILES:
                return files, closed, True
            files.append(file)
    return files, closed, False


def feed(scan: LogScan, pieces: Iterable[bytes]) -> None:
    """All of them into the scan, in whole lines."""
    lines = LineAssembler(cut=CUT)
    try:
        for piece in pieces:
            whole = lines.feed(piece)
            if whole is not None:
                scan.feed(whole)
    finally:  # of a file that breaks off, what came before is a log too
        rest = lines.flush()
        if rest is not None:
            scan.feed(rest)
