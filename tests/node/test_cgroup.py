"""A cgroup of the run's own: taken where it is given, never where somebody else divides them."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ncclrun.node import cgroup
from tests.node.client import Client

COOKIE = f"r/0/a-token-{os.getpid()}"
# Forks twice, empties its environment and leaves its session: neither ancestry nor cookie find it.
HIDING = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"], {})
    os._exit(0)
os.wait()
time.sleep(600)
"""


@pytest.fixture
def group() -> Iterator[Path]:
    """A real one."""
    found = cgroup.make(COOKIE)
    if found is None:
        pytest.skip("there is no cgroup version 2 that this user may divide, with cgroup.kill (Linux 5.14)")
    yield found
    cgroup.kill(found)
    cgroup.remove(found)


def test_all_in_it_ends_at_one_stroke_and_it_goes(group: Path) -> None:
    (group / "inner").mkdir()
    inside = [
        subprocess.Popen(["sleep", "600"], preexec_fn=functools.partial(cgroup.enter, where))  # noqa: PLW1509  # one thread
        for where in (group, group / "inner")
    ]
    assert sorted(cgroup.members(group)) == sorted(process.pid for process in inside)
    cgroup.kill(group)
    assert [process.wait(30) for process in inside] == [-signal.SIGKILL] * 2
    cgroup.remove(group)
    assert not group.exists()


def test_who_hides_from_a_dead_supervisor_is_found_in_it(group: Path, node: Client, runs: Path) -> None:
    node.launch("r", [sys.executable, "-c", HIDING])
    node.event("state", state="running")
    state = node_state(runs)
    own = Path(state["cgroup"])
    while len(cgroup.members(own)) != 2:
        node.receive(0.1)
    os.kill(state["supervisor"]["pid"], signal.SIGKILL)
    assert node.end()["reason"] == "lost"
    assert cgroup.members(own) == []
    assert not own.exists()


def node_state(runs: Path) -> dict[str, Any]:
    """state.json of the one run."""
    (part,) = runs.glob("r/*")
    state: dict[str, Any] = json.loads((part / "state.json").read_text())
    return state


class TestWhereItMayBe:
    @pytest.fixture
    def tree(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A mount that shows a part of the hierarchy, with us in `/a/b`."""
        mine = tmp_path / "cg/b"
        mine.mkdir(parents=True)
        (mine / "cgroup.procs").write_text("")
        for name, text in {
            "SELF": "2:cpu:/x\n0::/a/b\n",
            "MOUNTS": f"30 25 0:26 /a {tmp_path}/cg rw - cgroup2 cgroup2 rw\n",
        }.items():
            (tmp_path / name).write_text(text)
            monkeypatch.setattr(cgroup, name, tmp_path / name)
        monkeypatch.setattr(cgroup, "SYSTEMD", tmp_path / "no-systemd")
        return tmp_path

    def test_it_lies_below_our_own(self, tree: Path) -> None:
        assert cgroup.find(COOKIE) == tree / "cg/b" / cgroup.name(COOKIE)

    def test_its_name_does_not_tell_the_token(self) -> None:
        assert "token" not in cgroup.name(COOKIE)

    def test_a_kernel_without_the_one_stroke_gets_none(self, tree: Path) -> None:
        assert cgroup.make(COOKIE) is None
        assert sorted(path.name for path in (tree / "cg/b").iterdir()) == ["cgroup.procs"]

    def test_where_systemd_divides_them_only_what_it_gave_away_is_taken(
        self, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cgroup, "SYSTEMD", tree)
        assert cgroup.find(COOKIE) is None

    def test_a_mount_that_does_not_show_ours_gives_none(self, tree: Path) -> None:
        (tree / "SELF").write_text("0::/elsewhere\n")
        assert cgroup.find(COOKIE) is None

    def test_without_version_2_there_is_none(self, tree: Path) -> None:
        (tree / "SELF").write_text("2:cpu:/x\n")
        assert cgroup.find(COOKIE) is None
