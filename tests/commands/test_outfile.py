"""A file that an option asks for is there whole or not at all, and takes nobody's place."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ncclrun.commands.outfile import OutFile
from ncclrun.model.errors import UsageError

KIND = OutFile("--save", b"ours")


def refused(path: Path) -> str:
    """Why, before the work and after it alike; nothing is there that was not before."""
    before = sorted(path.parent.glob("*"))
    with pytest.raises(UsageError, match=r"^--save ") as first:
        KIND.refuse_unwritable(path)
    with pytest.raises(UsageError) as second:
        KIND.write(path, b"ours 2")
    assert first.value.message == second.value.message
    assert before == sorted(path.parent.glob("*"))
    return first.value.message.removeprefix(f"--save {path}: ")


def test_it_is_for_its_owner_alone_and_nothing_is_beside_it(tmp_path: Path) -> None:
    KIND.write(tmp_path / "f", b"ours 1")
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]


def test_one_of_its_kind_is_replaced_and_so_is_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    for content in (b"ours 1", b"ours 2"):
        KIND.refuse_unwritable(tmp_path / "f")
        KIND.write(tmp_path / "f", content)
        assert (tmp_path / "f").read_bytes() == content


def test_behind_a_link_it_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("f")
    KIND.write(tmp_path / "link", b"ours")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "f").read_bytes() == b"ours"


def test_what_it_did_not_make_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("mine\n")
    assert "did not make it" in refused(tmp_path / "train.log")
    assert (tmp_path / "train.log").read_text() == "mine\n"


def test_a_directory_a_device_and_a_pipe_are_no_place_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    assert refused(tmp_path / "folder") == "that is a directory"
    assert refused(tmp_path / ("x" * 300)) == "File name too long"
    assert refused(tmp_path / "none/f") == f"there is no directory {tmp_path}/none"
    for odd in (Path("/dev/full"), tmp_path / "pipe"):
        assert refused(odd) == "that is no regular file"


@pytest.mark.parametrize("trouble", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_stops_it_on_its_way_leaves_the_old_one_and_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: BaseException
) -> None:
    KIND.write(tmp_path / "f", b"ours 1")

    def fails(_: int) -> None:
        raise trouble

    monkeypatch.setattr(os, "fsync", fails)
    expected = UsageError if isinstance(trouble, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as told:
        KIND.write(tmp_path / "f", b"ours 2")
    if isinstance(trouble, OSError):
        assert str(told.value) == f"--save {tmp_path}/f: No space left on device"
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]
    assert (tmp_path / "f").read_bytes() == b"ours 1"
