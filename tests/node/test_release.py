"""A supervisor that stays after its end for the other nodes' word goes when a controller lets it go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ncclrun.node import processes
from ncclrun.node.rundir import RunDir
from tests.node.client import TOKEN, Client, Refused


def with_another_node(client: Client, command: list[str]) -> None:
    """Node 0 of two; the other one never calls."""
    port = client.prepare("r", lifeline={"address": "127.0.0.1"})["lifeline_port"]
    lifeline = {"address": "127.0.0.1", "port": port, "lease": 600, "source": "", "hosts": ["a", "b"]}
    client.start("r", command, lifeline=lifeline)
    client.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)


def release(client: Client, token: str = TOKEN) -> dict[str, Any]:
    return client.call("release", run_id="r", node_rank=0, token=token)


def test_it_has_gone_when_the_answer_comes(node: Client, runs: Path) -> None:
    with_another_node(node, ["true"])
    node.end()
    (part,) = map(RunDir, runs.glob("r/0-*"))
    supervisor, warden = part.keepers()
    assert release(node)["gone"] is True
    assert not processes.lives(supervisor)
    assert not processes.lives(warden)
    assert release(node)["gone"] is True


def test_one_whose_run_goes_on_stays(node: Client, runs: Path) -> None:
    with_another_node(node, ["sleep", "600"])
    with pytest.raises(Refused, match="has not ended") as refused:
        release(node)
    assert refused.value.code == "running"
    node.call("stop", run_id="r", node_rank=0, how="kill", grace=0)
    assert node.end()["reason"] == "stopped"
    with pytest.raises(Refused, match="another's"):
        release(node, "another-token-of-16")
    assert release(node)["gone"] is True
