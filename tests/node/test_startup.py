"""Start-up files: which line of which file names a variable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ncclrun.node import startup


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`home` and `etc` of a node without any start-up file."""
    (tmp_path / "home").mkdir()
    (tmp_path / "etc/profile.d").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(startup, "ETC", tmp_path / "etc")
    return tmp_path


def test_the_line_is_told_with_its_place(root: Path) -> None:
    (root / "home/.bashrc").write_text("# mine\n\n  export NCCL_SOCKET_IFNAME=eth0\n")
    found = {"file": f"{root}/home/.bashrc", "line": 3, "name": "NCCL_SOCKET_IFNAME"}
    assert startup.mentions() == [{**found, "text": "export NCCL_SOCKET_IFNAME=eth0"}]


@pytest.mark.parametrize("name", ["home/.config/fish/config.fish", "etc/environment", "etc/profile.d/gpu.sh"])
def test_files_of_other_shells_and_of_all_users_count_too(root: Path, name: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text("GLOO_SOCKET_IFNAME=eth0\n")
    assert [(one["file"], one["name"]) for one in startup.mentions()] == [(f"{root}/{name}", "GLOO_SOCKET_IFNAME")]


def test_a_line_with_two_names_is_two_mentions(root: Path) -> None:
    (root / "home/.profile").write_text("export NCCL_DEBUG=INFO TORCH_CPP_LOG_LEVEL=$NCCL_DEBUG\n")
    assert [one["name"] for one in startup.mentions()] == ["NCCL_DEBUG", "TORCH_CPP_LOG_LEVEL"]


@pytest.mark.parametrize("line", ["# export NCCL_DEBUG=INFO", "MY_NCCL_DEBUG=1", "NCCLRUN_X=1", "http://nccl_x"])
def test_what_sets_nothing_of_theirs_is_not_told(root: Path, line: str) -> None:
    (root / "home/.bashrc").write_text(line + "\n")
    assert startup.mentions() == []


def test_other_names_are_looked_for_where_they_are_set(root: Path) -> None:
    (root / "home/.bashrc").write_text(
        "export RANK=0 NCCL_DEBUG=INFO\necho $RANK ${RANK} MY_RANK=1\nset -gx PET_NNODES 2\n# RANK=1\n"
    )
    assert [(one["line"], one["name"]) for one in startup.mentions(["RANK", "PET_NNODES"])] == [
        (1, "RANK"),
        (1, "NCCL_DEBUG"),
        (3, "PET_NNODES"),
    ]


def test_what_is_no_file_is_passed_over_and_waits_for_nobody(root: Path) -> None:
    os.mkfifo(root / "home/.bashrc")
    (root / "home/.zshrc").mkdir()
    (root / "home/.profile").write_text("NCCL_DEBUG=INFO\n")
    assert [one["file"] for one in startup.mentions()] == [f"{root}/home/.profile"]


def test_long_lines_and_long_files_are_cut(root: Path) -> None:
    (root / "home/.bashrc").write_bytes(b"NCCL_A=\xff" + b"x" * 1000 + b"\n" + b"NCCL_B=1\n" * 300)
    found = startup.mentions()
    assert len(found) == startup.MOST_MENTIONS
    assert len(found[0]["text"]) == startup.LONGEST_LINE
    (root / "home/.bashrc").write_bytes(b"#" * startup.MOST_BYTES + b"\nNCCL_B=1\n")
    assert startup.mentions() == []
