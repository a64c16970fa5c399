"""A push that is cut short at any step leaves every host with the old or the new file, and loses nothing."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.host import Host, end
from tests.jobs.bench import Bench
from tests.jobs.pushing import ADMIN, STEPS, Kept, Pushing, mount_in_all

pytestmark = pytest.mark.cluster


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
        pushing.push("--nodes", "node2")
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

    @system_only
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


def kill(host: Host, part: str) -> None:
    """SIGKILL to the program that changes the file, or to the serving process."""
    edits = [one.pid for one in host.processes() if "confprogram" in one.command]
    serving = [one.pid for one in host.processes() if one.pid not in edits and not one.command.startswith("sshd")]
    pids = edits if part == "edit" else serving
    assert pids
    for pid in pids:
        end(pid)


class TestAHost:
    """What becomes of the others when one of them fails."""

    @user_only
    def test_whose_node_part_is_killed_puts_its_file_back_by_itself(self, pushing: Pushing) -> None:
        mixed = Mixed(pushing)
        for step in (STEPS["before the commits"], STEPS["before the last look"]):
            stopped = pushing.stopping(step)
            kill(pushing.hosts[1], "node part")
            done = stopped.go_on()
            assert done.code == 255, done
            assert "node1" in done.end["reason"]
            pushing.nobody_is_at_work()
            mixed.is_untouched()
        mixed.can_go_on()

    @system_only
    def test_whose_program_is_killed_after_the_commit_is_told_to_have_the_new_file(self, pushing: Pushing) -> None:
        mixed = Mixed(pushing)
        stopped = pushing.stopping(STEPS["before the last look"])
        kill(pushing.hosts[1], "edit")
        done = stopped.go_on()
        assert (done.code, done.end["reason"].split("; ")[1]) == (3, "node1 may have the new file still")
        assert {event["node"] for event in done.of("conf_rolled_back")} == {"node0", "node2"}
        kept = [pushing.kept(host) for host in range(3)]
        assert is_new(kept[1])
        assert [kept[0], kept[2]] == [mixed.old[0], mixed.old[2]]
        mixed.can_go_on()

    @user_only
    def test_whose_power_is_cut_has_the_old_or_the_new_file_when_it_is_back(self, pushing: Pushing) -> None:
        mixed = Mixed(pushing)
        for step in (STEPS["before the commits"], STEPS["before the last look"]):
            stopped = pushing.stopping(step)
            pushing.hosts[0].reboot()
            done = stopped.go_on()
            assert done.code == 255, done
            kept = [pushing.kept(host) for host in range(3)]
            assert kept[1:] == mixed.old[1:]
            assert kept[0] == mixed.old[0] or is_new(kept[0])
        mixed.can_go_on()

    @system_only
    def test_that_is_cut_off_is_given_up_and_puts_its_file_back(self, pushing: Pushing) -> None:
        mixed = Mixed(pushing)
        stopped = pushing.stopping(STEPS["before the last look"])
        pushing.hosts[2].cut("management")
        done = stopped.go_on()
        assert done.code == 255, done
        (warning,) = [event for event in done.of("warning") if event["node"] == "node2"]
        assert "by itself" in warning["text"]
        assert "ncclrun nccl diff" in warning["fix"]
        pushing.hosts[2].heal()
        pushing.nobody_is_at_work()
        mixed.is_untouched()


class TestTwoAtOnce:
    """One wins whole; the other is told who has the file, and since when."""

    @user_only
    def test_a_push_and_a_restore_during_a_push(self, pushing: Pushing) -> None:
        mixed = Mixed(pushing)
        first = pushing.stopping(STEPS["between commits"])
        for verb in ("push", "restore"):
            second = pushing.run(verb, "--yes")
            assert second.code == 3, second
            (refused,) = second.of("refused")  # the first node decides it
            assert (refused["code"], refused["node"]) == ("busy", "node0")
            assert all(word in refused["message"] for word in ("root on node0", "/root/.nccl.conf", "since"))
            assert second.end["reason"] == "nothing was changed: it failed on node0"
        done = first.go_on()
        assert done.code == 0
        assert all(is_new(pushing.kept(host)) for host in range(3))
        mixed.can_go_on()

    @user_only
    def test_a_push_during_a_restore(self, pushing: Pushing) -> None:
        pushing.push()
        first = pushing.stopping(STEPS["between commits"], "restore")
        assert [event["code"] for event in pushing.run("push", "--yes").of("refused")] == ["busy"]
        assert first.go_on().code == 0
        assert pushing.contents() == [None, None, None]


class TestOneHomeForTwo:
    """Two hosts with one home on a file server."""

    @pytest.fixture
    def shared(
        self, make_cluster: Callable[..., Cluster], make_bench: Callable[[Cluster], Bench], tmp_path: Path
    ) -> Pushing:
        cluster = make_cluster(2, shared_management=True, sshd={"AuthorizedKeysFile": "/root/.ssh/authorized_keys"})
        mount_in_all(cluster, tmp_path / "home", "/mnt")
        for host in cluster.hosts:
            host.exec(["sed", "-i", "s,^root:\\(.*\\):/root:,root:\\1:/mnt:,", "/etc/passwd"], check=True)
        pushing = Pushing(make_bench(cluster), "user")
        pushing.path = "/mnt/.nccl.conf"
        return pushing

    def test_gets_one_file_where_they_need_the_same_and_none_where_they_don_t(self, shared: Pushing) -> None:
        shared.bench.yaml(nccl={"deliver": "user"}, network={"interface": "ens3"})
        shared.administrators(0)
        first = shared.kept(1)
        assert first is not None
        done = shared.push()
        assert [event["node"] for event in done.of("conf_pushed")] == ["node0", "node1"]
        both = shared.contents()
        assert both[0] == both[1] != ADMIN
        assert shared.run("diff").code == 0
        shared.restore()
        assert [shared.kept(host) for host in range(2)] == [first, first]
        assert shared.beside(0) == []
        shared.settings()  # the data cards, which have two names
        done = shared.run("push", "--yes")
        assert done.code == 3, done
        (refused,) = done.of("refused")
        assert "node0 and node1 share one file" in refused["message"]
        assert "deliver: file" in refused["fix"]
        assert [shared.kept(host) for host in range(2)] == [first, first]
        assert shared.beside(0) == []
