"""A lock for each GPU of a run: of two runs that want one, whosever they are, one gets it, until its supervisor dies.

A lock is a name in the kernel's table of abstract sockets, which all users of a network namespace share. Unlike a file
it can neither be removed (by a cleaner of /tmp, or at a logout), nor outlive the process that held it, nor be planted.
"""

from __future__ import annotations

import errno
import hashlib
import re
import socket
import time
from pathlib import Path
from typing import Any, NamedTuple

from . import machine

TABLE = Path("/proc/net/unix")
LISTED = re.compile(r"@ncclrun/([0-9a-f]{12})(?:/([a-z0-9._-]{1,64})/(\d{1,10})/(\d{1,10}))?$", re.M)
MOST_GPUS = 256
# Between its two calls a holder has a name and no note yet; and it may let go while we look.
TRIES = 10
NOTE_SECONDS = 0.01


class Gpu(NamedTuple):
    """A GPU by its index on the node, for people, and its UUID."""

    number: int
    uuid: str


class Note(NamedTuple):
    """Who holds a lock, as they say themselves; ``since`` is Unix time."""

    run_id: str
    uid: int
    since: int


class Locks:
    """What a run holds on this node; nothing at first."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    @property
    def descriptors(self) -> frozenset[int]:
        """Whoever has one of these open holds its lock."""
        return frozenset(one.fileno() for one in self._sockets)

    def take(self, gpus: list[Gpu], run_id: str) -> list[dict[str, Any]]:
        """Takes all of them and returns [], or none and returns the ``holders`` of the request `lock`. Raises OSError.

        Everybody goes by the order of keys, so that of two who want some of the same one gets what it wants.
        """
        for _ in range(TRIES):
            if self._take(gpus, run_id):
                return []
            held = holders(gpus)
            if held:
                return held  # else it was let go of in between
        return [_holder(None, [gpu.number for gpu in gpus])]

    def _take(self, gpus: list[Gpu], run_id: str) -> bool:
        note = (run_id, machine.uid(), int(time.time()))
        try:
            for key in sorted({_key(gpu) for gpu in gpus}):
                self._bind(f"\0ncclrun/{key}")
                self._bind("\0ncclrun/" + "/".join(map(str, (key, *note))))
        except OSError as error:
            self.close()
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        return True

    def _bind(self, name: str) -> None:
        # Bound and never listening: nobody can connect to it, or fill it.
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sockets.append(one)
        one.bind(name)

    def close(self) -> None:
        """Lets go of what no other process has open as well."""
        for one in self._sockets:
            one.close()
        self._sockets.clear()


def _key(gpu: Gpu) -> str:
    """A name has 107 bytes, and the longest note needs the rest of them."""
    return hashlib.sha256(gpu.uuid.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _table() -> dict[str, Note | None]:
    """Every lock that is held, by its key."""
    found: dict[str, Note | None] = {}
    for key, run_id, uid, since in LISTED.findall(TABLE.read_text("utf-8", "replace")):
        note = Note(run_id, int(uid), int(since)) if run_id else None
        found[key] = note or found.get(key)
    return found


def holders(gpus: list[Gpu]) -> list[dict[str, Any]]:
    """Who holds which of them, those of one run together."""
    wanted = {_key(gpu): gpu for gpu in gpus}
    for _ in range(TRIES):
        held = {key: note for key, note in _table().items() if key in wanted}
        if None not in held.values():
            break
        time.sleep(NOTE_SECONDS)
    by: dict[Note | None, list[int]] = {}
    for key, note in held.items():
        by.setdefault(note, []).append(wanted[key].number)
    return [_holder(note, sorted(indexes)) for note, indexes in by.items()]


def _holder(note: Note | None, indexes: list[int]) -> dict[str, Any]:
    """``note`` None: somebody who does not say who they are."""
    if note is None:
        return {"gpus": indexes, "run_id": "", "uid": -1, "user": "", "own": False, "seconds": None}
    return {
        "gpus": indexes,
        "run_id": note.run_id,
        "uid": note.uid,
        "user": machine.name_of(note.uid),
        "own": note.uid == machine.uid(),
        "seconds": max(0.0, time.time() - note.since),
    }
