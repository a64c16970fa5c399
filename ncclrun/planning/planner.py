"""From cluster, job and facts to the plan: ranks, addresses, environment and commands for every node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from ncclrun.model.cluster import ClusterSpec, Launch, Node
from ncclrun.model.errors import UsageError
from ncclrun.model.events import Planned
from ncclrun.model.facts import NodeFacts
from ncclrun.model.job import JobSpec
from ncclrun.model.plan import Endpoint, LaunchPlan, NodePlan, Variable
from ncclrun.model.secrets import value_shown
from ncclrun.model.settings import ConfFile
from ncclrun.nccl.conf import read_files
from ncclrun.nccl.version import NEWEST, parse
from ncclrun.planning.command import RUN, WORKER, torchrun_command, worker_command
from ncclrun.planning.delivery import CONF_VARIABLE, RUN_CONF, RUN_CONF_SHOWN, run_conf, split
from ncclrun.planning.environment import attempt_variables, default_variables, node_environment, rank_variables


def make_plan(
    cluster: ClusterSpec,
    job: JobSpec,
    facts: Sequence[NodeFacts],
    endpoints: Sequence[Endpoint],
    *,
    run_id: str,
    forwarded: Mapping[str, str],
    master_port: int | None = None,
    workdir: str | None = None,
) -> LaunchPlan:
    """The plan; pure and cheap, so it is made again once the master has said its port.

    ``master_port`` None stands for "not known yet" and shows as ``auto``; ``workdir`` is for nodes that name none.
    """
    nodes = tuple(with_options(node, job) for node in cluster.nodes)
    counts = tuple(workers(node, fact) for node, fact in zip(nodes, facts, strict=True))
    first_ranks = _first_ranks(nodes, counts, endpoints)
    port = wanted_port(nodes) if master_port is None else master_port
    master_addr = endpoints[0].address
    plans = []
    for node_rank, (node, fact, endpoint) in enumerate(zip(nodes, facts, endpoints, strict=True)):
        python = fact.python.executable or node.launch.python
        if job.launcher == "torchrun":
            argv = torchrun_command(
                job,
                python,
                run_id=run_id,
                nnodes=len(nodes),
                nproc=counts[node_rank],
                node_rank=node_rank,
                master_addr=master_addr,
                master_port=str(port or "auto"),
                local_addr=endpoint.address,
                launch=node.launch,
            )
        else:
            argv = worker_command(job, python)
        variables = node_environment(
            node,
            cluster.nccl,
            endpoint,
            forwarded=forwarded,
            options=job.env,
            from_shell=job.from_shell,
            attempt=attempt_variables(job, node),
        )
        delivered = split(cluster.nccl.deliver, variables)
        plans.append(
            NodePlan(
                node=node,
                node_rank=node_rank,
                endpoint=endpoint,
                nproc=counts[node_rank],
                first_rank=first_ranks[node_rank],
                python=python,
                argv=argv,
                environment=delivered.environment,
                file=delivered.file,
                conf=run_conf(delivered.file, files_read(fact), node.name) if cluster.nccl.deliver == "file" else None,
                defaults=default_variables(job.launcher, counts[node_rank], node.launch.rendezvous),
                unset=fact.stale,
                workdir=node.launch.workdir or workdir,
                grace=node.launch.grace,
            )
        )
    return LaunchPlan(
        run_id=run_id,
        launcher=job.launcher,
        master_addr=master_addr,
        master_port=port,
        world_size=sum(counts),
        nodes=tuple(plans),
    )


def _first_ranks(nodes: Sequence[Node], counts: Sequence[int], endpoints: Sequence[Endpoint]) -> tuple[int, ...]:
    """The global rank of each node's local rank 0.

    c10d numbers the nodes by their addresses as text; where that does not tell them apart, the workers will say.
    """
    order = list(range(len(nodes)))
    if nodes[0].launch.rendezvous == "c10d":
        order.sort(key=lambda node_rank: endpoints[node_rank].address)
    first = dict(zip(order, accumulate((counts[node_rank] for node_rank in order), initial=0), strict=False))
    return tuple(first[node_rank] for node_rank in range(len(nodes)))


def files_read(fact: NodeFacts) -> tuple[ConfFile, ...]:
    """The conf files that NCCL reads on a node by itself, the one that hides the other first."""
    return read_files(fact.settings.conf_files, parse(fact.python.nccl) or NEWEST)


def with_options(node: Node, job: JobSpec) -> Node:
    """The node with the command line's options laid over its `launch` settings, and with the rendezvous chosen.

    A static rendezvous knows of no restart: the other nodes' workers are not restarted, and those that are find dead
    addresses in torchrun's store.
    """
    options = {
        "nproc_per_node": job.nproc_per_node,
        "master_port": job.master_port,
        "python": job.python,
        "workdir": job.workdir,
        "grace": job.grace,
    }
    if node.launch.rendezvous == "auto":
        options["rendezvous"] = "c10d" if node.launch.max_restarts else "static"
    changed: Launch = node.launch.model_copy(update={k: v for k, v in options.items() if v is not None})
    return replace(node, launch=changed)


def refuse_unsupported(cluster: ClusterSpec, job: JobSpec) -> None:
    """Raises UsageError for settings that the file may carry but that this version does not run."""
    if cluster.nccl.deliver == "file" and (place := _names_a_conf_file(cluster, job)):
        raise UsageError(
            f"nccl.deliver: file has NCCL read a file of the run's own by {CONF_VARIABLE}, and {place} sets that too",
            fix=f"take {CONF_VARIABLE} out of {place}, or write  nccl: {{deliver: env}}  in the cluster file",
        )
    if job.launcher == "exec" and any(node.launch.max_restarts for node in cluster.nodes):
        raise UsageError(
            "max_restarts is torchrun's, and --launcher exec runs without it", fix="leave max_restarts out"
        )


def _names_a_conf_file(cluster: ClusterSpec, job: JobSpec) -> str:
    """Where the user names a conf file for NCCL; "" if nowhere."""
    places: list[tuple[str, Collection[str]]] = [("nccl.env", cluster.nccl.env), ("--env", job.env)]
    for node in cluster.nodes:
        places += [("launch.env", node.launch.env), ("forward_env", node.launch.forward_env)]
    return next((place for place, names in places if CONF_VARIABLE in names), "")


def workers(node: Node, fact: NodeFacts) -> int:
    """nproc_per_node of this node: as the user says, else the GPUs named or found, else 1."""
    if node.launch.nproc_per_node != "auto":
        return node.launch.nproc_per_node
    if node.gpus is not None:
        return len(node.gpus) or 1
    return fact.visible_gpus or 1


def wanted_port(nodes: Sequence[Node]) -> int:
    """master_port as the user says, 0 for ``auto``."""
    port = nodes[0].launch.master_port
    return 0 if port == "auto" else port


def processes(plan: LaunchPlan, node: NodePlan) -> list[dict[str, Any]]:
    """What the node shall start, in the form of the `start` request (docs/node-protocol.md)."""
    if plan.launcher == "torchrun":
        return [{"argv": list(node.argv), "local_rank": None, "env": {}, "expand": _own_words(node)}]
    return [
        {
            "argv": list(node.argv),
            "local_rank": local_rank,
            "env": rank_variables(
                rank=rank,
                local_rank=local_rank,
                node_rank=node.node_rank,
                nnodes=len(plan.nodes),
                nproc=node.nproc,
                world_size=plan.world_size,
                master_addr=plan.master_addr,
                master_port=str(plan.master_port),
            ),
            "expand": 0,
        }
        for local_rank, rank in enumerate(node.ranks)
    ]


def as_sent(environment: Sequence[Variable]) -> dict[str, str]:
    """The variables as requests carry them; of the run's own conf file only the node knows the path (``run_paths``)."""
    return {variable.name: variable.value for variable in environment if variable.value != RUN_CONF_SHOWN}


def run_paths(environment: Sequence[Variable]) -> dict[str, str]:
    """The variables that name a file in the run directory, with that file's name."""
    return {variable.name: RUN_CONF for variable in environment if variable.value == RUN_CONF_SHOWN}


def _own_words(node: NodePlan) -> int:
    """Where in torchrun's ``argv`` the user's own words begin: stand-ins for paths on the node are replaced before."""
    return node.argv.index(WORKER) + 1


def _shown_command(node: NodePlan) -> list[str]:
    """The command with words for the paths that only the node knows."""
    own = _own_words(node) if WORKER in node.argv else 0
    shown = {RUN: "<run directory>", WORKER: "<run directory>/worker.sh", f"{RUN}/torch": "<run directory>/torch"}
    return [shown.get(word, word) for word in node.argv[:own]] + list(node.argv[own:])


def planned_event(plan: LaunchPlan) -> Planned:
    """The plan as an event, secrets masked."""
    return Planned(
        run_id=plan.run_id,
        launcher=plan.launcher,
        master_addr=plan.master_addr,
        master_port=plan.master_port,
        world_size=plan.world_size,
        nodes=tuple(
            {
                "node": node.node.name,
                "node_rank": node.node_rank,
                "host": node.node.host,
                "interface": node.endpoint.interface,
                "address": node.endpoint.address,
                "why": node.endpoint.why,
                "ranks": [node.first_rank, node.first_rank + node.nproc - 1],
                "nproc_per_node": node.nproc,
                "python": node.python,
                "workdir": node.workdir,
                "environment": {
                    v.name: {"value": value_shown(v.name, v.value, v.secret), "from": v.origin}
                    for v in (*node.defaults, *node.environment)
                },
                "conf": {
                    v.name: {"value": value_shown(v.name, v.value, v.secret), "from": v.origin} for v in node.file
                },
                "unset": list(node.unset),
                "command": _shown_command(node),
                "grace": node.grace,
            }
            for node in plan.nodes
        ),
    )
