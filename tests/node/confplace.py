"""A conf file in a directory of its own, and pushes to it in the words of a test."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from ncclrun.node.confedit import Edit, Order
from ncclrun.node.confkept import digest

WHO = {"push_id": "p1", "node_rank": 0, "user": "somebody", "host": "gpu1", "pid": 1, "at": 0.0}


class State(NamedTuple):
    """What must come back: everything that one can see of a file."""

    data: bytes
    mode: int
    uid: int
    gid: int
    inode: int
    modified: int


class Place:
    """The file and what lies beside it."""

    def __init__(self, directory: Path, name: str = "nccl.conf") -> None:
        self.directory = directory
        self.file = directory / name

    def content(self) -> bytes | None:
        """What it says; None: there is none."""
        return self.file.read_bytes() if self.file.exists() else None

    def state(self) -> State | None:
        """All of it."""
        if not self.file.exists():
            return None
        status = self.file.stat()
        about = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_ino, status.st_mtime_ns)
        return State(self.file.read_bytes(), *about)

    def beside(self) -> dict[str, bytes]:
        """What lies there but the file itself."""
        return {path.name: path.read_bytes() for path in self.directory.iterdir() if path != self.file}

    def order(self, data: bytes | None, *, original: bytes | None = None, **more: object) -> Order:
        """An order from what is there now."""
        return Order(**{"who": WHO, "expect": digest(self.content()), "data": data, "original": original, **more})  # type: ignore[arg-type]  # a bag for tests

    def push(self, data: bytes | None, *, original: bytes | None = None) -> None:
        """From beginning to end."""
        edit = Edit(self.file)
        edit.stage(self.order(data, original=original))
        edit.commit()
        edit.finish()

    def restore(self) -> None:
        """From beginning to end."""
        edit = Edit(self.file)
        edit.restore(self.order(None))
        edit.commit()
        edit.finish()

    def administrators(self, data: bytes) -> State:
        """A file as somebody made it long ago, with a mode of its own."""
        self.file.write_bytes(data)
        self.file.chmod(0o640)
        os.utime(self.file, ns=(10**18, 10**18 + 1))
        state = self.state()
        assert state is not None
        return state
