"""What a node says of itself: the answer to the `facts` request, as frozen data."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_interface

from ncclrun.model.health import System
from ncclrun.model.settings import NodeSettings


@dataclass(frozen=True)
class Address:
    """An address of an interface: ``address`` without prefix or zone, ``prefix`` its length in bits."""

    address: str
    prefix: int
    scope: str = "global"
    """``global``, ``link``, ``host`` or ``site``."""

    def __post_init__(self) -> None:
        """Raises ValueError: all that reckons with it relies on its being one."""
        ip_interface(f"{self.address}/{self.prefix}")

    @property
    def family(self) -> str:
        """``ipv4`` or ``ipv6``."""
        return "ipv6" if ":" in self.address else "ipv4"


@dataclass(frozen=True)
class Interface:
    """A network interface as the kernel shows it (rtnetlink, /sys/class/net)."""

    name: str
    index: int
    up: bool
    """Administratively up (IFF_UP)."""
    running: bool
    """Has a carrier (IFF_RUNNING)."""
    loopback: bool
    kind: str
    """Driver kind of rtnetlink (``bridge``, ``veth``, ``bond``, ``vlan``, ``tun``, …) or "" for a plain card."""
    mtu: int
    speed: int | None
    """Mbit/s, None where the driver does not say."""
    mac: str
    addresses: tuple[Address, ...]
    virtual: bool
    """No device behind it (/sys/class/net/NAME/device is missing)."""
    rdma: tuple[str, ...] = ()
    """RDMA devices on the same hardware (``mlx5_0``)."""
    link_type: str = "ether"
    """By ARPHRD: ``ether``, ``infiniband`` (IPoIB), ``loopback``, ``none`` (tunnels without one), ``other``."""
    master: str = ""
    """The bond or bridge that this interface is a port of."""
    lower: tuple[str, ...] = ()
    """The interfaces below a bond, bridge, VLAN or macvlan."""
    point_to_point: bool = False
    """IFF_POINTOPOINT: one other end and no subnet."""
    default_route: bool = False
    """A default route of this host leaves here."""


@dataclass(frozen=True)
class RdmaGid:
    """An entry of a port's GID table (/sys/class/infiniband/DEVICE/ports/N/gids, gid_attrs)."""

    index: int
    gid: str
    type: str = ""
    """``IB/RoCE v1``, ``RoCE v2`` or "" where the kernel does not say."""
    netdev: str = ""


@dataclass(frozen=True)
class RdmaPort:
    """A port of an RDMA device."""

    port: int
    state: str
    """``ACTIVE``, ``INIT``, ``DOWN``, …"""
    link_layer: str
    """``InfiniBand`` or ``Ethernet`` (RoCE, iWARP)."""
    rate: float
    """Gbit/s, 0 where unknown."""
    netdevs: tuple[str, ...] = ()
    """Network interfaces on this port."""
    gids: tuple[RdmaGid, ...] = ()


@dataclass(frozen=True)
class RdmaDevice:
    """An RDMA device as /sys/class/infiniband lists it (``mlx5_0``)."""

    name: str
    ports: tuple[RdmaPort, ...]
    numa: int | None = None


@dataclass(frozen=True)
class Gpu:
    """A GPU that the node's driver lists; memory in MiB."""

    index: int
    name: str
    uuid: str
    memory: int | None = None
    used: int | None = None


@dataclass(frozen=True)
class GpuProcess:
    """A process on a GPU; ``memory`` in MiB. ``name`` is the driver's word for it.

    Where it can't be seen from the node's login (containers), the fields from ``user`` on are empty.
    """

    pid: int
    uuid: str
    memory: int | None
    name: str
    user: str = ""
    command: str = ""
    run_id: str = ""
    """The run of this user that it belongs to, "" if none."""
    seconds: float | None = None
    """Since it started."""


@dataclass(frozen=True)
class LeftoverProcess:
    """A process of a dead run."""

    pid: int
    command: str


@dataclass(frozen=True)
class Leftover:
    """A part of a run of this user that lives on though its supervisor is dead; ``processes`` are the first ones."""

    run_id: str
    node_rank: int
    seconds: float
    """Since the oldest of its processes started."""
    count: int
    processes: tuple[LeftoverProcess, ...]


@dataclass(frozen=True)
class PythonFacts:
    """The training Python of a node; an empty ``version`` means that it could not be run (``error`` says why)."""

    executable: str
    version: str = ""
    torch: str = ""
    cuda: str = ""
    """CUDA version that torch was built for; "" for a CPU build or without torch."""
    nccl: str = ""
    """Version of the NCCL that this torch loads: its pip package's, else the system's."""
    error: str = ""


@dataclass(frozen=True)
class NodeFacts:
    """One node: identity, interfaces, GPUs, Python."""

    hostname: str
    user: str
    machine: str
    """Same for two nodes on one machine and network, different otherwise."""
    boot_id: str
    clock_offset: float
    """Node's clock minus ours, seconds; the error is at most half of ``round_trip``."""
    round_trip: float
    interfaces: tuple[Interface, ...]
    gpus: tuple[Gpu, ...]
    visible_gpus: int
    """GPUs that a worker would see with the node's own CUDA_VISIBLE_DEVICES."""
    python: PythonFacts
    cpus: int
    state_dir: str
    free_bytes: int
    """Free bytes where run directories are made."""
    driver: str = ""
    gpu_trouble: str = ""
    """Why the GPUs' driver did not answer though nvidia-smi is there; ``gpus`` are then what the kernel knows."""
    stale: tuple[str, ...] = ()
    """Names of variables in the login environment that a launcher must not inherit (RANK, MASTER_ADDR, PET_…)."""
    rdma: tuple[RdmaDevice, ...] = ()
    verbs: str = ""
    """Why NCCL could not use the RDMA devices ("" if it could): libibverbs missing, no access to /dev/infiniband."""
    proxies: tuple[str, ...] = ()
    """Names of proxy variables in the login environment (``https_proxy``)."""
    ssh_address: str = ""
    """Address of this node at which the SSH connection arrived ("" without one)."""
    settings: NodeSettings = field(default_factory=NodeSettings)
    """What the node itself says to NCCL, Gloo and torch."""
    cuda_visible: str | None = None
    """CUDA_VISIBLE_DEVICES of the login environment, None where it is not set."""
    gpu_processes: tuple[GpuProcess, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    system: System = field(default_factory=System)
