"""A run that is taken up by a fresh process, as far as no host is needed for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncclrun.commands.control import Control
from ncclrun.commands.rejoin import stop
from ncclrun.commands.runs import recorded
from ncclrun.model.endevents import Ended
from ncclrun.model.errors import NodeRefused
from ncclrun.model.events import Warn
from ncclrun.transport.fake import FakeNode, FakeTransport
from tests.commands.inventories import make_record


def gone(*_: object) -> dict[str, object]:
    raise NodeRefused("no_run", "there is no such run here")


def test_a_restarted_host_writes_its_end_and_the_run_is_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = make_record("r", token="secret")
    record = run.read("run.json") or {}
    for row in record["nodes"]:
        row.update(boot_id="before", clock_offset=0.0)
    run.write("run.json", record)
    nodes = {name: FakeNode({"stop": {"asked": False}}, boot_id="since") for name in "ab"}
    nodes["c"] = FakeNode({"stop": gone}, boot_id="since")
    *events, end = stop(run, FakeTransport(nodes), Control())
    assert isinstance(end, Ended)
    assert "stop" in [request["do"] for request in nodes["a"].requests]
    assert not [event for event in events if isinstance(event, Warn) and "not written" in event.text]
    known = recorded(run)
    assert (end.exit_code, known.state, known.reason, known.exit_code) == (0, "ended", "lost", 255)
