"""Fixtures of the node tests: a home of its own, and the interpreters that the node part must run on."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ncclrun.node import processes
from tests.node.client import SECONDS, TOKEN, Client, connected

VERSIONS = Path.home() / ".pyenv" / "versions"


def _interpreters() -> list[str]:
    """Every CPython from 3.8 on that is installed here, one for each minor version; this one among them."""
    found = {sys.version_info[:2]: sys.executable}
    for minor in range(8, 20):
        name = f"python3.{minor}"
        kept = sorted(VERSIONS.glob(f"3.{minor}.*/bin/{name}"))
        path = shutil.which(name, path="/usr/bin:/usr/local/bin") or (str(kept[-1]) if kept else None)
        if path is not None:
            found.setdefault((3, minor), path)
    return [found[version] for version in sorted(found)]


INTERPRETERS = _interpreters()
OLDEST = INTERPRETERS[0]


@pytest.fixture(params=INTERPRETERS, ids=lambda path: Path(path).resolve().name)
def every_python(request: pytest.FixtureRequest) -> str:
    """Each interpreter in turn."""
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home directory."""
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def env(home: Path) -> dict[str, str]:
    """The login environment of the node: bare, as in a container."""
    return {"HOME": str(home), "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "USER": "somebody"}


def leftovers() -> list[str]:
    """Commands of the tests' runs that live."""
    members = processes.members(lambda cookie: cookie.endswith("/" + TOKEN))
    return [processes.command_of(process.pid) for process in members]


@pytest.fixture
def node(env: dict[str, str]) -> Iterator[Client]:
    """A connected client on the oldest interpreter; whatever a test leaves is killed, and is a failure."""
    with connected(OLDEST, env) as client:
        yield client
    left = leftovers()
    processes.kill_all(lambda: processes.members(lambda cookie: cookie.endswith("/" + TOKEN)), 5.0)
    assert left == []


@pytest.fixture
def runs(home: Path) -> Path:
    """Where the runs of that home lie."""
    return home / ".local" / "state" / "ncclrun" / "runs"


def kill_with_warden(supervisor: int) -> None:
    """SIGKILL to a supervisor and, before, to its warden, which would clear up after it; returns when both are dead."""
    one = processes.look(supervisor)
    assert one is not None
    for pid in (one.ppid, one.pid):
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + SECONDS
    while any((now := processes.look(pid)) is not None and not now.ended for pid in (one.ppid, one.pid)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextlib.contextmanager
def again(env: dict[str, str]) -> Iterator[Client]:
    """A second controller."""
    with connected(OLDEST, env) as client:
        yield client
