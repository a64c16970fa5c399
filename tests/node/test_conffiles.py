"""Conf files as they lie on a node: each by its ways, whole and unread, whatever lies in their place."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from ncclrun.model.settings import ConfFile
from ncclrun.node import conffiles


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root of its own: `home`, `passwd`, `etc`."""
    for name in ("home", "passwd", "etc"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(conffiles, "SYSTEM", tmp_path / "etc" / "nccl.conf")
    monkeypatch.setattr(conffiles, "passwd_home", lambda: str(tmp_path / "passwd"))
    return tmp_path


def env(places: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(places / "home"), **more}


def only(places: Path, **more: str) -> dict[str, Any]:
    (file,) = conffiles.read(env(places, **more))
    return file


def test_a_bare_node_has_none(places: Path) -> None:
    assert conffiles.read(env(places)) == []


def test_each_has_the_ways_that_lead_to_it(places: Path) -> None:
    files = [places / name for name in ("mine", "home/.nccl.conf", "passwd/.nccl.conf", "etc/nccl.conf")]
    for file in files:
        file.write_text("A=1\n")
    found = conffiles.read(env(places, NCCL_CONF_FILE=str(files[0])))
    assert [(file["path"], file["roles"]) for file in found] == [
        (str(path), [role]) for path, role in zip(files, ["named", "home", "passwd_home", "system"], strict=True)
    ]


def test_one_file_by_two_ways_is_told_once(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conffiles, "passwd_home", lambda: f"{places}/home/")
    (places / "home/.nccl.conf").write_text("A=1\n")
    assert only(places)["roles"] == ["home", "passwd_home"]


def test_it_has_the_fields_of_the_model_and_its_bytes_come_back(places: Path) -> None:
    data = b"\xef\xbb\xbfA=\xff # caf\xc3\xa9\r\nB=1\0"
    path = places / "etc/nccl.conf"
    path.write_bytes(data)
    path.chmod(0o640)
    file = only(places)
    assert ConfFile(**file).data == data
    assert (file["mode"], file["owner"], file["link"]) == (0o640, conffiles.owner(os.getuid()), "")
    assert file["sha256"] == hashlib.sha256(data).hexdigest()


def test_the_one_that_the_environment_names_is_told_though_it_is_not_there(places: Path) -> None:
    file = only(places, NCCL_CONF_FILE=f"{places}/none")
    assert (file["path"], file["text"], file["error"]) == (f"{places}/none", None, "")


def test_a_relative_name_can_not_be_followed(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(places)
    (places / "nccl.conf").write_text("A=1\n")
    file = only(places, NCCL_CONF_FILE="nccl.conf")
    assert (file["path"], file["text"]) == ("nccl.conf", None)
    assert "a relative path" in file["error"]


def test_an_empty_name_names_nothing(places: Path) -> None:
    assert conffiles.read(env(places, NCCL_CONF_FILE="")) == []


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda path: path.mkdir(), "a directory"),
        (os.mkfifo, "a FIFO"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.symlink_to("nowhere"), "a link to nothing"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (lambda path: path.write_bytes(b"#" * (conffiles.MOST_BYTES + 1)), "longer than 64 KiB"),
    ],
    ids=["directory", "fifo", "device", "dangling", "loop", "long"],
)
def test_what_is_no_conf_file_is_called_by_its_name(places: Path, make: Any, error: str) -> None:
    make(places / "home/.nccl.conf")
    file = only(places)
    assert (file["text"], file["error"]) == (None, error)


def test_the_longest_is_read_whole(places: Path) -> None:
    (places / "home/.nccl.conf").write_bytes(b"#" * conffiles.MOST_BYTES)
    assert len(only(places)["text"]) == conffiles.MOST_BYTES


def test_a_link_is_followed_and_told(places: Path) -> None:
    (places / "real").write_text("A=1\n")
    (places / "home/.nccl.conf").symlink_to("../real")
    file = only(places)
    assert (file["link"], file["text"]) == ("../real", "A=1\n")


def test_an_owner_without_a_name_is_a_number() -> None:
    assert conffiles.owner(4_000_000_000) == "4000000000"
