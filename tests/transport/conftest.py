"""A user with servers, for the tests of this directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ncclrun.transport import boot
from ncclrun.transport.ssh import SshTransport
from tests.transport.servers import SSHD, Lab
from tests.transport.standin import package


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A user's directory and the servers made in it; no agent, and nothing of the real user's."""
    if not shutil.which(SSHD):
        pytest.skip("needs openssh-server")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    lab = Lab(tmp_path)
    yield lab
    lab.stop()


@pytest.fixture
def transport() -> Iterator[SshTransport]:
    """A transport without a password, closed after the test."""
    transport = SshTransport(cluster="lab.yaml")
    yield transport
    transport.close()


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes run the stand-in instead of the real node part."""
    monkeypatch.setattr(boot, "package", package)
