"""Where runs are kept: the home, or a private place that nobody else could have prepared for us."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ncclrun.node import machine, statedir, tasks

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as two users")


@pytest.fixture
def fallbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in place of /var/tmp, and a home that can't be used."""
    base = tmp_path / "shared"
    base.mkdir()
    base.chmod(0o1777)
    monkeypatch.setattr(statedir, "FALLBACKS", (base,))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/proc/no-home")
    return base


def test_the_home_is_the_usual_place_and_made_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".local/state/ncclrun").mkdir(parents=True, mode=0o755)
    found = statedir.find()
    assert found == (tmp_path / ".local/state/ncclrun", "")
    assert (tmp_path / ".local/state/ncclrun").stat().st_mode & 0o777 == 0o700


def test_xdg_state_home_counts_when_it_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert statedir.find().path == tmp_path / "state/ncclrun"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert statedir.find().path == tmp_path / "home/.local/state/ncclrun"


def test_without_a_usable_home_a_private_directory_is_made_and_said(fallbacks: Path) -> None:
    found = statedir.find()
    private = fallbacks / f"ncclrun-{os.getuid()}"
    assert found.path == private / "ncclrun"
    assert private.stat().st_mode & 0o777 == 0o700
    assert "/proc/no-home" in found.note
    assert str(private) in found.note


def test_a_disk_that_takes_nothing_any_more_is_where_its_runs_are(
    fallbacks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: str) -> None:
        raise OSError(28, "No space left on device")

    usual = tmp_path / "state/ncclrun"
    part = usual / f"runs/r/0-{machine.machine_id()}"
    part.mkdir(parents=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("ncclrun.node.statedir.tempfile.TemporaryFile", full)
    assert statedir.find().path != usual
    os.mkfifo(part / "control")
    assert statedir.find() == (usual, "")


def test_a_planted_link_is_not_followed(fallbacks: Path, tmp_path: Path) -> None:
    (tmp_path / "trap").mkdir()
    (fallbacks / f"ncclrun-{os.getuid()}").symlink_to(tmp_path / "trap")
    found = statedir.find()
    assert found.path is None
    assert list((tmp_path / "trap").iterdir()) == []
    with pytest.raises(Exception, match="no place to keep runs"):
        found.need()


def test_a_directory_open_to_others_is_refused(fallbacks: Path) -> None:
    (fallbacks / f"ncclrun-{os.getuid()}").mkdir()
    (fallbacks / f"ncclrun-{os.getuid()}").chmod(0o777)
    assert statedir.find().path is None


@needs_root
def test_a_directory_of_another_user_is_refused(fallbacks: Path) -> None:
    planted = fallbacks / f"ncclrun-{os.getuid()}"
    planted.mkdir(mode=0o700)
    os.chown(planted, 12345, 12345)
    found = statedir.find()
    assert found.path is None
    assert "belongs to uid 12345" in found.note


@needs_root
def test_a_home_of_another_user_is_not_trusted_with_roots_runs(
    fallbacks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "theirs"))
    (tmp_path / "theirs/.local/state/ncclrun").mkdir(parents=True)
    os.chown(tmp_path / "theirs/.local/state/ncclrun", 12345, 12345)
    assert statedir.find().path == fallbacks / f"ncclrun-{os.getuid()}/ncclrun"


@needs_root
def test_a_user_without_name_and_home_finds_a_place(fallbacks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    for path in fallbacks.parents:
        if path.name.startswith(("pytest-", "popen-", "test_")):
            path.chmod(0o711)

    def as_nobody() -> dict[str, str]:
        os.setgid(54321)
        os.setuid(54321)
        return {"user": machine.user(), "path": str(statedir.find().path)}

    answer = tasks.bounded(as_nobody, 30.0)
    assert answer == {"ok": True, "user": "54321", "path": str(fallbacks / "ncclrun-54321/ncclrun")}
