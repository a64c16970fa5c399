"""What a run leaves on its nodes about itself, for whoever asks them later from another machine."""

from __future__ import annotations

import getpass
import socket
from dataclasses import asdict
from typing import Any

from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.job import JobSpec
from ncclrun.model.plan import LaunchPlan, NodePlan


def controller() -> str:
    """Who works here, as ``user@host``; the user is ``?`` where the system knows no name."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # OSError from Python 3.13 on
        user = "?"
    return f"{user}@{socket.gethostname()}"


def about(cluster: ClusterSpec, job: JobSpec, plan: LaunchPlan, node: NodePlan) -> dict[str, Any]:
    """``about`` of a `prepare` request (docs/node-protocol.md); arguments may be secret, and stay out."""
    return {
        "cluster": cluster.name,
        "source": cluster.source,
        "program": job.title,
        "name": job.attempt.name if job.attempt else None,
        "node": node.node.name,
        "first_rank": node.first_rank,
        "endpoint": asdict(node.endpoint),
        "world_size": plan.world_size,
        "nodes": [{"name": one.node.name, "host": one.node.host, "nproc": one.nproc} for one in plan.nodes],
    }
