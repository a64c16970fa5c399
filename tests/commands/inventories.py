"""Nodes by script that have runs, and the records of runs here, for the tests of `status`, `runs` and `clean`."""

from __future__ import annotations

import time
from typing import Any

from pydantic import TypeAdapter

from ncclrun.commands.history import RunDir
from ncclrun.model.cluster import ClusterSpec, Nccl, Node
from ncclrun.transport.fake import FakeNode
from tests.planning.makers import node

NODES = (node("a"), node("b"), node("c"))
CLUSTER = ClusterSpec(name="lab", source="lab.yaml", nccl=Nccl(), nodes=NODES)
MEMBERS = [{"name": one.name, "host": one.host, "nproc": nproc} for one, nproc in zip(NODES, (2, 1, 4), strict=True)]
FIRST = (0, 2, 3)


def part(run_id: str, node_rank: int, **more: Any) -> dict[str, Any]:
    """A node's word of a run that was started a minute ago."""
    now = time.time()
    about = {"cluster": "lab", "program": "train.py", "node": MEMBERS[node_rank]["name"], "nodes": MEMBERS}
    return {
        "run_id": run_id,
        "node_rank": node_rank,
        "nproc": MEMBERS[node_rank]["nproc"],
        "launcher": "torchrun",
        "boot_id": f"boot{node_rank}",
        "by": "anna@desk",
        "about": {**about, "first_rank": FIRST[node_rank]},
        "state": "running",
        "since": now - 60,
        "reason": "",
        "prepared_at": now - 60,
        "ranks_alive": 1,
        "a field of a newer version": 1,
        **more,
    }


def fake(*parts: dict[str, Any], left: tuple[dict[str, Any], ...] = (), **replies: Any) -> FakeNode:
    """A node that has these runs."""
    runs = {"runs": parts, "left": left}
    return FakeNode(
        {
            "clock": lambda *_: {"time": time.time()},
            "runs": lambda *_: {**runs, "time": time.time()},
            "run_record": {"record": {"token": "secret"}},
            **replies,
        }
    )


def make_record(run_id: str, **more: Any) -> RunDir:
    """A run that was started here an hour ago, on all three nodes."""
    run = RunDir.create(run_id)
    dump = TypeAdapter(Node).dump_python
    rows = [
        {"node": dump(one, mode="json"), "first_rank": first, "nproc": member["nproc"]}
        for one, first, member in zip(NODES, FIRST, MEMBERS, strict=True)
    ]
    run.write("run.json", {"nodes": rows, "started_at": time.time() - 3600, "program": "train.py", **more})
    return run


def end_record(run: RunDir, days: float, **more: Any) -> None:
    """Its end, so long ago."""
    end = {"exit_code": 0, "reason": "finished", "ended_at": time.time() - days * 86400, "complete": True, **more}
    run.write("end.json", end)
