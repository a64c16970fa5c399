"""Every kind of finding fires for a host that has the fault, and for none that nearly has it: a new kind needs both."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace

import pytest

from ncclrun.diagnosis.checks.registry import KINDS, all_problems
from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.model.facts import GpuProcess, PythonFacts, RdmaDevice, RdmaPort
from ncclrun.model.health import (
    Acs,
    Firewall,
    GpuReport,
    Library,
    Limit,
    LoginShell,
    Package,
    Sizes,
)
from ncclrun.model.network import LookUp, Names
from ncclrun.model.settings import NodeSettings
from tests.diagnosis.checks import hosts
from tests.diagnosis.checks.hosts import GIB, NCCL, PIP, PYTHON, sound
from tests.diagnosis.checks.hosts import with_exam as exam
from tests.diagnosis.checks.hosts import with_facts as facts
from tests.diagnosis.checks.hosts import with_frameworks as frameworks
from tests.diagnosis.checks.hosts import with_gpu as gpu
from tests.diagnosis.checks.hosts import with_kernel as kernel
from tests.diagnosis.checks.hosts import with_system as system
from tests.diagnosis.checks.test_checks import ACTIVE, CASES, DOCKER, PADDLE, SYSTEM_NCCL
from tests.planning.makers import card, node

Group = tuple[Subject, ...]
A_LAUNCH_ALONE = {"gpu_locked"}
"""It shows when the locks are taken (tests/jobs/test_guards.py)."""
MISMATCH = "nvidia-smi ended with exit code 18: Failed to initialize NVML: Driver/library version mismatch"
ETH = card("eth0", "10.0.0.1/24")


def named(*answers: str, took: float = 0.01, reverse: tuple[LookUp, ...] = ()) -> Group:
    """A host whose own name resolves to these."""
    subject = facts(interfaces=(ETH, card("eth1", "10.9.0.1/24")))
    return (replace(subject, names=Names("gpu1", LookUp("gpu1", answers, took), reverse)),)


def boxed(**fields: object) -> Subject:
    """A container."""
    return facts(system=replace(hosts.SYSTEM, container="docker"), **fields)


def on_one(name: str, *gpus: int) -> Subject:
    """A node of the one machine, with these GPUs of it, or all."""
    return replace(sound("m"), node=node(name, gpus=gpus or None))


def matrix(*rows: str) -> str:
    """What `nvidia-smi topo -m` prints for GPUs that are so joined to the others."""
    heads = "\t".join(["", *(f"GPU{index}" for index in range(len(rows))), "CPU Affinity", "NUMA Affinity"])
    lines = [heads]
    for index, row in enumerate(rows):
        cells = row.split()
        lines.append("\t".join([f"GPU{index}", *cells[:index], " X ", *cells[index:], "0-31", "0"]))
    return "\n".join(lines) + "\n"


def looked_up(seconds: float) -> LookUp:
    return LookUp("10.0.0.2", (), seconds)


OTHER_TORCH = facts(python=replace(PYTHON, torch="2.6.0+cu126"), machine="b")
JUMBO = replace(sound("gpu2"), interface=card("eth0", "10.0.0.2/24", mtu=9000))
LOCKS_LITTLE = {"memlock": Limit(65536, 65536), "nofile": Limit(1_048_576, None)}
OLD_KERNEL = replace(hosts.SYSTEM, kernel="5.4.0-150-generic", modules=("nvidia",))

FIRED: list[tuple[str, str, Group, str]] = [
    *((code, level, (subject,), words) for code, level, subject, words in CASES),
    ("torch_broken", "error", (frameworks(trouble="it ended with signal 11 (SIGSEGV)"),), "signal 11"),
    (
        "nccl_missing",
        "error",
        (frameworks(torch_error="OSError: Error loading shared library libnccl.so.2: No such file or directory"),),
        "Error loading shared library libnccl.so.2",
    ),
    ("differs", "warning", (sound("gpu2"), sound("gpu3"), OTHER_TORCH), "torch 2.6.0 here, 2.7.1 on gpu2"),
    ("shared_gpus", "warning", (on_one("a"), on_one("b")), "with a and takes the same GPUs"),
    ("mtu_differs", "warning", (sound("gpu1"), sound("gpu3"), JUMBO), "MTU 9000, 1500 on gpu1"),
    ("container_no_gpus", "warning", (boxed(gpus=(), visible_gpus=0),), "(docker) without any of 2 GPUs"),
    ("container_network", "warning", (boxed(interfaces=(DOCKER,)),), "eth0 172.17.0.3"),
    (
        "memlock",
        "warning",
        (facts(system=replace(hosts.SYSTEM, limits=LOCKS_LITTLE), rdma=(ACTIVE,)),),
        "64 kB, and RDMA wants unlimited",
    ),
    ("gdr_module", "warning", (facts(system=OLD_KERNEL, rdma=(ACTIVE,)),), "kernel 5.4.0-150-generic has no DMA-BUF"),
    ("name_unknown", "info", named(), "resolves to nothing"),
    ("name_foreign", "warning", named("203.0.113.9"), "no address of this host"),
    ("name_other_address", "info", named("10.9.0.1"), "10.9.0.1 and not to 10.0.0.1"),
    ("reverse_slow", "warning", named("10.0.0.1", reverse=(looked_up(3.0),)), "the name of 10.0.0.2 took 3.0 s"),
    (
        "nvlink_down",
        "warning",
        (exam(health=GpuReport((), matrix("NV18 NV17", "NV18 NV17", "NV17 NV17"))),),
        "GPU2: 34",
    ),
    ("driver_fails", "warning", (facts(gpu_trouble=MISMATCH),), "version mismatch"),
    ("driver_fails", "warning", (facts(gpu_trouble="nvidia-smi did not answer within 15 s"),), "did not answer"),
    ("gpu_lost", "error", (gpu(refusal="GPU is lost"),), "GPU 0: the driver says 'GPU is lost'"),
    ("gpu_remap", "warning", (gpu(refusal="GPU requires reset"),), "the driver says: GPU requires reset"),
    (
        "sxid",
        "warning",
        (kernel("nvidia-nvswitch3: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"),),
        "nvidia-nvswitch3: SXid 20034 (Fatal, Link 30",
    ),
    ("hardware_error", "warning", (kernel("mce: [Hardware Error]: Machine check events logged"),), "Machine check"),
    ("nic_error", "warning", (kernel("mlx5_core 0000:5e:00.0: device's health compromised"),), "health compromised"),
    ("nfs_silent", "warning", (kernel("nfs: server fs1 not responding, still trying"),), "server fs1"),
]
"""(id, level, the host with the fault last among its peers, words of the evidence)."""

NEARLY: dict[str, Group] = {
    "no_python": (facts(python=replace(PYTHON, error="looking for torch failed: …")),),
    "no_torch": (facts(python=PythonFacts("/p", "3.6.9", error="too old")),),
    "torch_cpu": (facts(python=replace(PYTHON, torch="2.7.1+cpu", cuda=""), gpus=(), visible_gpus=0),),
    "driver_old": (facts(driver="525.60.13"),),
    "torch_broken": (frameworks(torch_error="ImportError: libnccl.so.2: cannot open shared object file"),),
    "torch_hangs": (frameworks(trouble="it ended with signal 11 (SIGSEGV)"),),
    "cuda_unavailable": (frameworks(cuda_available=None, cuda_error=""),),
    "torch_arch": (frameworks(capabilities=("8.6", "9.0"), built_for=("sm_80", "sm_90a")),),
    "nccl_missing": (
        frameworks(torch_error="ImportError: libcudnn.so.9: cannot open shared object file"),
        frameworks(torch_error="ImportError: /usr/lib/libnccl.so.2: undefined symbol: cudaLaunchKernelExC"),
    ),
    "nccl_several": (frameworks(NCCL, Library("/usr/local/cuda/lib64/libcudart.so.12", ("CUDA",), ("libcudart.so",))),),
    "nccl_override": (frameworks(NCCL, SYSTEM_NCCL),),
    "nccl_cuda": (frameworks(replace(NCCL, cuda="12.9")),),
    "nccl_clash": (
        frameworks(
            packages=(
                Package("nvidia-nccl-cu12", "2.26.2", (PIP,)),
                Package("nvidia-nccl-cu11", "2.21.5", ("/elsewhere/libnccl.so.2",)),
            )
        ),
    ),
    "cudart_override": (frameworks(loaded=("/usr/local/cuda-12.4/lib64/libcudart.so.12",)),),
    "paddle_no_nccl": (frameworks(replace(SYSTEM_NCCL, names=("libnccl.so", "libnccl.so.2")), packages=(PADDLE,)),),
    "paddle_cpu": (frameworks(packages=(Package("paddlepaddle", "2.6.1"), PADDLE)),),
    "tensorflow_cpu": (frameworks(packages=(Package("tensorflow", "2.16.1"), Package("nvidia-cudnn-cu12", "9.1"))),),
    "driver_fails": (facts(gpu_trouble="nvidia-smi ended with exit code 9: no driver", gpus=(), visible_gpus=0),),
    "xid": (kernel("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.133.20"),),
    "sxid": (kernel("nvidia-nvswitch3: using MSI"),),
    "hardware_error": (kernel("mce: CPU0: Thermal monitoring enabled"),),
    "nic_error": (kernel("mlx5_core 0000:5e:00.0: firmware version: 28.39.1002"),),
    "nfs_silent": (kernel("nfs: server fs1 OK"),),
    "no_such_gpu": (replace(sound(), node=node("gpu1", gpus=(0, 1))),),
    "few_gpus": (replace(sound(), node=node("gpu1", nproc_per_node=2)),),
    "no_driver": (facts(gpus=(), visible_gpus=0, system=replace(hosts.SYSTEM, cards=0)),),
    "container_no_gpus": (boxed(),),
    "gpu_lost": (system(cards=2),),
    "gpu_ecc": (gpu(uncorrected=None),),
    "gpu_remap": (gpu(remap_pending=False, recovery=""),),
    "compute_mode": (gpu(compute_mode=""),),
    "gpu_mig": (gpu(mig=""),),
    "fabric_manager": (gpu(fabric=""),),
    "gpu_slow": (gpu(temperature=92),),
    "gpu_width": (gpu(width=None),),
    "gpu_persistence": (gpu(persistence=""),),
    "gpu_topology": (exam(health=GpuReport((hosts.GPU,), "\tGPU0\tGPU1\nGPU0\t X \tNODE\nGPU1\tNODE\t X \n")),),
    "pcie_acs": (exam(acs=Acs()),),
    "nvlink_down": (
        # Every pair by a bridge of its own; a mesh of two and of one link; no NVLink at all.
        exam(health=GpuReport((), matrix("NV4 SYS SYS", "NV4 SYS SYS", "SYS SYS NV4", "SYS SYS NV4"))),
        exam(health=GpuReport((), matrix("NV1 NV1 NV2", "NV1 NV2 NV1", "NV1 NV2 NV1", "NV2 NV1 NV1"))),
        exam(health=GpuReport((), matrix("NV4 PHB", "NV4 PHB", "PHB PHB"))),
        exam(health=GpuReport((), "no matrix")),
    ),
    "gdr_module": (facts(system=replace(OLD_KERNEL, modules=("nvidia", "nv_peer_mem")), rdma=(ACTIVE,)),),
    "gpu_in_use": (facts(gpu_processes=(GpuProcess(9, "GPU-of-another-node", 9, "x", "anna"),)),),
    "leftover": (facts(leftovers=()),),
    "disk_low": (facts(free_bytes=1 << 30),),
    "inodes_low": (system(state=Sizes(9 * GIB, 9 * GIB, 0, 0)),),
    "tmp_low": (system(temporary=Sizes(GIB, 300 << 20)),),
    "shared_memory": (system(shared_memory=Sizes(GIB, GIB)),),
    "memlock": (facts(system=replace(hosts.SYSTEM, limits=LOCKS_LITTLE)),),
    "nofile": (system(limits={"nofile": Limit(4096, 4096)}),),
    "address_space": (system(limits={"address_space": Limit(None, None)}),),
    "clock": (facts(clock_offset=4.9),),
    "clock_unsynced": (system(clock_synced=False, container="docker"),),
    "oom": (kernel("systemd[1]: systemd-oomd.service: started"),),
    "cpus_few": (facts(cpus=2),),
    "numa_balancing": (system(sysctls={"kernel.numa_balancing": "1"}, numa_nodes=1),),
    "selinux": (system(selinux="permissive"),),
    "container_network": (boxed(interfaces=(DOCKER, card("eth1", "10.0.0.5/24"))),),
    "firewall": (exam(firewall=Firewall(("ufw",), "nft", "chain input {\ntcp dport 25 drop\n}")),),
    "firewall_on": (exam(firewall=Firewall((), closed="nft: not permitted")),),
    "two_nics": (facts(interfaces=(ETH, card("eth1", "10.0.1.2/24"))),),
    "rdma_closed": (facts(rdma=(ACTIVE,)),),
    "rdma_down": (facts(rdma=(ACTIVE, RdmaDevice("mlx5_1", (RdmaPort(1, "ACTIVE", "Ethernet", 100.0),)))),),
    "ports_few": (system(sysctls={"net.ipv4.ip_local_port_range": "15000\t61000"}),),
    "mtu_differs": (sound("gpu1"), replace(sound("gpu2"), interface=None)),
    "name_unknown": named("10.0.0.1"),
    "name_loopback": named("127.0.1.1", "10.0.0.1"),
    "name_foreign": named("203.0.113.9", "10.0.0.1"),
    "name_other_address": named("10.9.0.1", "10.0.0.1"),
    "name_slow": named("10.0.0.1", took=0.9),
    "reverse_slow": named("10.0.0.1", reverse=(looked_up(0.9),)),
    "proxy": (facts(proxies=("https_proxy", "no_proxy")),),
    "stale": (facts(stale=()),),
    "login_noise": (exam(shell=LoginShell("/bin/bash", 0.1, "")),),
    "login_slow": (exam(shell=LoginShell("/bin/bash", 1.9)),),
    "ssh_slow": (
        replace(sound(), connected=4.9),
        replace(exam(shell=LoginShell("/bin/bash", 6.0)), connected=6.4),
    ),
    "no_such_interface": (facts(settings=NodeSettings(login={"NCCL_SOCKET_IFNAME": "eth"}), interfaces=(ETH,)),),
    "nccl_setting": (facts(settings=NodeSettings(login={"NCCL_IB_DISABLE": "1"})),),
    "differs": (sound("gpu2"), facts(python=replace(PYTHON, torch="2.7.1+cpu", version="3.11.9"), machine="b")),
    "shared_gpus": (
        on_one("a", 0),
        on_one("b", 1),
    ),
}
"""Of each kind a host, last among its peers, that has something much like it and not it."""


@pytest.mark.parametrize(("code", "level", "group", "words"), FIRED, ids=[f"{one[0]}-{one[1]}" for one in FIRED])
def test_it_fires(code: str, level: str, group: Group, words: str) -> None:
    told = [problem for problem in all_problems(group)[-1] if problem.code == code]
    assert [problem.level for problem in told] == [level], all_problems(group)
    assert words in told[0].message


@pytest.mark.parametrize(("code", "level", "group", "words"), FIRED, ids=[f"{one[0]}-{one[1]}" for one in FIRED])
def test_what_mends_it_can_be_typed(code: str, level: str, group: Group, words: str) -> None:
    for problem in all_problems(group)[-1]:
        command = re.match(r"on \S+:  (.*?)(?:   \(.*\))?$", problem.fix)
        if command is not None:
            assert "…" not in command[1]
            assert not re.search(r"\b(?:HOST|NODE|NETWORK|NAME|ADDRESS|ITS)\b", command[1])
            subprocess.run(["bash", "-n", "-c", command[1]], check=True)


@pytest.mark.parametrize("code", sorted(set(KINDS) - A_LAUNCH_ALONE))
def test_it_spares_what_is_only_like_it(code: str) -> None:
    assert code not in [problem.code for row in all_problems(NEARLY[code]) for problem in row]


def test_no_kind_is_without_both() -> None:
    assert {case[0] for case in FIRED} | A_LAUNCH_ALONE == set(KINDS)
    assert set(NEARLY) | A_LAUNCH_ALONE == set(KINDS)
