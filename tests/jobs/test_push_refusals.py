"""What a push or a restore refuses: the host, the path, why, and what mends it; and nothing is changed anywhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.jobs.bench import Bench, Done
from tests.jobs.pushing import ADMIN, PATHS, Pushing

pytestmark = pytest.mark.cluster


@pytest.fixture
def pushing(bench: Bench) -> Iterator[Callable[..., Pushing]]:
    """Makes one for a way of delivery; no host has a conf file before and after."""
    both = [Pushing(bench, deliver) for deliver in PATHS]

    def clean() -> None:
        for one in both:
            one.clean()

    clean()
    yield lambda deliver: Pushing(bench, deliver)
    for host in bench.cluster.hosts:
        host.exec(["umount", "/etc/nccl.conf"])
        host.exec(["rm", "-rf", "/etc/nccl.conf"])
        host.path("/etc/sudoers.d/trainer").unlink(missing_ok=True)
    clean()


def is_refused(done: Done, node: str, code: str, *words: str) -> None:
    """By this node alone, with these words in message or fix."""
    assert done.code == done.end["exit_code"] == 3, done
    (refused,) = done.of("refused")
    assert (refused["node"], refused["code"]) == (node, code), refused
    said = f"{refused['message']}\n{refused['fix']}"
    assert not [word for word in words if word not in said], said
    assert done.end["reason"].startswith(f"nothing was changed: refused on {node}")


class Place(NamedTuple):
    """What lies in the place of the file, and what is said of it."""

    made: list[str]
    code: str
    word: str
    fix: str


PLACES = {
    "symlink": Place(["ln", "-s", "/opt/mine.conf"], "symlink", "/opt/mine.conf", "cp --remove-destination"),
    "directory": Place(["mkdir"], "not_regular", "a directory", "mv /etc/nccl.conf"),
    "fifo": Place(["mkfifo"], "not_regular", "a FIFO", "mv /etc/nccl.conf"),
    "owner": Place(["install", "-o", "trainer", "/dev/null"], "owner", "trainer", "chown root"),
    "too_long": Place(["truncate", "-s", "65537"], "too_long", "longer than 64 KiB", "less"),
}


def here(one: Pushing, host: int) -> tuple[int, ...] | None:
    """What lies there, to be compared."""
    try:
        status = one.file(host).lstat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mode, status.st_uid, status.st_size


class TestWhatLiesThere:
    """Something else than a plain file of whom it should be: told by `diff` as well, before anything is staged."""

    @pytest.mark.parametrize("kinds", [["symlink", "directory", "fifo"], ["owner", "too_long"]], ids=" ".join)
    def test_is_refused(self, pushing: Callable[..., Pushing], kinds: list[str]) -> None:
        one = pushing("system")
        for host, kind in zip(one.hosts, kinds, strict=False):
            host.exec([*PLACES[kind].made, "/etc/nccl.conf"], check=True)
        before = [here(one, host) for host in range(3)]
        for verb in (["push", "--yes"], ["diff"]):
            done = one.run(*verb)
            assert done.code == 3, done
            for refused, kind in zip(done.of("refused"), kinds, strict=True):
                assert refused["code"] == PLACES[kind].code
                assert "/etc/nccl.conf" in refused["message"]
                assert PLACES[kind].word in refused["message"]
                assert PLACES[kind].fix in refused["fix"]
        assert [here(one, host) for host in range(3)] == before
        assert [one.beside(host) for host in range(3)] == [[], [], []]

    def test_a_mount_in_the_place_of_the_file_fails_at_the_commit_and_all_go_back(
        self, pushing: Callable[..., Pushing]
    ) -> None:
        one = pushing("system")
        one.hosts[2].write("/opt/its.conf", "A=1\n")
        one.hosts[2].write("/etc/nccl.conf", "")
        one.hosts[2].exec(["mount", "--bind", "/opt/its.conf", "/etc/nccl.conf"], check=True)
        done = one.run("push", "--yes")
        assert done.code == 3, done
        assert [event["node"] for event in done.of("refused")] == ["node2"]
        assert one.contents() == [None, None, b"A=1\n"]
        assert [one.beside(host) for host in range(3)] == [[], [], []]


class TestOurBlock:
    """Lines that somebody changed are never written over, and what nobody pushed is no reason to leave them."""

    def test_that_somebody_changed_is_left(self, pushing: Callable[..., Pushing]) -> None:
        one = pushing("user")
        one.push()
        edited, moved, doubled = (data or b"" for data in one.contents())
        one.file(0).write_bytes(edited.replace(b"NCCL_SOCKET_FAMILY=AF_INET", b"NCCL_SOCKET_FAMILY=AF_INET6"))
        one.file(1).write_bytes(b"# mine\n" + moved)
        one.file(2).write_bytes(doubled + doubled)
        there = one.contents()
        for verb in (["push", "--yes"], ["diff"], ["restore", "--yes", "--keep-edits"], ["restore", "--yes"]):
            done = one.run(*verb)
            assert done.code == 3, done
            for host, refused in enumerate(done.of("refused")):
                assert f"/root/.nccl.conf on node{host}: " in refused["message"]
                assert "is not as it was" in refused["message"]
                # One mark is not where it was on two of them: there only its owner can know what is whose.
                assert ("--discard-edits" if host == 0 else "delete all of it") in refused["fix"]
            assert len(done.of("refused")) == 3
        assert one.contents() == there

    def test_that_somebody_changed_is_replaced_or_taken_out_on_demand(self, pushing: Callable[..., Pushing]) -> None:
        one = pushing("system")
        one.file(1).write_bytes(ADMIN)
        one.push()
        pushed = one.contents()
        edited = [(data or b"").replace(b"=AF_INET\n", b"=AF_INET6\n") for data in pushed]
        for host in range(3):
            one.file(host).write_bytes(edited[host])
        assert one.run("push", "--yes", "--discard-edits").code == 0
        assert one.contents() == pushed
        for host in range(3):
            one.file(host).write_bytes(edited[host])
        assert one.run("restore", "--yes", "--discard-edits").code == 0
        assert one.contents() == [None, ADMIN, None]
        for host in range(3):
            (kept,) = one.beside(host)
            assert "-edited-" in kept
            (one.file(host).parent / kept).unlink()

    def test_on_a_copied_disk_is_taken_out_again(self, pushing: Callable[..., Pushing]) -> None:
        one = pushing("system")
        one.push("--nodes", "node0")
        copy = one.content(0)
        assert copy is not None
        for host, rest in ((1, b""), (2, ADMIN)):
            one.file(host).write_bytes(copy + rest)
        one.push()
        one.restore()
        assert one.contents() == [None, b"", ADMIN]
        for host, rest in ((0, b""), (1, b""), (2, ADMIN)):
            one.file(host).write_bytes(copy + rest)
        one.restore()
        assert one.contents() == [None, None, ADMIN], "also where nothing tells that it was ever pushed"
        assert [one.beside(host) for host in range(3)] == [[], [], []]


class TestRestore:
    """What is not what it was when it was pushed."""

    def test_a_host_that_came_later_and_one_that_was_undone_are_left(self, pushing: Callable[..., Pushing]) -> None:
        one = pushing("system")
        one.administrators(2)
        kept = one.kept(2)
        one.push("--nodes", "node0,node1")
        done = one.restore()
        assert [event["node"] for event in done.of("conf_restored")] == ["node0", "node1"]
        assert (one.contents(), one.kept(2)) == ([None, None, ADMIN], kept)
        again = one.run("restore", "--yes")
        assert (again.code, again.of("conf_compared")[0]["unchanged"]) == (0, ["node0", "node1", "node2"])

    @pytest.mark.parametrize("damage", [["rm"], ["truncate", "-s", "1"]], ids=["gone", "damaged"])
    def test_of_what_is_kept_no_more_takes_our_lines_out_when_asked_to(
        self, pushing: Callable[..., Pushing], damage: list[str]
    ) -> None:
        one = pushing("system")
        one.administrators(1)
        one.push()
        (backup,) = [name for name in one.beside(1) if ".ncclrun-" in name]
        one.hosts[1].exec([*damage, f"/etc/{backup}"], check=True)
        is_refused(one.run("restore", "--yes"), "node1", "no_backup", f"/etc/{backup}", "--keep-edits")
        one.restore("--keep-edits")
        assert one.contents() == [None, ADMIN, None]
        assert [one.beside(host) for host in range(3)] == [[], [], []]

    def test_of_a_file_that_somebody_removed_leaves_it_so_when_asked_to(self, pushing: Callable[..., Pushing]) -> None:
        one = pushing("user")
        one.administrators(0)
        one.push()
        one.file(0).unlink()
        is_refused(one.run("restore", "--yes"), "node0", "edited", "removed /root/.nccl.conf", "--keep-edits")
        one.restore("--keep-edits")
        assert one.contents() == [None, None, None]
        assert [one.beside(host) for host in range(3)] == [[], [], []]


class TestWithoutRoot:
    """`deliver: system` for a user who is not root."""

    def test_needs_sudo_without_a_password(self, pushing: Callable[..., Pushing]) -> None:
        one = pushing("system")
        one.settings("trainer")
        done = one.run("push", "--yes")
        assert done.code == 3, done
        for refused in done.of("refused"):
            assert refused["code"] == "no_sudo"
            assert "/etc/nccl.conf can't be changed by trainer" in refused["message"]
            assert "deliver: user" in refused["fix"]
        assert {refused["code"] for refused in one.run("diff").of("refused")} == {"no_sudo"}, "known before a question"
        assert one.contents() == [None, None, None]

    def test_pushes_and_restores_with_it_also_what_only_root_could_read(self, pushing: Callable[..., Pushing]) -> None:
        if shutil.which("sudo") is None:
            pytest.skip("needs sudo: apt-get install sudo")
        one = pushing("system")
        one.settings("trainer")
        for host in one.hosts:
            host.write("/etc/sudoers.d/trainer", "trainer ALL=(root) NOPASSWD: ALL\n", mode=0o440)
        one.administrators(0, mode=0o600)
        first = one.kept(0)
        done = one.push()
        assert [event["node"] for event in done.of("warning") if "0600" in event["text"]] == ["node0"]
        assert one.file(0).stat().st_mode & 0o777 == 0o644
        assert one.run("diff").code == 0
        one.restore()
        assert one.kept(0) == first
        assert [one.beside(host) for host in range(3)] == [[], [], []]
