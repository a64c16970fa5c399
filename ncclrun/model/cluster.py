"""The cluster file as data: what a user may write, and each node with its overrides applied."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Auto = Literal["auto"]


class Section(BaseModel):
    """A block of the file: frozen, and closed to keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Ssh(Section):
    """How the hosts are reached. What is left out comes from ssh_config, then from OpenSSH's defaults."""

    user: str | None = None
    """Login name."""
    port: Port | None = None
    """TCP port of sshd."""
    identity_file: str | None = None
    """Private key file; `~` is this machine's home."""
    gateway: str | None = None
    """Jump host, `[user@]host[:port]`; several, comma-separated, are passed in order."""
    host_keys: Literal["strict", "accept-new"] = "strict"
    """`strict`: an unknown host key is refused; `accept-new`: it is accepted once and written to known_hosts. A changed key is always refused."""
    known_hosts: str = "~/.ssh/known_hosts"
    """File with the hosts' keys (beside the system's /etc/ssh/ssh_known_hosts)."""
    connect_timeout: Annotated[float, Field(gt=0, le=600)] = 10
    """Seconds until a host counts as unreachable: TCP, key exchange and login together."""
    config: str = "~/.ssh/config"
    """ssh_config file to read; a missing file is an error unless it is the default."""
    forward_agent: bool = False
    """Forward the SSH agent to the hosts."""


class Network(Section):
    """Which network joins the nodes for NCCL and Gloo."""

    interface: str = "auto"
    """Interface name on the node, or `auto`."""
    subnet: IPv4Network | IPv6Network | None = None
    """Take the interface that has an address in this subnet (CIDR)."""
    family: Literal["auto", "ipv4", "ipv6"] = "auto"
    """Address family; `auto` takes IPv4 where all nodes share it, else IPv6."""


class Nccl(Section):
    """NCCL's settings and how they reach it."""

    deliver: Literal["env", "file", "user", "system"] = "env"
    """`env`: in the workers' environment."""
    env: dict[EnvName, str] = Field(default_factory=dict)
    """NCCL variables for all nodes."""


class Launch(Section):
    """How the job is started on each node."""

    nproc_per_node: Annotated[int, Field(ge=1, le=1024)] | Auto = "auto"
    """Workers a node; `auto` is the number of GPUs found, else 1."""
    master_port: Port | Auto = "auto"
    """Port of the rendezvous on node 0; `auto` is one that is free there."""
    python: str = "python3"
    """Python that runs the training: a path on the node, or a name looked up in PATH there."""
    workdir: str | None = None
    """Working directory that the node already has; without it the script's directory is sent."""
    rendezvous: Literal["static", "c10d"] = "static"
    """torchrun's rendezvous."""
    max_restarts: Annotated[int, Field(ge=0)] = 0
    """torchrun's own restarts of a node's workers."""
    grace: Annotated[float, Field(ge=0, le=3600)] = 30
    """Seconds between SIGTERM and SIGKILL when the run is stopped."""
    env: dict[EnvName, str] = Field(default_factory=dict)
    """Variables for the workers."""
    forward_env: tuple[EnvName, ...] = ()
    """Names of variables to pass on from this machine's environment."""


class NodeEntry(Section):
    """One entry of `nodes`: a host (or a range of them) and what differs there from the blocks above."""

    host: str
    """A name of ssh_config, a DNS name or an address; ranges in brackets expand (`gpu[03-16]`)."""
    name: str | None = None
    """Name of the node in logs and tables; the host by default."""
    address: str | None = None
    """The node's address on the network that joins the nodes."""
    gpus: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """GPUs to use, by index (CUDA_VISIBLE_DEVICES)."""
    # --- overrides of `ssh`
    user: str | None = None
    port: Port | None = None
    identity_file: str | None = None
    gateway: str | None = None
    host_keys: Literal["strict", "accept-new"] | None = None
    known_hosts: str | None = None
    connect_timeout: Annotated[float, Field(gt=0, le=600)] | None = None
    config: str | None = None
    forward_agent: bool | None = None
    # --- overrides of `network`
    interface: str | None = None
    subnet: IPv4Network | IPv6Network | None = None
    family: Literal["auto", "ipv4", "ipv6"] | None = None
    # --- overrides of `launch`
    nproc_per_node: Annotated[int, Field(ge=1, le=1024)] | Auto | None = None
    master_port: Port | Auto | None = None
    python: str | None = None
    workdir: str | None = None
    rendezvous: Literal["static", "c10d"] | None = None
    max_restarts: Annotated[int, Field(ge=0)] | None = None
    grace: Annotated[float, Field(ge=0, le=3600)] | None = None
    env: dict[EnvName, str] | None = None
    """Variables of this node, added to `launch.env`."""
    forward_env: tuple[EnvName, ...] | None = None


class ClusterFile(Section):
    """The whole file."""

    name: str = "cluster"
    """Name of the cluster, for people."""
    ssh: Ssh = Ssh()
    network: Network = Network()
    nccl: Nccl = Nccl()
    launch: Launch = Launch()
    nodes: tuple[NodeEntry | str, ...] = Field(min_length=1)
    """The nodes; the first is the master (node_rank 0). A plain string is short for `host: …`."""


@dataclass(frozen=True)
class Node:
    """A node with everything that concerns it: the blocks of the file with its own overrides applied."""

    name: str
    host: str
    ssh: Ssh
    network: Network
    launch: Launch
    address: str | None = None
    gpus: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ClusterSpec:
    """What the commands work on: nodes in file order, ranges expanded, names unique."""

    name: str
    source: str
    """The file (or option) that it came from, for messages."""
    nccl: Nccl
    nodes: tuple[Node, ...]
