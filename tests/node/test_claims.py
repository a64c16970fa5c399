"""Two controllers: both may read, and the orders of the first are refused once the second has claimed the run."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ncclrun.node import rundir
from tests.node.client import TOKEN, Client, Refused
from tests.node.conftest import again

SLEEP = ["sleep", "600"]


def claim(client: Client, epoch: int | None = None, by: str = "anna") -> int:
    """The epoch that the node gives."""
    answer = client.call("claim", run_id="r", node_rank=0, token=TOKEN, by=by, host="laptop", epoch=epoch)
    return int(answer["epoch"])


def stop(client: Client, **more: Any) -> dict[str, Any]:
    """Stops the run at once."""
    return client.call("stop", run_id="r", node_rank=0, how="kill", grace=0, **more)


def test_an_order_of_before_is_refused_and_tells_who_has_it_now(node: Client, env: dict[str, str]) -> None:
    node.launch("r", SLEEP)
    with again(env) as other:
        assert claim(other) == 1
        with pytest.raises(Refused, match="anna@laptop has taken over run r since ") as refused:
            stop(node)
        assert refused.value.code == "superseded"
        assert (refused.value.details["by"], refused.value.details["epoch"]) == ("anna", 1)
        other.call("follow", run_id="r", node_rank=0, offsets={}, tail=None)  # both read
        assert stop(other, epoch=1)["asked"] is True
        assert other.end()["reason"] == node.end()["reason"] == "stopped"


def test_the_number_that_node_0_gave_decides_on_the_others(node: Client) -> None:
    node.prepare("r")
    assert claim(node, 3, "bert") == 3
    with pytest.raises(Refused, match="bert@laptop"):
        claim(node, 2)
    with pytest.raises(Refused, match="bert@laptop"):
        claim(node, 3)
    assert claim(node) == 4


def test_a_late_start_finds_that_the_run_is_anothers(node: Client) -> None:
    node.prepare("r")
    claim(node)
    with pytest.raises(Refused, match="taken over"):
        node.start("r", SLEEP)
    node.call("discard", run_id="r", node_rank=0, token=TOKEN)


def test_only_who_knows_the_token_may_claim(node: Client) -> None:
    node.prepare("r")
    with pytest.raises(Refused, match="another's"):
        node.call("claim", run_id="r", node_rank=0, token="token-of-somebody", by="x", host="y", epoch=None)


def test_of_claims_at_once_each_gets_a_number_of_its_own(tmp_path: Path) -> None:
    run = rundir.RunDir(tmp_path)
    got: list[int | None] = []
    threads = [threading.Thread(target=lambda n=n: got.append(run.claim(None, {"by": n}))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one for one in got if one is not None) == list(range(1, 9))
    assert run.last_claim()[0] == 8


@pytest.mark.parametrize("name", ["garbage", "\u00b2", "9" * 30, "-1"])
def test_what_is_no_claim_counts_for_nothing_and_a_damaged_one_by_its_number(tmp_path: Path, name: str) -> None:
    run = rundir.RunDir(tmp_path)
    run.claim(None, {"by": "x"})
    (tmp_path / "claims" / name).write_bytes(b"{}")
    assert run.last_claim() == (1, {"by": "x"})
    (tmp_path / "claims/2").write_bytes(b"\xff")
    assert run.last_claim() == (2, {})
    assert run.claim(None, {"by": "y"}) == 3


def test_a_stop_says_why_it_was_asked_for(node: Client) -> None:
    node.launch("r", SLEEP)
    stop(node, reason="ncclrun stop by anna")
    assert node.end()["stop"]["reason"] == "ncclrun stop by anna"


def test_a_supervisor_of_one_node_hears_nothing_that_it_did_not_ask_for(node: Client, runs: Path) -> None:
    node.launch("r", SLEEP)
    node.event("state", state="running")
    (part,) = runs.glob("r/*")
    assert json.loads((part / "state.json").read_text())["lifeline"] is False
    stop(node)
    assert node.end()["stop"]["origin"] is None
