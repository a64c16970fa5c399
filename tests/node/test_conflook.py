"""What a look at a conf file tells of what was pushed there."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pytest

from ncclrun.node.confedit import Edit, look
from ncclrun.node.confkept import digest
from tests.node.confplace import Place

THEIRS = b"# mine\r\nNCCL_DEBUG=INFO  # \xff\n"
OURS = THEIRS + b"# >>> ncclrun\nNCCL_SOCKET_IFNAME==eth1\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class TestALook:
    def test_at_nothing(self, place: Place) -> None:
        seen = look(place.file, ["system"])
        assert (seen["file"]["text"], seen["file"]["roles"]) == (None, ["system"])
        assert (seen["record"], seen["state"], seen["restores"], seen["holder"]) == (None, "none", None, None)

    def test_what_was_pushed_is_ours_until_somebody_edits_it(self, place: Place) -> None:
        place.administrators(THEIRS)
        assert look(place.file, [])["state"] == "none"
        place.push(OURS, original=THEIRS)
        seen = look(place.file, [])
        assert (seen["state"], b64decode(seen["restores"]["data"])) == ("ours", THEIRS)
        assert Path(seen["record"]["original"]["backup"]).read_bytes() == THEIRS
        assert (seen["record"]["written"], seen["record"]["push_id"]) == ([digest(OURS)], "p1")
        place.file.write_bytes(b"A=1\n")
        assert look(place.file, [])["state"] == "edited"
        place.file.write_bytes(THEIRS)
        assert look(place.file, [])["state"] == "original"

    def test_who_has_it_staged_is_told(self, place: Place) -> None:
        edit = Edit(place.file)
        edit.stage(place.order(OURS))
        assert look(place.file, [])["holder"]["push_id"] == "p1"
        edit.rollback()
        assert look(place.file, [])["holder"] is None

    def test_a_file_that_was_not_there_is_restored_by_none(self, place: Place) -> None:
        place.push(OURS)
        assert look(place.file, [])["restores"] == {"data": None}
        place.file.unlink()
        assert look(place.file, [])["state"] == "original"
