"""Each check fires for the host that has the fault, with words that name it, and for no sound one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncclrun.diagnosis.checks.registry import KINDS, all_problems, node_problems
from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.model.facts import Gpu, GpuProcess, Leftover, LeftoverProcess, PythonFacts, RdmaDevice, RdmaPort
from ncclrun.model.health import (
    Acs,
    Distribution,
    Examination,
    Firewall,
    GpuReport,
    Installed,
    Library,
    Limit,
    LoginShell,
    Package,
    Sizes,
    System,
)
from ncclrun.model.network import LookUp, Names
from ncclrun.model.settings import Mention, NodeSettings
from tests.diagnosis.checks import hosts
from tests.diagnosis.checks.hosts import GIB, NCCL, PIP, PYTHON, found, sound
from tests.diagnosis.checks.hosts import with_exam as exam
from tests.diagnosis.checks.hosts import with_facts as facts
from tests.diagnosis.checks.hosts import with_frameworks as frameworks
from tests.diagnosis.checks.hosts import with_gpu as gpu
from tests.diagnosis.checks.hosts import with_kernel as kernel
from tests.diagnosis.checks.hosts import with_system as system
from tests.planning.makers import card, node

SYSTEM_NCCL = Library("/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5", ("ldconfig",), ("libnccl.so.2",), "2.21.5", "12.4")
FORCED = replace(SYSTEM_NCCL, ways=("torch", "LD_LIBRARY_PATH"))
PADDLE = Package("paddlepaddle-gpu", "2.6.1")
ONE_DOWN = RdmaDevice("mlx5_0", (RdmaPort(1, "DOWN", "InfiniBand", 0.0), RdmaPort(2, "ACTIVE", "InfiniBand", 400.0)))
ACTIVE = RdmaDevice("mlx5_0", (RdmaPort(1, "ACTIVE", "InfiniBand", 400.0),))
NFT = """\
table inet filter {
	chain input {
		type filter hook input priority filter; policy accept;
		iif "lo" accept
		ct state established,related accept
		tcp dport 22 accept
		reject
	}
	chain forward {
		type filter hook forward priority filter; policy drop;
	}
}
"""
IPTABLES = "-P INPUT DROP\n-A INPUT -p tcp --dport 22 -j ACCEPT\n"
HARMLESS_NFT = """\
table ip filter {
	chain FORWARD {
		type filter hook forward priority filter; policy drop;
	}
}
table inet f2b {
	chain input {
		type filter hook input priority -1; policy accept;
		tcp dport 22 ip saddr @banned reject with icmp port-unreachable
		ct state invalid drop
	}
}
"""
SYS_MATRIX = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSYS\t0-31\nGPU1\tSYS\t X \t32-63\n"
DOCKER = card("eth0", "172.17.0.3/16", kind="veth")
LEFT = Leftover("old-run", 0, 7200.0, 1, (LeftoverProcess(4711, "python train.py"),))
USER = GpuProcess(99, "GPU-0", 40_000, "python", "anna", "python sweep.py", "", 7200.0)

CASES: list[tuple[str, str, Subject, str]] = [
    ("no_python", "error", facts(python=PythonFacts("/no/python", error="no such file")), "no such file"),
    ("no_torch", "error", facts(python=PythonFacts("/usr/bin/python3", "3.11.4")), "not installed in /usr/bin/python3"),
    ("torch_cpu", "warning", facts(python=replace(PYTHON, torch="2.7.1+cpu", cuda="")), "can't use the 2 GPUs"),
    ("driver_old", "warning", facts(driver="470.82.01"), "470.82.01; torch 2.7.1+cu126 with CUDA 12.6 needs 525.60.13"),
    ("torch_broken", "error", frameworks(torch_error="ImportError: undefined symbol: cudaX"), "undefined symbol"),
    ("torch_hangs", "warning", frameworks(trouble="it did not end within 60 s"), "did not end within 60 s"),
    ("cuda_unavailable", "error", frameworks(cuda_available=False, cuda_error="Error 802"), "Error 802"),
    ("torch_arch", "error", frameworks(capabilities=("12.0",), built_for=("sm_80", "sm_90")), "capability 12.0"),
    (
        "nccl_missing",
        "error",
        frameworks(torch_error="ImportError: libnccl.so.2: cannot open shared object file"),
        "so.2: cannot",
    ),
    (
        "nccl_several",
        "info",
        frameworks(NCCL, SYSTEM_NCCL),
        f"torch loads 2.26.2 ({PIP}, by pip); there are also 2.21.5",
    ),
    ("nccl_override", "warning", frameworks(replace(NCCL, ways=("pip",)), FORCED), "LD_LIBRARY_PATH leads to 2.21.5"),
    ("nccl_cuda", "warning", frameworks(replace(NCCL, cuda="13.0")), "built for CUDA 13.0"),
    (
        "nccl_clash",
        "warning",
        frameworks(
            packages=(Package("nvidia-nccl-cu12", "2.26.2", (PIP,)), Package("nvidia-nccl-cu13", "2.28.9", (PIP,)))
        ),
        "nvidia-nccl-cu12 2.26.2 and nvidia-nccl-cu13 2.28.9",
    ),
    ("cudart_override", "warning", frameworks(loaded=("/usr/local/cuda-11.8/lib64/libcudart.so.11.0",)), "cuda-11.8"),
    ("paddle_no_nccl", "warning", frameworks(SYSTEM_NCCL, packages=(PADDLE,)), "only libnccl.so.2 is"),
    ("paddle_cpu", "warning", frameworks(packages=(Package("paddlepaddle", "2.6.1"),)), "can't use the 2 GPUs"),
    ("tensorflow_cpu", "warning", frameworks(packages=(Package("tensorflow-cpu", "2.16.1"),)), "is the CPU package"),
    ("tensorflow_cpu", "info", frameworks(packages=(Package("tensorflow", "2.16.1"),)), "no cuDNN"),
    ("no_such_gpu", "error", replace(sound(), node=node("gpu1", gpus=(0, 5))), "wants GPU 5"),
    ("few_gpus", "warning", replace(sound(), node=node("gpu1", nproc_per_node=4)), "4 workers for 2 GPUs"),
    ("no_driver", "warning", replace(facts(gpus=(), visible_gpus=0), exam=None), "its module is loaded and lists none"),
    ("gpu_lost", "warning", system(cards=3), "3 GPUs on the bus, the driver lists 2"),
    ("gpu_ecc", "warning", gpu(uncorrected=3), "GPU 0: 3 uncorrectable errors"),
    ("gpu_remap", "warning", gpu(remap_pending=True), "GPU 0 waits for a reset"),
    ("gpu_remap", "warning", gpu(recovery="Reset"), "the driver wants: Reset"),
    ("gpu_remap", "error", gpu(remap_failed=True), "can't repair"),
    ("compute_mode", "error", gpu(compute_mode="Prohibited"), "Prohibited"),
    ("compute_mode", "warning", gpu(compute_mode="Exclusive_Process"), "Exclusive_Process"),
    ("gpu_mig", "warning", gpu(mig="Enabled"), "GPU 0: MIG is on"),
    ("fabric_manager", "error", gpu(fabric="In Progress"), "In Progress"),
    ("gpu_slow", "warning", gpu(slow=("hw_thermal_slowdown",), temperature=92), "hw thermal slowdown at 92 °C"),
    ("gpu_width", "warning", gpu(width=8), "8 of 16 lanes"),
    ("gpu_persistence", "info", gpu(persistence="Disabled"), "GPU 0: off"),
    ("gpu_topology", "info", exam(health=GpuReport((hosts.GPU,), SYS_MATRIX)), "GPU0-GPU1"),
    ("pcie_acs", "warning", exam(acs=Acs(("00:01.0",))), "00:01.0"),
    ("xid", "error", kernel("NVRM: Xid (PCI:0000:00:06): 79, pid=1, GPU has fallen off the bus."), "Xid 79"),
    ("xid", "warning", kernel("NVRM: Xid (PCI:0000:00:06): 48, pid=1, DBE"), "an uncorrectable memory error"),
    ("xid", "info", kernel("NVRM: Xid (PCI:0000:00:06): 13, pid=1, Graphics SM"), "a program's own fault"),
    ("xid", "info", kernel("NVRM: Xid (PCI:0000:00:06): 79, pid=1", age=30 * 86400.0), "30 d ago"),
    ("gpu_in_use", "warning", facts(gpu_processes=(USER,)), "in use by anna: python sweep.py for 2 h"),
    ("leftover", "error", facts(leftovers=(LEFT,)), "python train.py (pid 4711)"),
    ("disk_low", "warning", facts(free_bytes=1000), "only 0 MiB free"),
    ("inodes_low", "warning", system(state=Sizes(9 * GIB, 9 * GIB, 1_000_000, 12)), "only 12 of 1000000 files"),
    ("tmp_low", "warning", system(temporary=Sizes(GIB, 5 << 20)), "only 5 MiB free in /tmp"),
    (
        "shared_memory",
        "warning",
        system(shared_memory=Sizes(64 << 20, 64 << 20)),
        "only 64 MiB free in /dev/shm, for 2 workers",
    ),
    ("shared_memory", "info", system(shared_memory=Sizes(256 << 20, 256 << 20)), "256 MiB free in /dev/shm"),
    ("nofile", "warning", system(limits={"nofile": Limit(256, 1024)}), "256 open files"),
    ("address_space", "warning", system(limits={"address_space": Limit(3_072_000_000, None)}), "3.07 GB (ulimit -v)"),
    ("nofile", "info", system(limits={"nofile": Limit(1024, None)}), "at most any number"),
    ("clock", "warning", facts(clock_offset=-3600.0), "3600 s behind"),
    ("clock_unsynced", "info", system(clock_synced=False), "no time service"),
    (
        "oom",
        "warning",
        kernel("Out of memory: Killed process 77 (python) total-vm:1kB"),
        "python (pid 77) 10 min ago; 1000 GiB are there for all",
    ),
    ("oom", "info", replace(system(oom_kills=4), exam=Examination()), "4 processes killed"),
    ("cpus_few", "warning", facts(cpus=1), "1 of 64 processors for 2 workers"),
    ("numa_balancing", "info", system(sysctls={"kernel.numa_balancing": "1"}), "with 2 NUMA nodes"),
    ("selinux", "info", system(selinux="enforcing"), "enforcing"),
    ("firewall", "warning", exam(firewall=Firewall((), "nft", NFT)), "nft shows for what comes in: reject"),
    ("firewall", "warning", exam(firewall=Firewall((), "iptables", IPTABLES)), "-P INPUT DROP"),
    ("firewall_on", "info", exam(firewall=Firewall(("ufw",), closed="nft: not permitted")), "ufw is on"),
    (
        "two_nics",
        "warning",
        facts(interfaces=(card("eth0", "10.0.0.1/24"), card("eth1", "10.0.0.2/24"))),
        "eth1 10.0.0.2",
    ),
    ("rdma_closed", "warning", facts(rdma=(ACTIVE,), verbs="libibverbs.so.1 can't be loaded"), "can't be loaded"),
    ("rdma_down", "info", facts(rdma=(ONE_DOWN,)), "mlx5_0:1 is DOWN"),
    ("ports_few", "warning", system(sysctls={"net.ipv4.ip_local_port_range": "40000 40100"}), "40000 to 40100"),
    ("stale", "warning", facts(stale=("PET_NNODES", "RANK")), "sets PET_NNODES, RANK: taken away"),
    (
        "stale",
        "warning",
        facts(stale=("RANK",), settings=NodeSettings(mentions=(Mention("/root/.bashrc", 7, "RANK", "export RANK=0"),))),
        "sets RANK (/root/.bashrc:7)",
    ),
    ("proxy", "warning", facts(proxies=("https_proxy",)), "https_proxy is set"),
    ("login_noise", "info", exam(shell=LoginShell("/bin/bash", 0.1, "Welcome!\nnews")), "prints 'Welcome!'"),
    ("login_slow", "warning", exam(shell=LoginShell("/bin/bash", 4.0)), "took 4.0 s"),
    ("login_slow", "warning", exam(shell=LoginShell("/bin/bash", None)), "did not end"),
    ("ssh_slow", "warning", replace(sound(), connected=12.0), "12.0 s"),
    (
        "nccl_setting",
        "warning",
        facts(settings=NodeSettings(login={"NCCL_IB_DISABLE": "true"})),
        "NCCL_IB_DISABLE=true (login environment)",
    ),
    (
        "no_such_interface",
        "warning",
        facts(
            settings=NodeSettings(
                login={"NCCL_SOCKET_IFNAME": "ens9"},
                mentions=(Mention("/root/.bashrc", 12, "NCCL_SOCKET_IFNAME", "export NCCL_SOCKET_IFNAME=ens9"),),
            )
        ),
        "NCCL_SOCKET_IFNAME=ens9 (/root/.bashrc:12)",
    ),
    (
        "name_loopback",
        "info",
        replace(sound(), names=Names("gpu1", LookUp("gpu1", ("127.0.1.1",), 0.01))),
        "resolves to 127.0.1.1",
    ),
    ("name_slow", "warning", replace(sound(), names=Names("gpu1", LookUp("gpu1", ("10.0.0.1",), 3.0))), "took 3.0 s"),
]
"""(id, level, the host, words of the evidence): `test_each_kind` has more, and holds them against what is found."""


def test_a_sound_host_is_accused_of_nothing() -> None:
    assert found(sound()) == []


def test_what_nobody_could_look_at_is_no_finding() -> None:
    assert found(replace(sound(), exam=None)) == []
    assert found(replace(sound(), exam=Examination())) == []
    assert found(replace(facts(system=System()), exam=Examination())) == []


class TestContainers:
    """They are told of what their start lacks, and not of what is their host's."""

    def test_without_gpus(self) -> None:
        one = facts(gpus=(), visible_gpus=0, system=replace(hosts.SYSTEM, container="docker"))
        codes = {problem.code: problem for problem in node_problems(one.node, one.facts)}
        assert set(codes) == {"container_no_gpus"}
        assert "--gpus all" in codes["container_no_gpus"].fix

    def test_some_of_the_host_s_gpus_are_no_loss(self) -> None:
        assert found(system(container="docker", cards=8)) == []

    def test_behind_a_bridge(self) -> None:
        one = facts(interfaces=(DOCKER,), system=replace(hosts.SYSTEM, container="docker"))
        assert [problem.code for problem in found(one)] == ["container_network"]

    def test_on_the_host_s_network(self) -> None:
        assert found(system(container="docker")) == []

    def test_with_little_lockable_memory_for_rdma(self) -> None:
        low = replace(hosts.SYSTEM, container="docker", limits={"memlock": Limit(65536, 65536)})
        (problem,) = found(facts(system=low, rdma=(ACTIVE,)))
        assert (problem.code, problem.fix) == ("memlock", "start its container with  --ulimit memlock=-1")
        assert found(facts(system=low)) == []  # nobody pins memory without RDMA


class TestNccl:
    """Installing it, for the host as it is."""

    @pytest.mark.parametrize(
        ("distribution", "words"),
        [
            (("ubuntu", "debian", "22.04"), 'sudo apt-get install "libnccl2=*+cuda12.6*"'),
            (("rocky", "rhel centos fedora", "9.4"), "sudo dnf install libnccl"),
            (("opensuse-leap", "suse opensuse", "15.6"), "sudo zypper install libnccl"),
            (("arch", "", ""), "sudo pacman -S nccl"),
        ],
    )
    def test_by_the_distribution(self, distribution: tuple[str, str, str], words: str) -> None:
        one = frameworks(torch_error="ImportError: libnccl.so.2: cannot open shared object file")
        made = replace(hosts.SYSTEM, distribution=Distribution(*distribution))
        (problem,) = [p for p in found(replace(one, facts=replace(one.facts, system=made))) if p.code == "nccl_missing"]
        assert words in problem.fix
        assert "/opt/env/bin/python -m pip install nvidia-nccl-cu12" in problem.fix
        assert "git clone" in problem.fix
        assert "compute_90" in problem.fix
        assert ("dpkg -i" in problem.fix) == (distribution[0] == "ubuntu")

    def test_for_paddle_with_the_name_that_it_asks_for(self) -> None:
        (problem,) = [p for p in found(frameworks(SYSTEM_NCCL, packages=(PADDLE,))) if p.code == "paddle_no_nccl"]
        assert "libnccl-dev" in problem.fix
        assert "ln -s libnccl.so.2 libnccl.so" in problem.fix

    def test_paddle_with_that_name_is_well(self) -> None:
        library = replace(SYSTEM_NCCL, names=("libnccl.so", "libnccl.so.2"))
        assert [p for p in found(frameworks(library, packages=(PADDLE,))) if p.level != "info"] == []

    def test_none_at_all_where_nothing_brings_one(self) -> None:
        one = exam(installed=Installed())
        bare = replace(one, facts=replace(one.facts, python=PythonFacts("/usr/bin/python3", "3.11.4")))
        assert {problem.code for problem in found(bare)} == {"no_torch", "nccl_missing"}


class TestGpus:
    def test_a_newer_gpu_runs_what_was_left_open_for_it(self) -> None:
        assert found(frameworks(capabilities=("10.0",), built_for=("sm_90", "compute_90"))) == []

    def test_code_for_an_older_one_of_the_same_kind_runs(self) -> None:
        assert found(frameworks(capabilities=("8.9",), built_for=("sm_80",))) == []

    def test_an_old_kernel_needs_the_module(self) -> None:
        old = replace(hosts.SYSTEM, kernel="5.4.0-150-generic", modules=("nvidia",))
        (problem,) = found(facts(system=old, rdma=(ACTIVE,)))
        assert problem.code == "gdr_module"
        assert found(facts(system=replace(old, kernel="6.8.0"), rdma=(ACTIVE,))) == []

    @pytest.mark.parametrize("place", ["PCI:0000:00:07", "PCI:0000:00:07.0", "0000:00:07", "PCI:0000:00:07 GPU-I:05"])
    def test_a_fault_names_the_gpu_and_how_often(self, place: str) -> None:
        line = f"NVRM: Xid ({place}): 94, pid=5, Contained"
        (problem,) = found(kernel(line, line))
        assert problem.message == "GPU 1: Xid 94 (a memory error, contained), 2 times, 10 min ago"

    def test_a_fault_that_nobody_listed_is_told_in_the_driver_s_words(self) -> None:
        (problem,) = found(kernel("NVRM: Xid (PCI:0000:00:06): 154, GPU recovery action changed from 0x0 (None)"))
        assert problem.message == "GPU 0: Xid 154 (GPU recovery action changed from 0x0 (None)), 10 min ago"

    def test_a_switch_s_fault_that_was_mended_is_a_remark(self) -> None:
        (problem,) = found(kernel("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 12028, Non-fatal, Link 32 egress"))
        assert (problem.code, problem.level) == ("sxid", "info")


class TestFirewalls:
    @pytest.mark.parametrize("rules", ["", HARMLESS_NFT])
    def test_what_refuses_only_some_is_none(self, rules: str) -> None:
        assert found(exam(firewall=Firewall((), "nft", rules))) == []

    def test_the_cure_opens_the_network_of_the_nodes(self) -> None:
        (problem,) = found(exam(firewall=Firewall((), "nft", NFT)))
        assert "ip saddr 10.0.0.0/24 accept" in problem.fix


class TestTogether:
    def test_the_odd_one_out_is_told(self) -> None:
        other = replace(
            sound("gpu2").facts, driver="550.54.15", gpus=(Gpu(0, "A100", "GPU-A"), Gpu(1, "A100", "GPU-B"))
        )
        nodes = [sound("gpu1"), replace(sound("gpu2"), facts=other), sound("gpu3")]
        rows = [[problem.message for problem in row] for row in all_problems(nodes)]
        assert rows == [[], ["driver 550.54.15 here, 570.133.20 on gpu1", "GPU A100 here, H100 on gpu1"], []]

    def test_an_mtu_of_its_own(self) -> None:
        jumbo = replace(sound("gpu2"), interface=card("eth0", "10.0.0.2/24", mtu=9000))
        rows = all_problems([sound("gpu1"), jumbo, sound("gpu3")])
        assert [[problem.code for problem in row] for row in rows] == [[], ["mtu_differs"], []]
        assert rows[1][0].message == "eth0 has MTU 9000, 1500 on gpu1"


def test_every_page_says_all_that_is_to_be_said() -> None:
    for kind in KINDS.values():
        assert all((kind.title, kind.symptom, kind.cause, kind.cure)), kind.id


def test_what_a_launch_tells_is_known_to_have_a_page() -> None:
    quick = facts(stale=("RANK",), free_bytes=0, clock_offset=9.0, driver="470.1", gpus=(), visible_gpus=0)
    assert all(KINDS[problem.code].launch for problem in node_problems(quick.node, quick.facts))
