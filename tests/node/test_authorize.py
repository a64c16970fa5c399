"""Installing a public key: once, in the file that sshd reads, without harm to what is there."""

from __future__ import annotations

import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from ncclrun.node.authorize import authorize
from ncclrun.node.refusal import Refusal

BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAIJ1vq8m9vY7o0zQmZyq3uJ6WfHq2v1xw1G9k3h5t7y8z"
KEY = f"ssh-ed25519 {BLOB} me@here"


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir=str(tmp_path)))
    return tmp_path / ".ssh" / "authorized_keys"


def test_a_key_is_added_once_and_privately(keys: Path) -> None:
    assert authorize(KEY + "\n")
    assert not authorize(f"ssh-ed25519 {BLOB} another comment")
    assert keys.read_text() == KEY + "\n"
    assert (keys.stat().st_mode & 0o777, keys.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_what_is_there_stays_even_without_its_last_line_feed(keys: Path) -> None:
    keys.parent.mkdir()
    keys.write_text('command="x" ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB old')
    assert authorize(KEY)
    assert keys.read_text() == f'command="x" ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB old\n{KEY}\n'


@pytest.mark.parametrize(
    "text", ["", "no key", KEY + "\nssh-rsa AAAAB3NzaC1yc2EAAAADAQAB", f'from="*" {KEY}', "ssh-rsa x"]
)
def test_only_one_plain_key_is_taken(keys: Path, text: str) -> None:
    with pytest.raises(Refusal) as refused:
        authorize(text)
    assert refused.value.code == "bad_key"
    assert not keys.exists()
