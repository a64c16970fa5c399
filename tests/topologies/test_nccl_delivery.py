"""After each way of delivery NCCL itself, in the processes of a real run, takes the planned interface; or the error
names the variable or file that wins over it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from ncclrun.nccl.lines import bootstrap_line
from tests.nccl.realnccl import library
from tests.topologies.lab import Lab
from tests.topologies.resolving import Found, Resolving

pytestmark = pytest.mark.cluster

NAMES = ["eth1", "enp7s0", "ens5f0np0"]
PLAN = {0: ("eth1", "10.50.0.1"), 1: ("enp7s0", "10.50.0.2"), 2: ("ens5f0np0", "10.50.0.3")}
PATHS = {"user": "/root/.nccl.conf", "system": "/etc/nccl.conf"}
ADMIN = b"\xef\xbb\xbf# of the administrator\r\nNCCL_SOCKET_IFNAME=ens1\nNCCL_IB_TIMEOUT=22\n odd = \xff\nno line feed"

# What a training process does: load NCCL in the environment that the run gave it, and have it read its settings.
ASK = """
import ctypes, pathlib, nvidia.nccl
library = ctypes.CDLL(str(pathlib.Path(nvidia.nccl.__path__[0]) / "lib" / "libnccl.so.2"))
print("result", library.ncclGetUniqueId(ctypes.create_string_buffer(128)), flush=True)
"""


@pytest.fixture
def joined(lab: Lab) -> Lab:
    """Two networks that join all, of which the first is the better one."""
    lab.lan("10.50.0.0/24", NAMES, mtu=9000)
    lab.lan("10.40.0.0/24", ["ens1"] * 3)
    return lab


class Nccl:
    """`ncclrun nccl …` and `ncclrun launch` with one way of delivery; what they leave in the labs' hosts is undone."""

    def __init__(self, lab: Lab, resolving: Resolving, deliver: str, **env: str) -> None:
        self.lab, self._bench = lab, resolving.bench
        lab.settle()
        debug = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,NET"}
        self._bench.yaml(nccl={"deliver": deliver, "env": {**debug, **env}})
        self.path = PATHS.get(deliver, "")

    def __call__(self, verb: str, *options: str) -> Found:
        """`ncclrun nccl VERB --json`."""
        return Found(self._bench.run("nccl", verb, "--json", *options, self._bench.file, timeout=60))

    def push(self) -> Found:
        """A push that succeeds."""
        found = self("push", "--yes")
        assert found.done.code == 0, found
        return found

    def launch(self) -> Found:
        """A run of which each process asks NCCL."""
        script = self._bench.script(ASK)
        words = ("launch", "--json", "--launcher", "exec", self._bench.file, sys.executable, script)
        return Found(self._bench.run(*words, timeout=60))

    def content(self, host: int) -> bytes | None:
        """The pushed file; None if there is none."""
        place = self.lab.hosts[host].path(self.path)
        return place.read_bytes() if place.exists() else None

    def beside(self, host: int) -> list[str]:
        """What of ours lies beside it."""
        return sorted(path.name for path in self.lab.hosts[host].path(self.path).parent.glob(".nccl.conf.ncclrun*"))


@pytest.fixture
def nccl(joined: Lab, resolving: Resolving) -> Iterator[Callable[..., Nccl]]:
    """Makes one; afterwards no host has a conf file or anything beside it."""
    yield lambda deliver, **env: Nccl(joined, resolving, deliver, **env)
    for host in joined.hosts:
        for path in PATHS.values():
            for left in [host.path(path), *host.path(path).parent.glob(".nccl.conf.ncclrun*")]:
                left.unlink(missing_ok=True)


def said_by_the_processes(found: Found) -> dict[int, tuple[str, str]]:
    """Interface and address of each rank's own `Bootstrap: Using` line."""
    places = {e["rank"]: bootstrap_line(e["text"]) for e in found.done.of("log") if "Bootstrap" in e["text"]}
    return {rank: (place.interface, place.address) for rank, place in places.items() if place is not None}


class TestEachWay:
    """What a training process says when it loads NCCL by itself."""

    @pytest.mark.parametrize("deliver", ["env", "file", "user", "system"])
    def test_the_processes_of_a_run_take_the_planned_interface(self, nccl: Callable[..., Nccl], deliver: str) -> None:
        one = nccl(deliver)
        if deliver in PATHS:
            pushed = one.push()
            pushed.nccl_agrees_with(PLAN)
        run = one.launch()
        assert run.done.code == 0, run
        assert said_by_the_processes(run) == PLAN, run
        run.nccl_agrees_with(PLAN)

    @pytest.mark.parametrize("deliver", ["file", "user", "system"])
    def test_also_where_the_administrators_files_say_otherwise(
        self, joined: Lab, nccl: Callable[..., Nccl], deliver: str
    ) -> None:
        joined.file(1, "/etc/nccl.conf", "NCCL_SOCKET_IFNAME=ens1\nNCCL_SOCKET_FAMILY=AF_INET6\nNCCL_IB_TIMEOUT=19\n")
        one = nccl(deliver)
        if deliver in PATHS:
            one.push().nccl_agrees_with(PLAN)
        run = one.launch()
        assert said_by_the_processes(run) == PLAN, run
        timeouts = [e["rank"] for e in run.done.of("log") if "NCCL_IB_TIMEOUT" in e["text"]]
        assert set(timeouts) <= {1}, "what the administrator set beside it still counts there, and only there"

    def test_a_run_before_the_push_is_refused_with_the_command_that_pushes(self, nccl: Callable[..., Nccl]) -> None:
        one = nccl("user")
        one.launch().fails("node0", "~/.nccl.conf", "no such file", "ncclrun nccl push")

    def test_a_run_with_other_settings_than_were_pushed_is_refused(
        self, joined: Lab, resolving: Resolving, nccl: Callable[..., Nccl]
    ) -> None:
        nccl("system").push()
        nccl("system", NCCL_IB_TIMEOUT="23").launch().fails("/etc/nccl.conf", "NCCL_IB_TIMEOUT", "ncclrun nccl push")

    def test_an_nccl_that_reads_no_named_file_is_refused(self, joined: Lab, nccl: Callable[..., Nccl]) -> None:
        old = library((2, 18, 3))
        if old is None:
            pytest.skip("needs NCCL 2.18.3: tools/setup.sh nccl")
        joined.login(1, LD_PRELOAD=str(old))
        nccl("file").launch().fails("node1", "2.18.3", "2.23.4", "deliver: env")


class TestWhatWins:
    """Something else that comes before the pushed file: the push is taken back, and the culprit named."""

    @pytest.mark.parametrize("deliver", ["user", "system"])
    def test_an_exported_variable(self, joined: Lab, nccl: Callable[..., Nccl], deliver: str) -> None:
        joined.login(2, NCCL_SOCKET_IFNAME="ens1")
        one = nccl(deliver)
        pushed = one("push", "--yes")
        pushed.fails("node2", "NCCL_SOCKET_IFNAME", "ens1", "/root/.bashrc")
        assert [one.content(host) for host in range(3)] == [None, None, None], "all or none"
        assert [one.beside(host) for host in range(3)] == [[], [], []]

    def test_the_users_own_file_before_the_systems(self, joined: Lab, nccl: Callable[..., Nccl]) -> None:
        joined.file(0, "/root/.nccl.conf", "NCCL_SOCKET_IFNAME=ens1\n")
        nccl("system")("push", "--yes").fails("node0", "/root/.nccl.conf", "NCCL_SOCKET_IFNAME")

    def test_a_named_file_before_the_users(self, joined: Lab, nccl: Callable[..., Nccl]) -> None:
        joined.file(1, "/opt/job.conf", "NCCL_SOCKET_IFNAME=ens1\n")
        joined.login(1, NCCL_CONF_FILE="/opt/job.conf")
        nccl("user")("push", "--yes").fails("node1", "/opt/job.conf", "NCCL_SOCKET_IFNAME")

    def test_a_run_says_what_its_own_environment_hides(self, joined: Lab, nccl: Callable[..., Nccl]) -> None:
        one = nccl("user", NCCL_IB_TIMEOUT="22")
        one.push()
        joined.login(2, NCCL_IB_TIMEOUT="18")
        run = one.launch()
        assert run.done.code == 0, run
        run.warns("node2", "NCCL_IB_TIMEOUT=18", "hides", "22")

    def test_an_exported_interface_keeps_a_run_from_starting(self, joined: Lab, nccl: Callable[..., Nccl]) -> None:
        one = nccl("system")
        one.push()
        joined.login(0, NCCL_SOCKET_IFNAME="ens1")
        one.launch().fails("node0", "NCCL_SOCKET_IFNAME", "ens1", "/root/.bashrc")


class TestUndone:
    """What was there before comes back, byte for byte."""

    @pytest.mark.parametrize("deliver", ["user", "system"])
    def test_restore_gives_back_the_very_file(self, joined: Lab, nccl: Callable[..., Nccl], deliver: str) -> None:
        one = nccl(deliver)
        place = joined.hosts[1].path(one.path)
        place.write_bytes(ADMIN)
        place.chmod(0o640)
        before = place.stat()
        one.push()
        assert place.read_bytes().endswith(ADMIN)
        restored = one("restore", "--yes")
        assert restored.done.code == 0, restored
        after = place.stat()
        assert place.read_bytes() == ADMIN
        assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
        assert after.st_mtime_ns == before.st_mtime_ns
        assert [one.content(0), one.content(2)] == [None, None], "where there was no file, there is none"
        assert [one.beside(host) for host in range(3)] == [[], [], []]

    def test_a_second_push_changes_nothing(self, nccl: Callable[..., Nccl]) -> None:
        one = nccl("system")
        one.push()
        first = [one.content(host) for host in range(3)]
        assert one("diff").done.code == 0
        again = one.push()
        assert again.done.of("conf_diff")
        assert all(event["diff"] == [] for event in again.done.of("conf_diff"))
        assert [one.content(host) for host in range(3)] == first

    def test_another_push_changes_the_block_and_restore_still_goes_back_to_the_first(
        self, joined: Lab, nccl: Callable[..., Nccl]
    ) -> None:
        one = nccl("user")
        joined.hosts[0].path(one.path).write_bytes(ADMIN)
        one.push()
        two = nccl("user", NCCL_IB_TIMEOUT="23")
        assert two("diff").done.code == 1
        two.push()
        content = two.content(0)
        assert content is not None
        assert content.count(b"# >>> ncclrun") == 1
        assert b"NCCL_IB_TIMEOUT=23" in content
        assert two("restore", "--yes").done.code == 0
        assert two.content(0) == ADMIN

    def test_what_somebody_edited_since_is_kept(self, joined: Lab, nccl: Callable[..., Nccl]) -> None:
        one = nccl("system")
        place = joined.hosts[2].path(one.path)
        place.write_bytes(ADMIN)
        one.push()
        with place.open("ab") as file:
            file.write(b"\nNCCL_IB_SL=3\n")
        pushed = [one.content(host) for host in range(3)]
        one("restore", "--yes").fails("node2", "edited", "--keep-edits")
        assert [one.content(host) for host in range(3)] == pushed, "all or none"
        assert one("restore", "--yes", "--keep-edits").done.code == 0
        assert [one.content(host) for host in range(3)] == [None, None, ADMIN + b"\nNCCL_IB_SL=3\n"]
        assert [one.beside(host) for host in range(3)] == [[], [], []]

    def test_a_push_over_such_an_edit_keeps_it_too(self, joined: Lab, nccl: Callable[..., Nccl]) -> None:
        one = nccl("system")
        one.push()
        place = joined.hosts[2].path(one.path)
        with place.open("ab") as file:
            file.write(b"NCCL_IB_SL=3\n")
        nccl("system", NCCL_IB_TIMEOUT="23").push()
        assert one("restore", "--yes").done.code == 0
        assert [one.content(host) for host in range(3)] == [None, None, b"NCCL_IB_SL=3\n"]


class TestRefused:
    """What is never touched, and never written."""

    def test_a_link_in_the_place_of_the_file(self, joined: Lab, nccl: Callable[..., Nccl]) -> None:
        one = nccl("system")
        place = joined.hosts[1].path(one.path)
        place.symlink_to("/opt/shared.conf")
        one("push", "--yes").fails("node1", "/etc/nccl.conf", "link")
        assert place.is_symlink()
        assert [one.content(0), one.content(2)] == [None, None]

    def test_a_library_for_the_jobs_of_all_users(self, nccl: Callable[..., Nccl]) -> None:
        one = nccl("system", NCCL_NET_PLUGIN="/tmp/mine.so")
        one("push", "--yes").fails("NCCL_NET_PLUGIN", "all users")
        assert [one.content(host) for host in range(3)] == [None, None, None]

    def test_without_a_terminal_and_without_yes_nothing_is_changed(self, nccl: Callable[..., Nccl]) -> None:
        one = nccl("user")
        asked = one("push")
        assert asked.done.code == 2
        assert asked.done.of("conf_diff")
        assert "--yes" in asked.error
        assert [one.content(host) for host in range(3)] == [None, None, None]

    def test_a_cluster_file_that_names_no_file(self, nccl: Callable[..., Nccl]) -> None:
        nccl("env")("push", "--yes").fails("nccl.deliver is env", "--to user", code=2)
