"""Which ncclrun this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from ncclrun.commands import ownversion


def test_a_tree_that_is_not_installed_says_so_instead_of_failing(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(ownversion, "version", none)
    assert ownversion.own_version() == "unknown"
