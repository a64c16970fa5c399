"""A push that is cut short at any step leaves every host with the old or the new file, and loses nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.jobs.bench import Bench, eventually
from tests.jobs.pushing import ADMIN, STEPS, Kept, Pushing, Step, programs

pytestmark = pytest.mark.cluster

NODE_PART = "ncclrun_node"
EDIT = "confprogram"


@pytest.fixture(params=["user", "system"])
def pushing(bench: Bench, request: pytest.FixtureRequest) -> Iterator[Pushing]:
    """Hosts without conf files."""
    pushing = Pushing(bench, request.param)
    pushing.clean()
    yield pushing
    bench.close()
    bench.cluster.mend()
    pushing.clean()


user_only = pytest.mark.parametrize("pushing", ["user"], indirect=True)
system_only = pytest.mark.parametrize("pushing", ["system"], indirect=True)


class Mixed:
    """An administrator's file, no file, and one that was pushed before."""

    def __init__(self, pushing: Pushing) -> None:
        self._pushing = pushing
        pushing.administrators(0)
        self.first = [pushing.kept(host) for host in range(3)]
        pushing.push()
        pushing.restore("--nodes", "node0,node1")
        self.old = [pushing.kept(host) for host in range(3)]
        assert self.old[:2] == self.first[:2]
        pushing.settings(NCCL_IB_TIMEOUT="23")

    def is_untouched(self) -> None:
        """Every host has its old file, with nothing half-made beside it."""
        assert [self._pushing.kept(host) for host in range(3)] == self.old
        assert [self._pushing.beside(host) for host in range(3)] == [[], [], [".nccl.conf.ncclrun.json"]]

    def can_go_on(self) -> None:
        """The next push does all, and a restore brings back the very first."""
        self._pushing.push()
        new = self._pushing.contents()
        assert all(data is not None and b"NCCL_IB_TIMEOUT=23" in data for data in new)
        assert new[0] is not None
        assert new[0].endswith(ADMIN)
        self._pushing.restore()
        assert [self._pushing.kept(host) for host in range(3)] == self.first
        assert [self._pushing.beside(host) for host in range(3)] == [[], [], []]


BEFORE_THE_FINISH = {name: step for name, step in STEPS.items() if name != "between finishes"}


class TestTheController:
    """What becomes of the hosts when the machine where it was typed fails, or whoever typed it changes their mind."""

    @pytest.mark.parametrize("pushing", ["system"], indirect=True)
    def test_killed_before_any_step_it_has_changed_nothing(self, pushing: Pushing) -> None:
        mixed = Mixed(pushing)
        for step in BEFORE_THE_FINISH.values():
            pushing.stopping(step).kill()
            pushing.nobody_is_at_work()
            mixed.is_untouched()
        mixed.can_go_on()

    @user_only
    def test_killed_between_finishes_each_host_has_the_old_or_the_new_one(self, pushing: Pushing) -> None:
        mixed = Mixed(pushing)
        pushing.stopping(STEPS["between finishes"]).kill()
        pushing.nobody_is_at_work()
        kept = [pushing.kept(host) for host in range(3)]
        same = [now == old for now, old in zip(kept, mixed.old, strict=True)]
        assert sorted(same) == [False, False, True]
        assert all(is_new(now) for now, is_same in zip(kept, same, strict=True) if not is_same)
        mixed.can_go_on()

    @user_only
    def test_ctrl_c_before_any_step_puts_all_back_and_says_so(self, pushing: Pushing) -> None:
        mixed = Mixed(pushing)
        for name, step in BEFORE_THE_FINISH.items():
            if name == "before the finishes":
                continue  # from here on it is not heard
            stopped = pushing.stopping(step)
            stopped.running.press()
            done = stopped.running.wait()
            assert (done.code, done.end["reason"]) == (130, "interrupted: nothing was changed"), (name, done)
            mixed.is_untouched()
        mixed.can_go_on()

    @system_only
    def test_a_closed_terminal_is_a_ctrl_c(self, pushing: Pushing) -> None:
        mixed = Mixed(pushing)
        stopped = pushing.stopping(STEPS["between commits"])
        stopped.running.press(signal.SIGHUP)
        done = stopped.running.wait()
        assert done.code == 130
        assert {event["node"] for event in done.of("conf_rolled_back")} == {"node0", "node1", "node2"}
        mixed.is_untouched()

    @user_only
    def test_ctrl_c_at_the_finish_comes_too_late(self, pushing: Pushing) -> None:
        mixed = Mixed(pushing)
        stopped = pushing.stopping(STEPS["before the finishes"])
        stopped.running.press()
        done = stopped.go_on()
        assert done.code == 0
        assert len(done.of("conf_pushed")) == 3
        pushing.restore()
        assert [pushing.kept(host) for host in range(3)] == mixed.first

    @user_only
    def test_a_restore_that_is_killed_is_taken_up_again(self, pushing: Pushing) -> None:
        mixed = Mixed(pushing)
        pushing.push()
        new = pushing.contents()
        for step in (("conf_restore", 2), ("conf_commit", 2), ("conf_finish", 1)):
            pushing.stopping(step, "restore").kill()
            pushing.nobody_is_at_work()
            assert pushing.contents() == new
        pushing.stopping(("conf_finish", 2), "restore").kill()
        pushing.nobody_is_at_work()
        pushing.restore()
        assert [pushing.kept(host) for host in range(3)] == mixed.first
        assert [pushing.beside(host) for host in range(3)] == [[], [], []]


def is_new(kept: Kept | None) -> bool:
    """Whether it is what the push was to write."""
    return kept is not None and b"NCCL_IB_TIMEOUT=23" in kept.data
