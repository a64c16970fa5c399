"""A run's directory through starts, deaths and power cuts at any write: what a reader sees is whole, and legal."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ncclrun.node import lost, machine, partrequests, processes, rundir, states

CALLS = ("fsync", "link", "rename", "replace", "unlink", "mkfifo", "mkdir", "rmdir", "write", "pwrite", "ftruncate")
CUT = st.none() | st.integers(0, 12)


def seen(*, published: bool, said: str | None, ended: bool) -> str:
    """The state that a run directory shows: is it there, what does state.json say (None: nothing), is there an end.

    The end goes over everything: state.json is never written again after it, and may lag behind it.
    """
    if ended:
        return states.ENDED
    if said is not None:
        return said
    return states.PREPARED if published else states.NEW


class PowerCut(BaseException):
    """Nothing that we do reaches the disk any more."""


@contextlib.contextmanager
def power_cut_before(call: int | None) -> Iterator[None]:
    """From this call that changes a disk on all of them fail, those that would clean up too."""
    left = 10**9 if call is None else call

    def guarded(do: Callable[..., Any]) -> Callable[..., Any]:
        def guard(*args: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerCut
            return do(*args, **named)

        return guard

    with contextlib.ExitStack() as stack:
        for name in CALLS:
            do = getattr(os, name) if name != "fsync" else lambda _fd: None  # the disk that fails is a play of ours
            stack.enter_context(mock.patch.object(os, name, guarded(do)))
        try:
            yield
        except PowerCut:
            Life.alive = {}
            Life.boot += "+"


class Life(RuleBasedStateMachine):
    """One part of a run, two controllers' serving processes, and the supervisors that they may start."""

    alive: ClassVar[dict[int, int]] = {}
    boot: ClassVar[str] = ""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.path = self.root / "runs/r/0-m"
        self.path.parent.mkdir(parents=True)
        self.run = rundir.RunDir(self.path)
        Life.alive, Life.boot = {}, "boot0"
        self.supervisors: dict[int, str] = {}
        """What each that ever was thinks its state is, by process id."""
        self.seen = states.NEW
        self.end: bytes | None = None
        self.patches = contextlib.ExitStack()
        self.patches.enter_context(mock.patch.object(processes, "look", self.look))
        self.patches.enter_context(mock.patch.object(processes, "kill_all", lambda *_: []))
        self.patches.enter_context(mock.patch.object(machine, "boot_id", lambda: Life.boot))

    def teardown(self) -> None:
        """Leaves nothing."""
        self.patches.close()
        shutil.rmtree(self.root)

    @staticmethod
    def look(pid: int) -> processes.Process | None:
        """Only the supervisors of this test are processes."""
        return processes.Process(pid, 1, "S", Life.alive[pid], 0) if pid in Life.alive else None

    # --- what a serving process does

    @precondition(lambda self: self.seen == states.NEW)
    @rule(cut=CUT)
    def prepare(self, cut: int | None) -> None:
        draft = self.path.with_name(f".draft{time.monotonic_ns()}")
        facts = {"run_id": "r", "token": "t", "cookie": "r/0/t", "node_rank": 0, "nproc": 1}
        with power_cut_before(cut):
            draft.mkdir(parents=True)
            rundir.RunDir(draft).reserve(1)
            rundir.write_whole(draft / "run.json", {**facts, "boot_id": Life.boot, "prepared_at": 1.0})
            draft.rename(self.path)

    @precondition(lambda self: self.path.exists())
    @rule(cut=CUT)
    def start(self, cut: int | None) -> None:
        """Of however many one wins; its supervisor may die before its first word."""
        pid = 100 + len(self.supervisors)
        with power_cut_before(cut):
            if self.run.take():
                assert not [one for one in self.supervisors if one in Life.alive], "two supervisors"
                Life.alive[pid] = pid
                self.supervisors[pid] = states.PREPARED
                self.say(pid, states.STARTING)

    @precondition(lambda self: self.path.exists())
    @rule(cut=CUT)
    def discard(self, cut: int | None) -> None:
        started = bool(Life.alive)
        with power_cut_before(cut):
            assert not (partrequests.remove_unstarted(self.run) and started)

    @precondition(lambda self: self.path.exists())
    @rule(cut=CUT)
    def settle(self, cut: int | None) -> None:
        """As `follow` and `stop` do where no supervisor is to be found."""
        if self.run.control.exists() and self.run.supervisor() is None and self.run.end() is None:
            with power_cut_before(cut):
                lost.settle(self.run, self.run.run())

    # --- what a supervisor does

    def say(self, pid: int, state: str) -> None:
        """As Supervisor._say."""
        if states.may_follow(self.supervisors[pid], state):
            self.supervisors[pid] = state
            value = {"state": state, "time": 1.0, "reason": "", "supervisor": {"pid": pid, "start": Life.alive[pid]}}
            self.run.write_state(value)

    @precondition(lambda _: bool(Life.alive))
    @rule(state=st.sampled_from([states.RUNNING, states.STOPPING]), cut=CUT)
    def goes_on(self, state: str, cut: int | None) -> None:
        (pid,) = Life.alive
        with power_cut_before(cut):
            self.say(pid, state)

    @precondition(lambda _: bool(Life.alive))
    @rule(cut=CUT)
    def ends(self, cut: int | None) -> None:
        """It stays for the other nodes afterwards."""
        (pid,) = Life.alive
        if states.may_follow(self.supervisors[pid], states.ENDED):
            with power_cut_before(cut):
                self.run.write_end({"reason": "finished", "pid": pid}, {})
                self.supervisors[pid] = states.ENDED

    @rule()
    def supervisor_dies(self) -> None:
        Life.alive = {}

    @rule()
    def reboot(self) -> None:
        Life.alive = {}
        Life.boot += "+"

    # --- what anybody sees

    @invariant()
    def all_is_whole_and_legal(self) -> None:
        published = self.path.exists()
        state = self.run.state() if published else None
        end = self.run.end() if published else None
        if published:
            assert self.run.run()["run_id"] == "r"
        said = None if state is None else state["state"]
        now = seen(published=published, said=said, ended=end is not None)
        assert now == self.seen or states.may_follow(self.seen, now), (self.seen, now)
        self.seen = now
        if end is not None:
            text = (self.path / "exit.json").read_bytes()
            assert self.end in (None, text), "it ended twice"
            self.end = text


Life.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestLife = Life.TestCase


@pytest.mark.parametrize("state", states.NEXT)
def test_nothing_follows_an_end(state: str) -> None:
    assert not states.may_follow(states.ENDED, state)
