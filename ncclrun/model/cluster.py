"""The cluster file as data: what a user may write, and each node with its overrides applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ncclrun.model.fieldtypes import (
    Address,
    Auto,
    EnvName,
    EnvValue,
    Gateway,
    Gpus,
    HostPattern,
    Interface,
    Lease,
    Line,
    LogLimit,
    Nproc,
    Port,
    Seconds,
    Subnet,
    Timeout,
    Workdir,
)


class Section(BaseModel):
    """A block of the file: frozen, and closed to keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Ssh(Section):
    """How the hosts are reached. What is left out comes from ssh_config, then from OpenSSH's defaults."""

    user: Line | None = None
    """Login name."""
    port: Port | None = None
    """TCP port of sshd."""
    identity_file: Line | None = None
    """Private key file; `~` is this machine's home."""
    gateway: Gateway | None = None
    """Jump host, `[user@]host[:port]`; several, comma-separated, are passed in order."""
    host_keys: Literal["strict", "accept-new"] = "strict"
    """`strict`: an unknown host key is refused; `accept-new`: it is accepted once and written to known_hosts.
    A changed key is always refused."""
    known_hosts: Line = "~/.ssh/known_hosts"
    """File with the hosts' keys (beside the system's /etc/ssh/ssh_known_hosts)."""
    connect_timeout: Timeout = 10
    """Seconds until a host counts as unreachable: TCP, key exchange and login together."""
    config: Line = "~/.ssh/config"
    """ssh_config file to read; a missing file is an error unless it is the default."""
    forward_agent: bool = False
    """Forward the SSH agent to the hosts."""


class Network(Section):
    """Which network joins the nodes for NCCL and Gloo."""

    interface: Interface = "auto"
    """Interface name on the node, or `auto`."""
    subnet: Subnet | None = None
    """Take the interface that has an address in this subnet (CIDR)."""
    family: Literal["auto", "ipv4", "ipv6"] = "auto"
    """Address family; `auto` takes IPv4 where all nodes share it, else IPv6."""


Deliver = Literal["env", "file", "user", "system"]
"""How settings reach NCCL, as `nccl.deliver` says."""
Lasting = Literal["user", "system"]
"""The two of them that leave a conf file on each node, for `nccl push` and `restore`."""


class Nccl(Section):
    """NCCL's settings and how they reach it."""

    deliver: Deliver = "env"
    """How NCCL's settings, those of the network choice and of `env` below, reach it. `env`: in the workers'
    environment. `file`: in a file of the run's own, named by NCCL_CONF_FILE (NCCL 2.23.4 and later). `user` and
    `system`: in ~/.nccl.conf or /etc/nccl.conf of every node, where `ncclrun nccl push` puts them."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """NCCL variables for all nodes."""


class Launch(Section):
    """How the job is started on each node."""

    nproc_per_node: Nproc | Auto = "auto"
    """Workers a node; `auto` is the number of GPUs found, else 1."""
    master_port: Port | Auto = "auto"
    """Port of the rendezvous on node 0; `auto` is one that is free there."""
    python: Line = "python3"
    """Python that runs the training: a path on the node, or a name looked up in PATH there."""
    workdir: Workdir | None = None
    """Working directory that the node already has; without it the script's directory is sent."""
    rendezvous: Literal["auto", "static", "c10d"] = "auto"
    """torchrun's rendezvous. `static`: ranks in the order of the nodes. `c10d`: torchrun's elastic one, where a worker
    that fails is restarted with all others (`max_restarts`), and ranks are in the order of the nodes' addresses.
    `auto` is `c10d` with `max_restarts`, else `static`."""
    max_restarts: Annotated[int, Field(ge=0)] = 0
    """torchrun's own restarts of the workers of all nodes (`--max-restarts`). With `rendezvous: static` the other nodes
    are not told of one, so that is of use only where the workers do not talk to each other."""
    checkpoint_dir: Workdir | None = None
    """Directory on the nodes that the script finds as NCCLRUN_CHECKPOINT_DIR; made where it is missing."""
    grace: Seconds = 30
    """Seconds between SIGTERM and SIGKILL when the run is stopped."""
    lease: Lease = 15
    """Seconds that a node may be silent on the run's network, while no ncclrun is there either, until the others stop
    by themselves; at least 3. 0: without an ncclrun that follows the run no node knows of the others."""
    log_limit: LogLimit = "1GiB"
    """How much of each rank's stdout and of its stderr a node keeps, `500M` or `2GiB`, say: the last of it. What an
    ncclrun has fetched by then is kept where that runs; at least 1 MiB."""
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """Variables for the workers."""
    forward_env: tuple[EnvName, ...] = ()
    """Names of variables to pass on from this machine's environment."""


class NodeEntry(Section):
    """One entry of `nodes`: a host (or a range of them) and what differs there from the blocks above."""

    host: HostPattern
    """A name of ssh_config, a DNS name or an address; ranges in brackets expand (`gpu[03-16]`)."""
    name: Line | None = None
    """Name of the node in logs and tables; the host by default."""
    address: Address | None = None
    """The node's address on the network that joins the nodes."""
    gpus: Gpus | None = None
    """GPUs to use, by index (CUDA_VISIBLE_DEVICES)."""
    # --- overrides of `ssh`
    user: Line | None = None
    port: Port | None = None
    identity_file: Line | None = None
    gateway: Gateway | None = None
    host_keys: Literal["strict", "accept-new"] | None = None
    known_hosts: Line | None = None
    connect_timeout: Timeout | None = None
    config: Line | None = None
    forward_agent: bool | None = None
    # --- overrides of `network`
    interface: Interface | None = None
    subnet: Subnet | None = None
    family: Literal["auto", "ipv4", "ipv6"] | None = None
    # --- overrides of `launch`
    nproc_per_node: Nproc | Auto | None = None
    master_port: Port | Auto | None = None
    python: Line | None = None
    workdir: Workdir | None = None
    rendezvous: Literal["auto", "static", "c10d"] | None = None
    max_restarts: Annotated[int, Field(ge=0)] | None = None
    checkpoint_dir: Workdir | None = None
    grace: Seconds | None = None
    lease: Lease | None = None
    log_limit: LogLimit | None = None
    env: dict[EnvName, EnvValue] | None = None
    """Variables of this node, added to `launch.env`."""
    forward_env: tuple[EnvName, ...] | None = None
    """Names of further variables to pass on to this node."""


class ClusterFile(Section):
    """The whole file."""

    name: Line = "cluster"
    """Name of the cluster, for people."""
    ssh: Ssh = Ssh()
    network: Network = Network()
    nccl: Nccl = Nccl()
    launch: Launch = Launch()
    nodes: tuple[NodeEntry, ...] = Field(min_length=1)
    """The nodes; the first is the master (node_rank 0). A plain string in the file is short for `host: …`."""


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
    own_network: tuple[str, ...] = field(default=(), compare=False)
    """Fields of ``network`` that its own entry sets: where a line stands, not what it says."""


@dataclass(frozen=True)
class ClusterSpec:
    """What the commands work on: nodes in file order, ranges expanded, names unique."""

    name: str
    source: str
    """The file (or option) that it came from, for messages."""
    nccl: Nccl
    nodes: tuple[Node, ...]
