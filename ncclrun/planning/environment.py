"""The workers' environment on one node: every variable with where it comes from, later layers over earlier ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ncclrun.model.cluster import Nccl, Node
from ncclrun.model.errors import UsageError
from ncclrun.model.job import JobSpec
from ncclrun.model.plan import Endpoint, Variable
from ncclrun.model.secrets import is_secret


def node_environment(
    node: Node,
    nccl: Nccl,
    endpoint: Endpoint | None,
    *,
    forwarded: Mapping[str, str],
    options: Mapping[str, str],
    from_shell: Collection[str] = (),
    attempt: Mapping[str, str] | None = None,
) -> tuple[Variable, ...]:
    """Variables for every process of the node, sorted by name.

    Layers, each over the one before: the network choice (``endpoint`` None: there is none), ``nccl.env``,
    ``launch.env`` with the node's own ``env``, ``forward_env`` (``forwarded`` holds this machine's values, of those
    that it exports), ``--env``, ``attempt``. ``from_shell`` names those of ``--env`` that stood there without a value:
    like what is forwarded, they are secret.
    """
    layers: list[tuple[str, Mapping[str, str]]] = [
        ("network", {} if endpoint is None else network_variables(endpoint)),
        ("gpus", {} if node.gpus is None else {"CUDA_VISIBLE_DEVICES": ",".join(map(str, node.gpus))}),
        ("nccl.env", nccl.env),
        ("launch.env", node.launch.env),
        ("forward_env", {name: forwarded[name] for name in node.launch.forward_env if name in forwarded}),
        ("--env", options),
        ("attempt", attempt or {}),
    ]
    merged: dict[str, Variable] = {}
    for origin, layer in layers:
        for name, value in layer.items():
            secret = origin == "forward_env" or (origin == "--env" and name in from_shell) or is_secret(name, value)
            merged[name] = Variable(name=name, value=value, origin=origin, secret=secret)
    return tuple(merged[name] for name in sorted(merged))


def attempt_variables(job: JobSpec, node: Node) -> dict[str, str]:
    """What the script may ask about its place in the life of the run; the directory as written, ``~`` and all."""
    attempt = job.attempt
    directory = job.checkpoint_dir or node.launch.checkpoint_dir
    return {
        "NCCLRUN_ATTEMPT": str(attempt.number if attempt else 1),
        **({"NCCLRUN_RUN_ID": attempt.name} if attempt else {}),
        **({"NCCLRUN_CHECKPOINT_DIR": directory} if directory else {}),
    }


def default_variables(launcher: str, nproc: int, rendezvous: str = "static") -> tuple[Variable, ...]:
    """What is set where the node's login environment does not have it.

    torchrun itself gives each of several workers one OpenMP thread, and prints five lines about it on every node. With
    c10d it keeps one store for all restarts, in which restarted workers find the addresses of dead ones.
    """
    defaults = {"PYTHONUNBUFFERED": "1"}
    if launcher == "torchrun" and nproc > 1:
        defaults["OMP_NUM_THREADS"] = "1"
    if launcher == "torchrun" and rendezvous == "c10d":
        defaults["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    return tuple(Variable(name=name, value=value, origin="default") for name, value in sorted(defaults.items()))


def network_variables(endpoint: Endpoint) -> dict[str, str]:
    """What makes NCCL, Gloo and TensorPipe use this interface and no other, and NCCL the RDMA ports beside it.

    ``=`` makes NCCL's filter exact: without it ``eth1`` also takes ``eth10``. Gloo and TensorPipe know no such form.
    """
    variables = {
        "NCCL_SOCKET_IFNAME": f"={endpoint.interface}",
        "NCCL_SOCKET_FAMILY": "AF_INET6" if ":" in endpoint.address else "AF_INET",
        "GLOO_SOCKET_IFNAME": endpoint.interface,
        "TP_SOCKET_IFNAME": endpoint.interface,
    }
    return {**variables, "NCCL_IB_HCA": endpoint.hca} if endpoint.hca else variables


def rank_variables(
    *,
    rank: int,
    local_rank: int,
    node_rank: int,
    nnodes: int,
    nproc: int,
    world_size: int,
    master_addr: str,
    master_port: str,
) -> dict[str, str]:
    """What torchrun would tell a worker, for workers that are started without it (``--launcher exec``)."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(nproc),
        "NODE_RANK": str(node_rank),
        "GROUP_RANK": str(node_rank),
        "GROUP_WORLD_SIZE": str(nnodes),
        "MASTER_ADDR": master_addr,
        "MASTER_PORT": master_port,
    }


def forwarded_values(nodes: tuple[Node, ...], environ: Mapping[str, str]) -> dict[str, str]:
    """This machine's values of every name in ``forward_env``; raises UsageError for one that is not set."""
    names = {name: node.name for node in nodes for name in node.launch.forward_env}
    missing = sorted(name for name in names if name not in environ)
    if missing:
        raise UsageError(
            f"forward_env names {', '.join(missing)}, which this shell does not export",
            fix=f"export {missing[0]}=…, or take the name out of forward_env",
        )
    return {name: environ[name] for name in names}
