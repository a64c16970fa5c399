"""The cluster file is replaced as a whole, keeps what is the user's, and nothing is lost where that can't be done."""

from __future__ import annotations

import os
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest

from ncclrun.commands import rewrite
from ncclrun.commands.rewrite import Rewrite, replace_file
from ncclrun.model.errors import NcclrunError, UsageError
from ncclrun.model.plan import Endpoint
from ncclrun.planning.clusterfile import parse_cluster

OLD = "\ufeffnodes:  # all\r\n- gpu1\r\n".encode()
NEW = "\ufeffnodes:  # all\r\n- {host: gpu1, interface: eth1, address: 10.0.0.1}\r\n".encode()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_bytes(OLD)
    return path


def names(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def test_the_choice_stands_in_the_file_and_the_old_file_beside_it(file: Path) -> None:
    nodes = parse_cluster(OLD, "cluster.yaml").nodes
    written = Rewrite(str(file))(nodes, [Endpoint("eth1", "10.0.0.1", "")])
    assert (written.path, written.backup) == (str(file), f"{file}.bak")
    assert written.changes == ("gpu1: interface eth1, address 10.0.0.1",)
    assert file.read_bytes() == NEW
    assert Path(written.backup).read_bytes() == OLD
    assert names(file.parent) == ["cluster.yaml", "cluster.yaml.bak"]


def test_a_choice_that_stands_there_already_touches_nothing(file: Path) -> None:
    file.write_bytes(NEW)
    before = file.stat()
    written = Rewrite(str(file))(parse_cluster(NEW, "c").nodes, [Endpoint("eth1", "10.0.0.1", "")])
    assert (written.backup, written.changes) == ("", ())
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert names(file.parent) == ["cluster.yaml"]


def test_what_can_not_be_written_to_is_said_before_the_work(tmp_path: Path) -> None:
    hostfile = tmp_path / "hosts"
    hostfile.write_text("gpu1 slots=8\n")
    for cluster, what in ((None, "--hosts has"), (str(hostfile), "hosts, a hostfile, has")):
        with pytest.raises(UsageError, match=f"{what} no place for interfaces"):
            Rewrite(cluster)


def test_a_file_that_changes_during_the_work_is_not_written_over(file: Path) -> None:
    rewrite = Rewrite(str(file))
    file.write_bytes(b"nodes: [other]\n")
    with pytest.raises(NcclrunError, match="was changed by somebody"):
        rewrite(parse_cluster(OLD, "c").nodes, [Endpoint("eth1", "10.0.0.1", "")])
    assert (file.read_bytes(), names(file.parent)) == (b"nodes: [other]\n", ["cluster.yaml"])


def test_older_copies_are_kept(file: Path) -> None:
    contents = [OLD, b"second", b"third", b"fourth"]
    copies = [replace_file(file, before, after) for before, after in pairwise(contents)]
    assert [copy.name for copy in copies] == ["cluster.yaml.bak", "cluster.yaml.bak1", "cluster.yaml.bak2"]
    assert [copy.read_bytes() for copy in copies] == contents[:3]


def test_a_dead_link_in_the_copys_place_is_not_followed(file: Path) -> None:
    (file.parent / "cluster.yaml.bak").symlink_to("elsewhere")
    assert replace_file(file, OLD, NEW).name == "cluster.yaml.bak1"
    assert not (file.parent / "elsewhere").exists()


@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_the_mode_stays(file: Path, mode: int) -> None:
    file.chmod(mode)
    backup = replace_file(file, OLD, NEW)
    assert [path.stat().st_mode & 0o7777 for path in (file, backup)] == [mode, mode]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_the_owner_stays(file: Path) -> None:
    os.chown(file, 1234, 2345)
    backup = replace_file(file, OLD, NEW)
    assert [(path.stat().st_uid, path.stat().st_gid) for path in (file, backup)] == [(1234, 2345)] * 2


def test_a_symbolic_link_still_points_to_the_file(file: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "lab.yaml"
    link.symlink_to("../cluster.yaml")
    assert replace_file(link, OLD, NEW) == tmp_path / "cluster.yaml.bak"
    assert link.is_symlink()
    assert file.read_bytes() == NEW


def test_a_file_that_somebody_changed_meanwhile_is_left_as_it_is(file: Path) -> None:
    file.write_bytes(b"nodes: [other]\n")
    with pytest.raises(NcclrunError, match="was changed by somebody since it was read"):
        replace_file(file, OLD, NEW)
    assert file.read_bytes() == b"nodes: [other]\n"
    assert names(file.parent) == ["cluster.yaml"]


def test_a_write_protected_file_is_left_as_it_is(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != file)  # root may write whatever the mode says
    with pytest.raises(NcclrunError, match="write-protected") as caught:
        replace_file(file, OLD, NEW)
    assert caught.value.fix == f"chmod u+w {file}"
    assert (file.read_bytes(), names(file.parent)) == (OLD, ["cluster.yaml"])


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NcclrunError, match="no regular file"):
        replace_file(tmp_path / "pipe", OLD, NEW)
    ends = os.pipe()
    with pytest.raises(UsageError, match="no regular file"):
        Rewrite(f"/proc/self/fd/{ends[0]}")
    for end in ends:
        os.close(end)
    with pytest.raises(UsageError, match="no regular file"):
        Rewrite(str(tmp_path / "pipe"))
    assert names(tmp_path) == ["pipe"]


@pytest.mark.parametrize("step", ["mkstemp", "_backup", "replace", "fsync", "fchown"])
def test_a_disk_that_does_not_take_it_leaves_the_old_file_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    if step == "fchown":
        if os.getuid():
            pytest.skip("only root can give files away")
        os.chown(file, 1234, 2345)
    owner = {"mkstemp": tempfile, "_backup": rewrite, "replace": Path}.get(step, os)
    monkeypatch.setattr(owner, step, full)
    with pytest.raises(NcclrunError, match=r"cluster.yaml can't be replaced: No space left on device; it is as it was"):
        replace_file(file, OLD, NEW)
    assert (file.read_bytes(), names(file.parent)) == (OLD, ["cluster.yaml"])


@pytest.mark.skipif(os.getuid() != 0, reason="as root, to be somebody else for a while")
def test_a_directory_that_one_may_not_write_into_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    file.chmod(0o666)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setuid(12345)  # its directory was entered before: those above it need not be open to everyone
            replace_file(Path("cluster.yaml"), OLD, NEW)
        except NcclrunError as error:
            code = 0 if "Permission denied" in error.message and "ls -ld" in error.fix else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (file.read_bytes(), names(file.parent)) == (OLD, ["cluster.yaml"])
