"""Replaces one conf file so that it is the old or the new one at every moment, and can be brought back to the byte."""

from __future__ import annotations

import contextlib
import errno
import time
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_IMODE
from typing import Any, Iterator

from . import conffiles, conflock
from .confkept import Kept, Seen, digest, keep, remove, see, write
from .refusal import Refusal

MOST_WRITTEN = 1000
"""Pushes that a record remembers."""
MEANINGS = {
    errno.ENOENT: ("no_directory", "make it, or use another way of delivery"),
    errno.ENOTDIR: ("no_directory", "make it, or use another way of delivery"),
    errno.EROFS: ("read_only", "use deliver: env or file, which write no file there"),
    errno.EACCES: ("not_writable", "use deliver: env or file, which write no file there"),
    errno.EPERM: ("not_writable", "use deliver: env or file, which write no file there"),
    errno.ENOSPC: ("disk_full", "make room there"),
    errno.EDQUOT: ("disk_full", "make room there (the quota of this user is used up)"),
}


@dataclass(frozen=True)
class Order:
    """What a file is to become, and for whom."""

    who: dict[str, Any]
    """`push_id`, `node_rank`, `user`, `host`, `pid`, `at`: what others are told of who has it."""
    expect: str | None
    """SHA-256 of what the controller saw; None: no file."""
    data: bytes | None
    """The new bytes; None: no file. Of a restore: what takes the original's place, if ``keep_edits``."""
    original: bytes | None = None
    """What is somebody else's in the file that the controller saw."""
    mode: int | None = None
    keep_edits: bool = False
    aside: bool = False
    """Keeps the file as it is now beside it, under a name of its own."""


@dataclass
class Staged:
    """What is ready to be put in place, and what it takes to put the old back."""

    lock: conflock.Lock
    seen: Seen
    sha256: str | None
    """Of the file to be; None: no file."""
    restore: bool
    unchanged: bool = False
    backup: str = ""
    """Path of what the file was before the first push."""
    aside: str = ""
    """Path of what it was before this order, if that is to be kept."""
    committed: bool = False
    made: list[Path] = field(default_factory=list)
    """What a rollback removes."""


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """What the kernel refuses becomes a refusal."""
    try:
        yield
    except OSError as error:
        code, fix = MEANINGS.get(error.errno or 0, ("io_error", f"see the kernel's messages on the disk of {path}"))
        raise Refusal(code, f"{path} can't be changed: {error.strerror or error}", fix) from error


class Edit:
    """One conf file being changed: `stage` or `restore`, then `commit`, then `finish`; `rollback` before that."""

    def __init__(self, path: Path) -> None:
        self._kept = Kept(path)
        self._staged: Staged | None = None

    # --- making ready

    def stage(self, order: Order) -> dict[str, Any]:
        """Makes the new file beside the old one, and keeps the old one."""
        with self._staging(order, digest(order.data), restore=False) as staged:
            seen = staged.seen
            staged.unchanged = order.data == seen.data and order.mode in (None, seen.mode)
            if not staged.unchanged:
                self._expect(order.expect, seen)
                self._record(order, staged)
                if order.data is not None:
                    write(self._kept.new, order.data, seen.mode if order.mode is None else order.mode, seen.status)
                self._hold(staged, aside=order.aside)
        return self._answer()

    def restore(self, order: Order) -> dict[str, Any]:
        """Makes ready what was there before the first push; refuses with `edited` what was changed since."""
        with self._staging(order, None, restore=True) as staged:
            record, seen = self._kept.read_record(), staged.seen
            if order.keep_edits:
                staged.sha256 = digest(order.data)
                staged.unchanged = staged.sha256 == seen.sha256
            elif record is None:
                raise Refusal("nothing", f"nothing was ever pushed to {self._kept.file}")
            else:
                staged.sha256 = record["original"] and record["original"]["sha256"]
                staged.unchanged = staged.sha256 == seen.sha256
                if not staged.unchanged and seen.sha256 not in record["written"]:
                    raise _edited(self._kept.file, seen)
            if not staged.unchanged:
                self._expect(order.expect, seen)
                if order.keep_edits and order.data is not None:
                    write(self._kept.new, order.data, seen.mode, seen.status)
                elif record is not None and not order.keep_edits and self._kept.original(record) is not None:
                    keep(self._kept.backup(record["original"]["sha256"]), self._kept.new)
                self._hold(staged, aside=order.aside)
        return self._answer()

    @contextlib.contextmanager
    def _staging(self, order: Order, sha256: str | None, *, restore: bool) -> Iterator[Staged]:
        """The lock and a clean place; what goes wrong leaves nothing."""
        if self._staged is not None:
            raise Refusal("bad_request", f"{self._kept.file} is staged already")
        with told(self._kept.file):
            if not self._kept.directory.is_dir():
                raise Refusal("no_directory", f"there is no directory {self._kept.directory}", "make it")
            lock = conflock.Lock(self._kept.lock, self._kept.file, order.who)
            try:
                seen = see(self._kept.file)
                self._staged = Staged(lock, seen, sha256, restore)
                self._kept.clear(seen.sha256)
                yield self._staged
            except BaseException:
                if self._staged is None:
                    lock.release()
                self.rollback()
                raise

    def _expect(self, expect: str | None, seen: Seen) -> None:
        if expect != seen.sha256:
            message = f"{self._kept.file} was changed since it was looked at"
            raise Refusal("changed", message, "run the command again: it shows what is there now", _now(seen))

    def _hold(self, staged: Staged, *, aside: bool) -> None:
        if staged.seen.data is not None:
            keep(self._kept.file, self._kept.old)
        if aside and staged.seen.data is not None and staged.seen.sha256 is not None:
            path = self._kept.aside(staged.seen.sha256)
            staged.aside = str(path)
            remove(path)  # of that very file it may be there since the last time, or half of it
            staged.made.append(path)
            write(path, staged.seen.data, staged.seen.mode, staged.seen.status)
        self._kept.sync()

    def _answer(self) -> dict[str, Any]:
        assert self._staged is not None
        staged = self._staged
        about = {"unchanged": staged.unchanged, "sha256": staged.sha256, "backup": staged.backup}
        about["aside"] = staged.aside
        return {"path": str(self._kept.file), **about}

    # --- the original

    def _record(self, order: Order, staged: Staged) -> None:
        """Says what is ours before it is in place: whoever comes after a crash knows it."""
        before = self._kept.read_record()
        original = self._original(order, staged, before)
        staged.backup = str(self._kept.backup(original["sha256"])) if original is not None else ""
        written = [sha for sha in before["written"] if sha != staged.sha256] if before is not None else []
        if before is None:
            staged.made.append(self._kept.record)
        by = f"{order.who.get('user')}@{order.who.get('host')}"
        written = [*written[1 - MOST_WRITTEN :], staged.sha256]
        about = {"at": time.time(), "by": by, "push_id": order.who.get("push_id")}
        self._kept.write_record({"original": original, "written": written, **about})

    def _original(self, order: Order, staged: Staged, record: dict[str, Any] | None) -> dict[str, Any] | None:
        """What a restore will bring back: what is kept already, unless somebody edited the file since."""
        seen, sha256 = staged.seen, digest(order.original)
        if record is not None:
            kept: dict[str, Any] | None = record["original"]
            known = kept["sha256"] if kept is not None else None
            ours = seen.sha256 in (*record["written"], known) or sha256 == known
            if ours and (known is None or self._kept.intact(known)):
                return kept
        if order.original is None or sha256 is None:
            return None
        backup = self._kept.backup(sha256)
        if not self._kept.intact(sha256):
            remove(backup)
            staged.made.append(backup)
            if sha256 == seen.sha256:
                keep(self._kept.file, backup)
            else:
                write(self._kept.new, order.original, seen.mode, seen.status)
                self._kept.new.replace(backup)
        status = backup.stat()
        return {"sha256": sha256, "mode": S_IMODE(status.st_mode), "uid": status.st_uid, "gid": status.st_gid}

    # --- putting in place, or back

    def commit(self) -> dict[str, Any]:
        """The one moment at which the file changes; what goes wrong is rolled back."""
        staged = self._need()
        if staged.committed or staged.unchanged:
            return {"path": str(self._kept.file)}
        try:
            with told(self._kept.file):
                self._expect(staged.seen.sha256, see(self._kept.file))
                if staged.sha256 is None:
                    self._kept.file.unlink()
                else:
                    self._kept.new.replace(self._kept.file)
                staged.committed = True
                self._kept.sync()
        except BaseException:
            self.rollback()
            raise
        return {"path": str(self._kept.file)}

    def rollback(self) -> dict[str, Any]:
        """The file as it was, if anything was staged."""
        staged, self._staged = self._staged, None
        if staged is not None:
            with told(self._kept.file), _released(staged.lock):
                self._put_back(staged)
        return {"path": str(self._kept.file), "rolled_back": staged is not None}

    def _put_back(self, staged: Staged) -> None:
        kept = self._kept
        if staged.committed:
            now = see(kept.file)
            if now.sha256 != staged.sha256:
                raise _edited(kept.file, now)
            if staged.seen.data is None:
                kept.file.unlink()
            else:
                kept.old.replace(kept.file)
        if kept.record_old.exists():
            kept.record_old.replace(kept.record)
        remove(kept.new, kept.old, kept.record_new, kept.record_old, *staged.made)
        kept.sync()

    def finish(self) -> dict[str, Any]:
        """Makes it last. After a restore nothing of ours is left."""
        staged, kept = self._need(), self._kept
        if not (staged.committed or staged.unchanged):
            raise Refusal("bad_request", f"{kept.file} is staged and not committed")
        self._staged = None
        with told(kept.file), _released(staged.lock):
            remove(kept.old, kept.record_old)
            if staged.restore:
                remove(*kept.backups(), kept.record)
            kept.sync()
        return {"path": str(kept.file)}

    def _need(self) -> Staged:
        if self._staged is None:
            raise Refusal("not_staged", f"nothing is staged for {self._kept.file}", "run the command again")
        return self._staged


@contextlib.contextmanager
def _released(lock: conflock.Lock) -> Iterator[None]:
    try:
        yield
    finally:
        lock.release()


def _now(seen: Seen) -> dict[str, Any]:
    return {"sha256": seen.sha256}


def _edited(path: Path, seen: Seen) -> Refusal:
    fix = f"see what it says now; to have the original all the same, put back what was pushed, or edit {path} yourself"
    return Refusal("edited", f"{path} was changed by somebody since it was pushed", fix, _now(seen))


def look(path: Path, roles: list[str], uid: int | None = None) -> dict[str, Any]:
    """The answer to `conf_look`: changes nothing. ``uid``: who would change the file, if not we."""
    kept = Kept(path)
    with told(path):
        record, file = kept.read_record(), conffiles.look(path, roles)
        answer = {"path": str(path), "file": file, "record": record, "state": "none", "restores": None}
        if record is not None:
            sha256, original = file["sha256"] or None, record["original"]
            if original is not None:
                answer["record"] = {**record, "original": {**original, "backup": str(kept.backup(original["sha256"]))}}
            if file["error"]:
                answer["state"] = "edited"
            elif sha256 == (original and original["sha256"]):
                answer["state"] = "original"
            else:
                answer["state"] = "ours" if sha256 in record["written"] else "edited"
            with contextlib.suppress(Refusal, PermissionError):
                data = kept.original(record)
                answer["restores"] = {"data": None if data is None else b64encode(data).decode("ascii")}
        answer["holder"] = conflock.holder(kept.lock)
    answer["refused"] = None
    try:
        with told(path):
            see(path, uid)
    except Refusal as refusal:
        answer["refused"] = refusal.as_json()
    return answer
