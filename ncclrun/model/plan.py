"""The plan: for each node the exact address, ranks, environment and command, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from ncclrun.model.cluster import Node


@dataclass(frozen=True)
class Endpoint:
    """The interface and address that a node uses to talk to the others, and why."""

    interface: str
    address: str
    why: str
    hca: str = ""
    """Value for NCCL_IB_HCA, exact (``=mlx5_0:1``); "" leaves it to NCCL."""


_PLACES = {
    "network": "network choice",
    "nccl.env": "nccl.env in the cluster file",
    "launch.env": "launch.env (or the node's env) in the cluster file",
    "forward_env": "forward_env in the cluster file",
}


@dataclass(frozen=True)
class Variable:
    """One variable of the workers' environment and where it comes from (``network``, ``nccl.env``, ``--env``, …)."""

    name: str
    value: str
    origin: str
    secret: bool = False
    """Shown as ``***``: it was forwarded from this machine's environment."""

    @property
    def place(self) -> str:
        """The origin in words; some say it themselves (``--env``)."""
        return _PLACES.get(self.origin, self.origin)


@dataclass(frozen=True)
class NodePlan:
    """What one node will run."""

    node: Node
    node_rank: int
    endpoint: Endpoint
    nproc: int
    first_rank: int
    python: str
    """Absolute path of the training Python on the node."""
    argv: tuple[str, ...]
    """The launcher's command (torchrun), or one worker's (exec)."""
    environment: tuple[Variable, ...]
    """What the workers are given in their environment."""
    file: tuple[Variable, ...]
    """What NCCL is given in a conf file (`nccl.deliver`); () with ``env``."""
    conf: bytes | None
    """The conf file of the run directory; None unless `nccl.deliver` is ``file``."""
    defaults: tuple[Variable, ...]
    """Variables for a login environment that does not have them; those of ``environment`` go over them."""
    unset: tuple[str, ...]
    """Variables of the login environment that are taken away."""
    workdir: str | None
    """Working directory that the node already has; None: the run directory with the code that was sent."""
    grace: float

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All of them, whichever way they go."""
        return (*self.environment, *self.file)

    @property
    def ranks(self) -> range:
        """Global ranks of this node's workers."""
        return range(self.first_rank, self.first_rank + self.nproc)


@dataclass(frozen=True)
class LaunchPlan:
    """The whole run."""

    run_id: str
    launcher: str
    master_addr: str
    master_port: int
    """0 until the master has given one (``auto``)."""
    world_size: int
    nodes: tuple[NodePlan, ...]
