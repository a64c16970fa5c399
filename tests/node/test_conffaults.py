"""A push that dies or fails at any system call: the file is the old or the new one, and nothing is lost."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from ncclrun.node.confedit import Edit
from ncclrun.node.refusal import Refusal
from tests.node.confplace import Place, State

THEIRS, OURS, LATER = b"A=1  # \xff\r\n", b"A=1  # \xff\r\nB=1\n", b"A=1  # \xff\r\nB=2\n"
EDITED, EDITED_LATER = b"C=1\n" + OURS, b"C=1\n" + LATER
# fmt: off
CALLS = frozenset((
    "open", "write", "pwrite", "fsync", "link", "rename", "replace", "unlink", "remove", "fchmod", "fchown",
    "ftruncate", "utime", "flock",
))
# fmt: on
"""What changes a disk, by its name in the modules of C."""


class Watch:
    """Counts the calls that change the disk, and does something in place of the n-th."""

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self.number = number
        self.count = 0
        self._act = act

    def _see(self, _frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and function.__name__ in CALLS and function.__module__ in ("posix", "fcntl"):
            self.count += 1
            if self.count == self.number:
                self._act()

    def __enter__(self) -> Watch:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


class Case(NamedTuple):
    """What is there, what is done, and what comes of it."""

    there: bytes | None
    pushed: bool
    edited: bool
    do: Callable[[Place], None]
    then: bytes | None

    def begin(self, directory: Path) -> tuple[Place, State | None]:
        """The file before; its first state."""
        place = Place(directory)
        first = place.administrators(self.there) if self.there is not None else None
        if self.pushed:
            place.push(OURS, original=self.there)
        if self.edited:
            place.file.write_bytes(EDITED)
        return place, first


CASES = {
    "new": Case(None, False, False, lambda place: place.push(LATER), LATER),
    "first": Case(THEIRS, False, False, lambda place: place.push(LATER, original=THEIRS), LATER),
    "again": Case(THEIRS, True, False, lambda place: place.push(LATER, original=THEIRS), LATER),
    "edited": Case(
        THEIRS, True, True, lambda place: place.push(EDITED_LATER, original=b"C=1\n" + THEIRS), EDITED_LATER
    ),
    "away": Case(THEIRS, False, False, lambda place: place.push(None, original=THEIRS), None),
    "restore": Case(THEIRS, True, False, Place.restore, THEIRS),
    "restore none": Case(None, True, False, Place.restore, None),
}


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    """Each in turn."""
    found: Case = request.param
    return found


def killed(watch: Watch, work: Callable[[], None]) -> bool:
    """Does it in a child; whether that was killed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with watch:
                work()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL


def directories(tmp_path: Path) -> Callable[[int], Path]:
    def made(number: int) -> Path:
        path = tmp_path / str(number)
        path.mkdir()
        return path

    return made


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def steps(tmp_path: Path, case: Case) -> int:
    """How many calls it makes."""
    directory = tmp_path / "count"
    directory.mkdir()
    place, _ = case.begin(directory)
    with Watch(0, kill) as watch:
        case.do(place)
    assert place.content() == case.then
    return watch.count


def test_killed_at_any_call_it_leaves_the_old_or_the_new_file_and_the_way_back(tmp_path: Path, case: Case) -> None:
    made, seen = directories(tmp_path), set()
    total = steps(tmp_path, case)
    assert total > 10
    for number in range(1, total + 1):
        place, first = case.begin(made(number))
        before = place.content()
        assert killed(Watch(number, kill), lambda place=place: case.do(place))  # type: ignore[misc]  # the loop's own
        after = place.content()
        assert after in (before, case.then)
        seen.add(after == before)
        if case.edited:
            _then_push_and_restore_an_edited_one(place, after)
            continue
        place.push(OURS + b"%d\n" % number, original=case.there)
        place.restore()
        assert place.state() == first
        assert place.beside() == {}
    assert seen == {True, False}


def _then_push_and_restore_an_edited_one(place: Place, after: bytes | None) -> None:
    """The edits were the administrator's last word, whichever file is in place."""
    if after == EDITED:
        with pytest.raises(Refusal, match="changed by somebody"):
            place.restore()
        assert place.content() == EDITED
    place.push(OURS + b"D=1\n", original=b"C=1\n" + THEIRS)
    place.restore()
    assert (place.content(), place.beside()) == (b"C=1\n" + THEIRS, {})


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, "disk_full"), (errno.EROFS, "read_only"), (errno.EIO, "io_error"), (errno.EACCES, "not_writable")],
)
def test_a_call_that_fails_is_a_refusal_and_everything_is_as_before(
    tmp_path: Path, case: Case, number: int, code: str
) -> None:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    made = directories(tmp_path)
    for at in range(1, steps(tmp_path, case) + 1):
        place, first = case.begin(made(at))
        before, beside = place.state(), place.beside()
        with pytest.raises(Refusal) as refused, Watch(at, fail):
            case.do(place)
        assert refused.value.code in (code, "no_lock", *(["unreadable"] if number == errno.EACCES else []))
        if place.state() == before:
            # The lock's own file is what may be left, where it could not be removed.
            assert {name: data for name, data in place.beside().items() if not name.endswith(".lock")} == beside
        else:
            assert place.content() == case.then  # it failed at the clearing up
        if not case.edited:
            place.push(OURS + b"%d\n" % at, original=case.there)
            place.restore()
            assert place.state() == first
            assert place.beside() == {}


def mounted(options: str, directory: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program with a file system of its own on the directory."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("no unshare here: apt-get install util-linux")
    argv = [unshare, "--mount", *([] if os.getuid() == 0 else ["--map-root-user"])]
    root = str(Path(__file__).parents[2])
    script = f'set -e; mount {options} "$1"; shift; exec "$@"'
    command = [*argv, "sh", "-c", script, "sh", str(directory), sys.executable, "-c", program, str(directory)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True, check=False)
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done


FULL = """
import os, sys
from pathlib import Path
from ncclrun.node.refusal import Refusal
from tests.node.confplace import Place
place = Place(Path(sys.argv[1]))
first = place.administrators(b"A=1\\n" * 1000)
filler = place.directory / "filler"
seen = []
for pages in range(12):
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
        os.truncate(filler, max(0, os.stat(filler).st_size - 4096 * pages))
    try:
        place.push(b"A=1\\n" * 1000 + b"B=1\\n", original=b"A=1\\n" * 1000)
    except Refusal as refusal:
        assert place.state() == first
        assert set(place.beside()) == {"filler"}, place.beside()
        seen.append(refusal.code)
    else:
        place.restore()
        assert place.state() == first
        assert set(place.beside()) == {"filler"}
        seen.append("pushed")
print(*seen)
"""


def test_a_disk_that_is_really_full_refuses_and_loses_nothing(tmp_path: Path) -> None:
    said = mounted("-t tmpfs -o size=128k,mode=755 none", tmp_path, FULL).stdout.split()
    assert set(said) == {"disk_full", "pushed"}
    assert said.index("pushed") > 1


READ_ONLY = """
import sys
from pathlib import Path
from ncclrun.node.refusal import Refusal
from tests.node.confplace import Place
for work in (lambda place: place.push(b"B=1\\n"), lambda place: place.restore()):
    try:
        work(Place(Path(sys.argv[1])))
    except Refusal as refusal:
        print(refusal.code)
"""


def test_a_disk_that_may_not_be_written_refuses(tmp_path: Path) -> None:
    assert mounted("-t tmpfs -o ro none", tmp_path, READ_ONLY).stdout.split() == ["read_only", "read_only"]


def test_many_pushes_at_once_one_at_a_time_wins_and_the_original_survives(tmp_path: Path) -> None:
    place = Place(tmp_path)
    first = place.administrators(THEIRS)
    children = []
    for number in range(8):
        pid = os.fork()
        if pid == 0:
            code = 9
            try:
                code = _one_of_many(place, THEIRS + b"N=%d\n" % number)
            finally:
                os._exit(code)
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert set(codes) <= {0, 1}
    assert 0 in codes
    content = place.content()
    assert content in [THEIRS + b"N=%d\n" % number for number, code in enumerate(codes) if code == 0]
    place.restore()
    assert place.state() == first
    assert place.beside() == {}


def _one_of_many(place: Place, data: bytes) -> int:
    edit = Edit(place.file)
    try:
        edit.stage(place.order(data, original=THEIRS))
        edit.commit()
        edit.finish()
    except Refusal as refusal:
        assert refusal.code in ("busy", "changed")
        return 1
    return 0
