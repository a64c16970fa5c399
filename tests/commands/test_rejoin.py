"""A run that is taken up by a fresh process, as far as no host is needed for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncclrun.commands.control import Control
from ncclrun.commands.history import RunDir
from ncclrun.commands.rejoin import stop
from ncclrun.commands.runs import recorded
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import NcclrunError, NodeRefused
from ncclrun.model.events import Warn
from ncclrun.transport.fake import FakeNode, FakeTransport
from tests.commands.inventories import make_record


def gone(*_: object) -> dict[str, object]:
    raise NodeRefused("no_run", "there is no such run here")


@pytest.fixture
def restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """A run whose hosts have been restarted since."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = make_record("r", token="secret")
    record = run.read("run.json") or {}
    for row in record["nodes"]:
        row.update(boot_id="before", clock_offset=0.0)
    run.write("run.json", record)
    return run


def test_a_disk_that_is_full_here_keeps_the_verdict_from_nobody(
    restarted: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise NcclrunError("can't write end.json: No space left on device")

    monkeypatch.setattr(RunDir, "write_end", full)
    nodes = {name: FakeNode({"follow": gone}, boot_id="since") for name in "abc"}
    *_, warning, end = stop(restarted, FakeTransport(nodes), Control())
    assert isinstance(warning, Warn) and "can't write" in warning.text
    assert isinstance(end, Ended) and end.exit_code == 0


def test_a_run_whose_hosts_were_restarted_is_history_once_it_is_stopped(
    restarted: RunDir,
) -> None:
    nodes = {name: FakeNode({}, boot_id="since") for name in "ab"}
    nodes["c"] = FakeNode({"follow": gone}, boot_id="since")
    *_, end = stop(restarted, FakeTransport(nodes), Control())
    assert isinstance(end, Ended)
    assert "follow" in [request["do"] for request in nodes["a"].requests]  # by which it finds that its part is over
    known = recorded(restarted)
    assert (end.exit_code, known.state, known.reason, known.exit_code) == (0, "ended", "lost", 255)
