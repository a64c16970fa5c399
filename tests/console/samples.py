"""One of each event, for tests of the views."""

from __future__ import annotations

from typing import Any

from ncclrun.model.endevents import Cause, Ended, NodeSummary
from ncclrun.model.events import (
    CodeSent,
    Connected,
    Event,
    Failure,
    Log,
    NodeState,
    Planned,
    Prepared,
    Refused,
    RunCreated,
    Stopping,
    Unreachable,
    Warn,
)
from ncclrun.model.netevents import Pinged, Problem, Resolved

NODES = ("gpu1", "b")


def plan_node(node_rank: int) -> dict[str, Any]:
    """A node of a plan as planning makes it."""
    return {
        "node": NODES[node_rank],
        "node_rank": node_rank,
        "host": NODES[node_rank],
        "interface": "eth1",
        "address": f"10.77.0.{node_rank + 1}",
        "why": "the only subnet of all nodes",
        "ranks": [2 * node_rank, 2 * node_rank + 1],
        "nproc_per_node": 2,
        "python": "/opt/env/bin/python",
        "workdir": None,
        "environment": {
            "NCCL_SOCKET_IFNAME": {"value": "=eth1", "from": "network"},
            "MESSAGE": {"value": "it's\n$(here)", "from": "--env"},
            "TOKEN": {"value": "***", "from": "forward_env"},
        },
        "conf": {"NCCL_DEBUG": {"value": "INFO", "from": "nccl.env"}},
        "unset": ["RANK"],
        "command": ["/opt/env/bin/python", "train.py", "a b"],
        "grace": 30.0,
    }


RUN = RunCreated(run_id="r1", cluster="lab", directory="/runs/r1", nnodes=2, nodes=NODES)
PLAN = Planned(
    run_id="r1",
    launcher="torchrun",
    master_addr="10.77.0.1",
    master_port=0,
    world_size=4,
    nodes=(plan_node(0), plan_node(1)),
)
CAUSE = Cause(
    node="b",
    node_rank=1,
    host="10.0.0.7",
    rank=3,
    how="exit code 7",
    exit_code=7,
    exception="ValueError: boom",
    tail=("Traceback (most recent call last):", '  File "t.py", line 1', "ValueError: boom"),
)
ROWS = (
    NodeSummary(
        node="gpu1",
        node_rank=0,
        host="gpu1",
        ranks="0-1",
        state="stopped",
        exit="SIGTERM",
        seconds=61.0,
        confirmed=True,
    ),
    NodeSummary(
        node="b", node_rank=1, host="10.0.0.7", ranks="2-3", state="failed", exit="7", seconds=None, confirmed=False
    ),
)
END = Ended(
    run_id="r1",
    exit_code=7,
    reason="failed",
    seconds=61.0,
    nodes=ROWS,
    cause=CAUSE,
    victims=("ranks 0-1 on gpu1 stopped",),
    directory="/runs/r1",
)


def connected(node_rank: int) -> Connected:
    """The node answers."""
    name = NODES[node_rank]
    return Connected(node=name, node_rank=node_rank, host=name, hostname=name, seconds=0.4, local=False)


def state(node_rank: int, name: Any, reason: str = "") -> NodeState:
    """The node's state is now ``name``."""
    return NodeState(node=NODES[node_rank], node_rank=node_rank, state=name, since=1.7e9, reason=reason)


def log(rank: int | None, text: str, *, node_rank: int | None = None, partial: bool = False) -> Log:
    """Output of a rank; two ranks a node."""
    at = (rank or 0) // 2 if node_rank is None else node_rank
    local = None if rank is None else rank % 2
    return Log(
        node=NODES[at], node_rank=at, rank=rank, local_rank=local, stream="out", time=1.5, text=text, partial=partial
    )


def pinged(node_rank: int, **more: Any) -> Pinged:
    """An answer to ping."""
    return Pinged(**{"node": NODES[node_rank], "node_rank": node_rank, "host": NODES[node_rank], "fit": True, **more})


UNFIT = pinged(
    1, fit=False, problems=(Problem(code="unknown_key", message="its key is not known", fix="ncclrun trust lab.yaml"),)
)

ALL: tuple[Event, ...] = (
    RUN,
    connected(0),
    Unreachable(node="b", node_rank=1, host="10.0.0.7", reason="timeout", message="no answer in 10 s", fix="ping it"),
    Resolved(node="gpu1", node_rank=0, interface="eth1", address="10.77.0.1", why="the only subnet of all nodes"),
    PLAN,
    CodeSent(directory="/job", files=2, size=34211, sha256="ab", sent_to=("b",)),
    Prepared(node="gpu1", node_rank=0),
    Refused(node="b", node_rank=1, code="no_space", message="no space left on /data", fix="free 1 GB"),
    state(0, "running"),
    log(3, "hello"),
    Warn(text="NCCL uses eth0", fix="unset it", node="b"),
    Stopping(reason="rank 3 failed", how="term", nodes=NODES, grace=30.0),
    END,
    Failure(message="no network\n  a  eth0\n  b  eth1", fix="write network: {subnet: …}", exit_code=3),
    UNFIT,
)
