"""What a node is asked at `prepare` and `start`, from the plan (docs/node-protocol.md)."""

from __future__ import annotations

from typing import Any

from ncclrun.commands.about import about, controller
from ncclrun.commands.code import Source
from ncclrun.model.amounts import bytes_of
from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.job import JobSpec
from ncclrun.model.plan import LaunchPlan, NodePlan
from ncclrun.planning.planner import as_sent, processes, run_paths, wanted_port


def preparation_of(
    plan: LaunchPlan, node: NodePlan, cluster: ClusterSpec, job: JobSpec, source: Source
) -> dict[str, Any]:
    """All of `prepare` but the token."""
    archive = source.archive
    master = node.node_rank == 0
    linked = master and len(plan.nodes) > 1 and node.node.launch.lease
    return {
        "run_id": plan.run_id,
        "node_rank": node.node_rank,
        "nproc": node.nproc,
        "launcher": plan.launcher,
        "code": archive.sha256 if archive else None,
        "workdir": node.workdir,
        "script": source.program if job.kind == "script" else None,
        "python": node.python,
        "program": source.program if job.kind == "command" else None,
        "conf": None if node.conf is None else node.conf.decode("utf-8", "surrogateescape"),
        "search": next((v.value for v in node.environment if v.name == "PATH"), None),
        "by": controller(),
        "checkpoint_dir": job.checkpoint_dir or node.node.launch.checkpoint_dir,
        "about": about(cluster, job, plan, node),
        "listen": {"address": plan.master_addr, "port": wanted_port(cluster.nodes)} if master else None,
        "lifeline": {"address": plan.master_addr} if linked else None,
    }


def lifeline_of(plan: LaunchPlan, node: NodePlan, port: int) -> dict[str, Any]:
    """The supervisors' own link as one of them is to know it; ``port`` is node 0's."""
    return {
        "address": plan.master_addr,
        "port": port,
        "lease": node.node.launch.lease,
        "source": node.endpoint.address,
        "hosts": [one.node.name for one in plan.nodes],
    }


def start_of(plan: LaunchPlan, node: NodePlan) -> dict[str, Any]:
    """All of `start` that the plan says."""
    return {
        "run_id": plan.run_id,
        "node_rank": node.node_rank,
        "processes": processes(plan, node),
        "defaults": {variable.name: variable.value for variable in node.defaults},
        "env": as_sent(node.environment),
        "run_paths": run_paths(node.environment),
        "unset": list(node.unset),
        "grace": node.grace,
        "restarts": node.node.launch.max_restarts,
        "first_rank": node.first_rank,
        "log_limit": bytes_of(node.node.launch.log_limit),
    }
