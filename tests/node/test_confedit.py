"""A conf file that is replaced: what was there comes back to the byte, and what is another's stays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ncclrun.node.confedit import Edit, look
from ncclrun.node.confkept import digest
from ncclrun.node.refusal import Refusal
from tests.node.confplace import Place

THEIRS = b"# mine\r\nNCCL_DEBUG=INFO  # \xff\n"
OURS = THEIRS + b"# >>> ncclrun\nNCCL_SOCKET_IFNAME==eth1\n"
LATER = THEIRS + b"# >>> ncclrun\nNCCL_SOCKET_IFNAME==eth2\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def refusal(work: Any, *arguments: Any) -> Refusal:
    with pytest.raises(Refusal) as refused:
        work(*arguments)
    return refused.value


class TestAPush:
    def test_it_keeps_mode_and_owner_of_the_file(self, place: Place) -> None:
        place.administrators(THEIRS)
        place.push(OURS, original=THEIRS)
        state = place.state()
        assert state is not None
        assert (state.data, state.mode, state.uid) == (OURS, 0o640, os.getuid())

    def test_a_new_file_may_be_read_by_all_whatever_the_umask(self, place: Place) -> None:
        before = os.umask(0o077)
        try:
            place.push(OURS)
        finally:
            os.umask(before)
        assert place.file.stat().st_mode & 0o777 == 0o644

    def test_a_mode_that_is_asked_for_is_given(self, place: Place) -> None:
        edit = Edit(place.file)
        edit.stage(place.order(OURS, mode=0o600))
        edit.commit()
        edit.finish()
        assert place.file.stat().st_mode & 0o777 == 0o600

    def test_nothing_is_seen_of_it_before_the_commit(self, place: Place) -> None:
        before = place.administrators(THEIRS)
        edit = Edit(place.file)
        assert edit.stage(place.order(OURS, original=THEIRS)) == {
            "path": str(place.file),
            "unchanged": False,
            "sha256": digest(OURS),
            "backup": str(place.directory / f".nccl.conf.ncclrun-{(digest(THEIRS) or '')[:8]}"),
            "aside": "",
        }
        assert place.state() == before
        edit.commit()
        assert place.content() == OURS
        edit.finish()

    def test_it_is_idempotent(self, place: Place) -> None:
        place.administrators(THEIRS)
        place.push(OURS, original=THEIRS)
        before, beside = place.state(), place.beside()
        edit = Edit(place.file)
        assert edit.stage(place.order(OURS, original=THEIRS, expect="something else"))["unchanged"]
        edit.commit()
        edit.finish()
        assert (place.state(), place.beside()) == (before, beside)

    def test_what_changed_since_it_was_looked_at_is_refused(self, place: Place) -> None:
        order = place.order(OURS)
        place.administrators(THEIRS)
        refused = refusal(Edit(place.file).stage, order)
        assert (refused.code, refused.details) == ("changed", {"sha256": digest(THEIRS)})
        assert (place.content(), place.beside()) == (THEIRS, {})

    def test_what_changed_between_stage_and_commit_is_refused_and_stays(self, place: Place) -> None:
        place.administrators(THEIRS)
        edit = Edit(place.file)
        edit.stage(place.order(OURS, original=THEIRS))
        place.file.write_bytes(b"A=1\n")
        assert refusal(edit.commit).code == "changed"
        assert (place.content(), place.beside()) == (b"A=1\n", {})

    def test_a_file_can_be_pushed_away(self, place: Place) -> None:
        before = place.administrators(THEIRS)
        place.push(None, original=THEIRS)
        assert place.content() is None
        place.restore()
        assert place.state() == before


class TestTheOriginal:
    @pytest.mark.parametrize("pushes", [1, 3])
    def test_it_comes_back_as_the_very_file_and_nothing_else_is_left(self, place: Place, pushes: int) -> None:
        before = place.administrators(THEIRS)
        for number in range(pushes):
            place.push(OURS + b"%d" % number, original=THEIRS)
        place.restore()
        assert (place.state(), place.beside()) == (before, {})

    def test_where_there_was_none_there_is_none_again(self, place: Place) -> None:
        place.push(OURS)
        place.push(LATER)
        place.restore()
        assert list(place.directory.iterdir()) == []

    def test_it_comes_back_where_there_are_no_hard_links(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        def link(*_: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr("os.link", link)
        before = place.administrators(THEIRS)
        place.push(OURS, original=THEIRS)
        place.restore()
        assert place.state() == before._replace(inode=place.file.stat().st_ino)
        assert place.beside() == {}

    def test_a_block_of_a_copied_file_is_no_part_of_it(self, place: Place) -> None:
        place.administrators(OURS)
        place.push(LATER, original=THEIRS)
        place.restore()
        assert place.content() == THEIRS

    def test_edits_between_two_pushes_belong_to_it(self, place: Place) -> None:
        place.administrators(THEIRS)
        place.push(OURS, original=THEIRS)
        place.file.write_bytes(b"NCCL_IB_HCA=mlx5_0\n" + OURS)
        place.push(b"NCCL_IB_HCA=mlx5_0\n" + LATER, original=b"NCCL_IB_HCA=mlx5_0\n" + THEIRS)
        assert len(list(place.directory.glob(".nccl.conf.ncclrun-*"))) == 2
        place.restore()
        assert (place.content(), place.beside()) == (b"NCCL_IB_HCA=mlx5_0\n" + THEIRS, {})
        assert place.file.stat().st_mode & 0o777 == 0o640

    def test_what_was_edited_since_is_not_restored_over(self, place: Place) -> None:
        place.administrators(THEIRS)
        place.push(OURS, original=THEIRS)
        place.file.write_bytes(b"A=1\n")
        beside = place.beside()
        refused = refusal(place.restore)
        assert (refused.code, refused.details) == ("edited", {"sha256": digest(b"A=1\n")})
        assert (place.content(), place.beside()) == (b"A=1\n", beside)

    def test_edits_can_be_kept(self, place: Place) -> None:
        place.push(OURS)
        place.file.write_bytes(OURS + b"A=1\n")
        edit = Edit(place.file)
        edit.restore(place.order(THEIRS + b"A=1\n", keep_edits=True))
        edit.commit()
        edit.finish()
        assert (place.content(), place.beside()) == (THEIRS + b"A=1\n", {})

    def test_where_nothing_was_pushed_nothing_is_restored(self, place: Place) -> None:
        place.administrators(THEIRS)
        assert refusal(place.restore).code == "nothing"
        assert (place.content(), place.beside()) == (THEIRS, {})

    def test_one_that_somebody_put_back_by_hand_is_done_with(self, place: Place) -> None:
        place.administrators(THEIRS)
        place.push(OURS, original=THEIRS)
        place.file.write_bytes(THEIRS)
        place.restore()
        assert (place.content(), place.beside()) == (THEIRS, {})

    @pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"")])
    def test_a_damaged_one_is_not_put_in_place(self, place: Place, damage: Any) -> None:
        place.administrators(THEIRS)
        place.push(OURS, original=THEIRS)
        (backup,) = place.directory.glob(".nccl.conf.ncclrun-*")
        damage(backup)
        refused = refusal(place.restore)
        assert (refused.code, refused.details) == ("no_backup", {"backup": str(backup)})
        assert place.content() == OURS
        place.push(LATER, original=THEIRS)
        place.restore()
        assert place.content() == THEIRS

    def test_a_damaged_record_is_said_and_kept(self, place: Place) -> None:
        place.push(OURS)
        record = place.directory / ".nccl.conf.ncclrun.json"
        record.write_text("{")
        for work in (place.restore, lambda: place.push(LATER), lambda: look(place.file, ["system"])):
            assert refusal(work).code == "bad_record"
        assert (place.content(), record.read_text()) == (OURS, "{")


class TestARollback:
    @pytest.mark.parametrize("committed", [False, True])
    @pytest.mark.parametrize("pushed", [False, True])
    @pytest.mark.parametrize("there", [False, True])
    def test_everything_is_as_it_was(self, place: Place, there: bool, pushed: bool, committed: bool) -> None:
        theirs = place.administrators(THEIRS).data if there else None
        if pushed:
            place.push(OURS, original=theirs)
        before, beside = place.state(), place.beside()
        edit = Edit(place.file)
        edit.stage(place.order(LATER, original=theirs))
        if committed:
            edit.commit()
        assert edit.rollback()["rolled_back"]
        assert (place.state(), place.beside()) == (before, beside)
        assert not edit.rollback()["rolled_back"]

    def test_a_restore_is_taken_back_too(self, place: Place) -> None:
        theirs = place.administrators(THEIRS)
        place.push(OURS, original=THEIRS)
        before, beside = place.state(), place.beside()
        edit = Edit(place.file)
        edit.restore(place.order(None))
        edit.commit()
        assert place.state() == theirs
        edit.rollback()
        assert (place.state(), place.beside()) == (before, beside)
        place.restore()
        assert place.state() == theirs

    def test_what_somebody_edited_after_the_commit_stays(self, place: Place) -> None:
        place.administrators(THEIRS)
        edit = Edit(place.file)
        edit.stage(place.order(OURS, original=THEIRS))
        edit.commit()
        place.file.write_bytes(b"A=1\n")
        assert refusal(edit.rollback).code == "edited"
        assert place.content() == b"A=1\n"
        place.push(OURS, original=b"A=1\n")
        place.restore()
        assert (place.content(), place.beside()) == (b"A=1\n", {})


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("make", "code"),
        [
            (lambda path: path.symlink_to("other"), "symlink"),
            (lambda path: path.mkdir(), "not_regular"),
            (os.mkfifo, "not_regular"),
            (lambda path: path.write_bytes(b"#" * (64 << 10) + b"\n"), "too_long"),
        ],
        ids=["link", "directory", "fifo", "long"],
    )
    def test_a_file_that_is_none_of_ours_to_replace(self, place: Place, make: Any, code: str) -> None:
        order = place.order(OURS)
        make(place.file)
        assert refusal(Edit(place.file).stage, order).code == code
        assert list(place.directory.iterdir()) == [place.file]

    def test_another_users_file(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        place.administrators(THEIRS)
        monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
        assert refusal(place.push, OURS).code == "owner"
        assert (place.content(), place.beside()) == (THEIRS, {})

    def test_a_directory_that_is_not_there(self, tmp_path: Path) -> None:
        assert refusal(Place(tmp_path / "none").push, OURS).code == "no_directory"
        assert list(tmp_path.iterdir()) == []

    def test_two_at_once(self, place: Place) -> None:
        first, second = Edit(place.file), Edit(place.file)
        first.stage(place.order(OURS))
        refused = refusal(second.stage, place.order(LATER))
        assert refused.code == "busy"
        assert refused.details is not None
        assert (refused.details["push_id"], refused.details["node_rank"], refused.details["host"]) == ("p1", 0, "gpu1")
        assert not second.rollback()["rolled_back"]
        first.commit()
        first.finish()
        second.stage(place.order(LATER))
        second.commit()
        second.finish()
        assert place.content() == LATER

    def test_a_commit_of_nothing(self, place: Place) -> None:
        for work in (Edit(place.file).commit, Edit(place.file).finish):
            assert refusal(work).code == "not_staged"


def test_a_dotted_name_has_its_files_beside_it_too(tmp_path: Path) -> None:
    place = Place(tmp_path, ".nccl.conf")
    place.push(OURS)
    assert list(place.beside()) == [".nccl.conf.ncclrun.json"]
    place.restore()
    assert place.beside() == {}


class TestAFileKeptAside:
    """Edits that a push or a restore is told to discard."""

    def asides(self, place: Place) -> list[bytes]:
        return [data for name, data in place.beside().items() if name.startswith(".nccl.conf.ncclrun-edited-")]

    def test_is_there_for_good_also_after_a_restore(self, place: Place) -> None:
        place.push(OURS)
        place.administrators(b"edited\n")
        edit = Edit(place.file)
        answer = edit.stage(place.order(OURS, aside=True))
        edit.commit()
        edit.finish()
        assert Path(answer["aside"]).read_bytes() == b"edited\n"
        edit.restore(place.order(None))
        edit.commit()
        edit.finish()
        assert place.content() is None
        assert self.asides(place) == [b"edited\n"]

    def test_goes_with_what_was_rolled_back(self, place: Place) -> None:
        place.push(OURS)
        before = place.administrators(b"edited\n")
        edit = Edit(place.file)
        edit.restore(place.order(b"", keep_edits=True, aside=True))
        edit.commit()
        assert self.asides(place) == [b"edited\n"]
        edit.rollback()
        assert place.state() == before
        assert self.asides(place) == []
