"""Hosts for tests of checks: a sound one with two GPUs, as it would tell of itself, and what may be wrong there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ncclrun.diagnosis.checks.registry import all_problems
from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.model.facts import NodeFacts, PythonFacts
from ncclrun.model.health import (
    Acs,
    Distribution,
    Examination,
    Firewall,
    Frameworks,
    GpuHealth,
    GpuReport,
    Installed,
    KernelLine,
    KernelLog,
    Library,
    Limit,
    LoginShell,
    Memory,
    Package,
    Sizes,
    System,
)
from ncclrun.model.netevents import Problem
from tests.planning.makers import card, facts, node

GIB = 1 << 30
DISK = Sizes(900 * GIB, 400 * GIB, 60_000_000, 50_000_000)
SYSTEM = System(
    distribution=Distribution("ubuntu", "debian", "22.04", "Ubuntu 22.04.5 LTS"),
    kernel="6.8.0-60-generic",
    arch="x86_64",
    glibc="2.35",
    limits={
        "memlock": Limit(None, None),
        "nofile": Limit(1_048_576, 1_048_576),
    },
    shared_memory=Sizes(500 * GIB, 500 * GIB),
    state=DISK,
    temporary=DISK,
    memory=Memory(1000 * GIB, 900 * GIB, None),
    cards=2,
    modules=("nvidia", "nvidia_peermem"),
    cpus_online=64,
    numa_nodes=2,
    clock_synced=True,
    sysctls={"net.ipv4.ip_local_port_range": "32768\t60999", "net.ipv4.conf.all.arp_ignore": "0"},
)
PYTHON = PythonFacts("/opt/env/bin/python", "3.11.4", "2.7.1+cu126", "12.6", "2.26.2")
PIP = "/opt/env/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"
NCCL = Library(PIP, ("torch", "pip"), ("libnccl.so.2",), "2.26.2", "12.6")
FRAMEWORKS = Frameworks(
    packages=(Package("nvidia-nccl-cu12", "2.26.2", (PIP,)), Package("torch", "2.7.1+cu126")),
    torch_seconds=2.0,
    loaded=(PIP, "/opt/env/lib/python3.11/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12"),
    built_for=("sm_80", "sm_90", "compute_90"),
    cuda_available=True,
    capabilities=("9.0",),
)
MATRIX = """\
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\tSYS\t0-31\t0\t\tN/A
GPU1\tNV18\t X \tPIX\t32-63\t1\t\tN/A
NIC0\tSYS\tPIX\t X
"""
GPU = GpuHealth(
    0,
    "GPU-0",
    "00000000:00:06.0",
    "Enabled",
    0,
    persistence="Enabled",
    mig="Disabled",
    compute_mode="Default",
    width=16,
    widest=16,
    temperature=37,
    fabric="Completed",
)
EXAM = Examination(
    health=GpuReport((GPU, replace(GPU, index=1, uuid="GPU-1", bus="00000000:00:07.0")), MATRIX),
    kernel_log=KernelLog(),
    firewall=Firewall(),
    shell=LoginShell("/bin/bash", 0.1),
    acs=Acs(),
    installed=Installed(FRAMEWORKS, (NCCL,)),
)


def sound(name: str = "gpu1", **others: Any) -> Subject:
    """A host on which there is nothing to find; ``others`` are fields of its facts."""
    eth = card("eth0", "10.0.0.1/24")
    given: dict[str, Any] = {"system": SYSTEM, "python": PYTHON, "driver": "570.133.20", "cpus": 64, **others}
    return Subject(node(name), facts(name, eth, gpus=2, **given), EXAM, interface=eth, connected=0.4)


def with_facts(**fields: Any) -> Subject:
    """The same but for these fields of its facts."""
    one = sound()
    changed: NodeFacts = replace(one.facts, **fields)
    return replace(one, facts=changed)


def with_system(**fields: Any) -> Subject:
    """The same but for these fields of its system."""
    return with_facts(system=replace(SYSTEM, **fields))


def with_exam(**fields: Any) -> Subject:
    """The same but for these parts of its examination."""
    return replace(sound(), exam=replace(EXAM, **fields))


def with_gpu(**fields: Any) -> Subject:
    """The same but for these fields of its first GPU."""
    return with_exam(health=GpuReport((replace(GPU, **fields), replace(GPU, index=1)), MATRIX))


def with_frameworks(*libraries: Library, cuda: str = "12.6", **fields: Any) -> Subject:
    """The same but for these fields of its frameworks, with these libraries."""
    one = with_exam(installed=Installed(replace(FRAMEWORKS, **fields), libraries or (NCCL,)))
    return replace(one, facts=replace(one.facts, python=replace(PYTHON, cuda=cuda)))


def with_kernel(*texts: str, age: float = 600.0) -> Subject:
    """The same, with these lines in its kernel's log."""
    return with_exam(kernel_log=KernelLog(tuple(KernelLine(age, text) for text in texts)))


def found(*subjects: Subject) -> list[Problem]:
    """All that is found of the first one, beside the others."""
    return all_problems(subjects)[0]
