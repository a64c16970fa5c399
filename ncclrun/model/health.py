"""What a node says for a diagnosis: its system (with the facts), and the examination that `doctor` asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limit:
    """A process limit; None is unlimited."""

    soft: int | None
    hard: int | None


@dataclass(frozen=True)
class Sizes:
    """A file system: bytes and inodes (0 of both inode fields where it has no such limit)."""

    size: int
    free: int
    inodes: int = 0
    inodes_free: int = 0


@dataclass(frozen=True)
class Memory:
    """Bytes, None where not known; ``limit`` is the control group's, None where there is none."""

    total: int | None = None
    available: int | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Distribution:
    """By os-release."""

    id: str = ""
    like: str = ""
    version: str = ""
    name: str = ""


@dataclass(frozen=True)
class System:
    """What the machine grants a process of ours; a default value is one that is not known."""

    distribution: Distribution = field(default_factory=Distribution)
    kernel: str = ""
    arch: str = ""
    glibc: str = ""
    container: str = ""
    """``docker``, ``podman``, ``kubernetes``, …; "" where no container shows."""
    selinux: str = ""
    """``enforcing``, ``permissive`` or "" (off, or not known)."""
    limits: Mapping[str, Limit] = field(default_factory=dict)
    """``memlock``, ``nofile``, ``address_space``."""
    shared_memory: Sizes | None = None
    state: Sizes | None = None
    """Where run directories are made."""
    temporary: Sizes | None = None
    memory: Memory = field(default_factory=Memory)
    cards: int = 0
    """NVIDIA GPUs on the PCI bus, whether a driver serves them or not."""
    modules: tuple[str, ...] = ()
    """Which of some kernel modules are loaded."""
    cpus_online: int = 0
    numa_nodes: int = 0
    oom_kills: int = 0
    clock_synced: bool | None = None
    sysctls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GpuHealth:
    """A GPU as nvidia-smi reports it; words are the driver's, "" and None where it does not say."""

    index: int
    uuid: str = ""
    bus: str = ""
    ecc: str = ""
    uncorrected: int | None = None
    """Uncorrectable memory errors since the driver was loaded."""
    remap_pending: bool = False
    remap_failed: bool = False
    recovery: str = ""
    """What the driver wants done to it (``Reset``, ``Reboot``, …)."""
    refusal: str = ""
    """What it answers in place of values: ``GPU is lost``, ``GPU requires reset``."""
    persistence: str = ""
    mig: str = ""
    compute_mode: str = ""
    width: int | None = None
    """PCIe lanes now, and at most."""
    widest: int | None = None
    slow: tuple[str, ...] = ()
    """Why its clock is held down now."""
    temperature: int | None = None
    fabric: str = ""


@dataclass(frozen=True)
class GpuReport:
    """All GPUs, and the matrix of `nvidia-smi topo -m` ("" for one GPU alone)."""

    gpus: tuple[GpuHealth, ...] = ()
    topology: str = ""


@dataclass(frozen=True)
class KernelLine:
    """A line of the kernel's log, the last of ``many`` of its kind; ``age`` in seconds."""

    age: float
    text: str
    many: int = 1


@dataclass(frozen=True)
class KernelLog:
    """The lines that tell of trouble."""

    lines: tuple[KernelLine, ...] = ()


@dataclass(frozen=True)
class Firewall:
    """``services`` that are on; ``rules`` as ``by`` (nft, iptables) lists them; ``closed``: why they can't be read."""

    services: tuple[str, ...] = ()
    by: str = ""
    rules: str = ""
    closed: str = ""


@dataclass(frozen=True)
class LoginShell:
    """What the login shell does before a command: ``seconds`` None where it did not end, and what it printed."""

    path: str
    seconds: float | None
    printed: str = ""


@dataclass(frozen=True)
class Acs:
    """PCIe bridges that redirect."""

    redirecting: tuple[str, ...] = ()


@dataclass(frozen=True)
class Package:
    """A package of the training's Python, with the libnccl files that it brought."""

    name: str
    version: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Frameworks:
    """What the training's Python has, and what torch said when it was started."""

    packages: tuple[Package, ...] = ()
    trouble: str = ""
    """Why that program did not come to its end."""
    torch_error: str = ""
    """Why torch can't be imported, though it is there."""
    torch_seconds: float | None = None
    """What the import took; None without one."""
    loaded: tuple[str, ...] = ()
    """Files of NCCL and CUDA that torch had loaded."""
    built_for: tuple[str, ...] = ()
    """``sm_90``, …"""
    cuda_available: bool | None = None
    """None for a torch without CUDA, or without an answer."""
    cuda_error: str = ""
    capabilities: tuple[str, ...] = ()
    """Of its GPUs: ``9.0``."""

    def version(self, *names: str) -> str:
        """Of the first of these packages that is there; "" for none."""
        return next((one.version for name in names for one in self.packages if one.name == name), "")


@dataclass(frozen=True)
class Library:
    """A libnccl or libcudart; ``ways``: ``torch`` (it loaded it), LD_PRELOAD, LD_LIBRARY_PATH, CUDA, pip, ldconfig."""

    path: str
    ways: tuple[str, ...]
    names: tuple[str, ...] = ()
    """By which it is found there: ``libnccl.so.2``, ``libnccl.so``."""
    version: str = ""
    cuda: str = ""
    """That NCCL was built for."""

    @property
    def is_nccl(self) -> bool:
        """Or else it is CUDA's runtime."""
        return any(name.startswith("libnccl") for name in self.names)


@dataclass(frozen=True)
class Installed:
    """Frameworks and libraries."""

    frameworks: Frameworks = field(default_factory=Frameworks)
    libraries: tuple[Library, ...] = ()

    @property
    def nccl(self) -> tuple[Library, ...]:
        """Every libnccl."""
        return tuple(one for one in self.libraries if one.is_nccl)


@dataclass(frozen=True)
class Examination:
    """What a node's parts found; a part is None where it could not tell, and ``unknown`` has the reason by its name."""

    health: GpuReport | None = None
    kernel_log: KernelLog | None = None
    firewall: Firewall | None = None
    shell: LoginShell | None = None
    acs: Acs | None = None
    installed: Installed | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
