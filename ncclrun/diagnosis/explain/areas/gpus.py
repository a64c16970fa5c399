"""GPUs: drivers, links, hardware that fails."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import again, here, say, there

_WITHOUT = again("--nodes '!'{host}", "without that node")

SIGNATURES = (
    Signature(
        id="ecc",
        title="A GPU's memory or link is faulty",
        weight=Weight.CAUSE,
        words=("uncorrectable ECC error", "Uncorrectable NVLink error"),
        sample="RuntimeError: CUDA error: uncorrectable ECC error encountered",
        cause="The hardware reports an error that it could not correct.",
        cure=(there("nvidia-smi -q -d ECC,ROW_REMAPPER"), _WITHOUT, say("Have the GPU reset or replaced.")),
        over=("cuda-unknown",),
        doctor=("gpu_ecc", "gpu_remap"),
    ),
    Signature(
        id="xid",
        title="The driver reports a fault of a GPU",
        weight=Weight.CAUSE,
        words=("NVRM: Xid", "has fallen off the bus"),
        pattern=r"NVRM: Xid \(PCI:[0-9a-fA-F:.]+\): (?P<code>\d+)|has fallen off the bus",
        sample="[88123.4] NVRM: Xid (PCI:0000:02:00): 79, pid=4711, GPU has fallen off the bus.",
        cause="Xid {code}. 79: off the bus (power, heat, a riser); 48, 63, 64, 94, 95: memory; 74: NVLink; 13, 31, "
        "43: mostly the program itself.",
        cure=(there("sudo dmesg -T | grep -i xid"), there("nvidia-smi", note="which GPUs still answer"), _WITHOUT),
        over=("cuda-unknown", "ecc"),
        doctor=("xid", "gpu_lost"),
    ),
    Signature(
        id="driver-mixed",
        title="The driver was updated, and the kernel still runs the old one",
        weight=Weight.CAUSE,
        words=("Driver/library version mismatch",),
        sample="Failed to initialize NVML: Driver/library version mismatch",
        cause="The driver's libraries on {host} are newer than the module in its kernel; no new process gets a GPU.",
        cure=(
            there("cat /proc/driver/nvidia/version", note="what the kernel runs"),
            there("sudo reboot", note="when nobody works there"),
        ),
        over=("cuda-unknown", "cuda-no-gpu"),
        doctor=("no_driver",),
    ),
    Signature(
        id="fabric-down",
        title="CUDA waits for the fabric of the GPUs",
        weight=Weight.CAUSE,
        words=("system not yet initialized",),
        sample="RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
        cause="On machines with NVSwitch nvidia-fabricmanager must run, of exactly the driver's version; on "
        "{host} it "
        "does not, or has not ended its work.",
        cure=(there("systemctl status nvidia-fabricmanager"), there("sudo systemctl restart nvidia-fabricmanager")),
        over=("cuda-unknown", "cuda-no-gpu"),
        doctor=("fabric_manager",),
    ),
    Signature(
        id="numa-cumem",
        title="GPUs without peer access to each other were taken to have it",
        weight=Weight.CAUSE,
        words=("Cuda failure 217", "peer access is not supported between these two devices"),
        sample="gpu1:9:9 [0] transport/shm.cc:590 NCCL WARN Cuda failure 217 'peer access is not supported between "
        "these two devices'",
        cause="NCCL allocates host memory by the CUDA driver's own way (cuMem), which fails on such GPUs with "
        "drivers before CUDA 13.",
        cure=(
            again("--env NCCL_CUMEM_HOST_ENABLE=0"),
            there("nvidia-smi topo -p2p r", note="which GPUs have peer access"),
        ),
        over=("cuda-unknown",),
    ),
    Signature(
        id="not-supported",
        title="The GPU (mostly a virtual one) lacks what NCCL needs",
        weight=Weight.CAUSE,
        words=("'operation not supported'",),
        pattern=r"Cuda failure (?:801 )?'operation not supported'",
        sample="vm1:9:9 [0] init.cc:416 NCCL WARN Cuda failure 'operation not supported'",
        cause="Memory pools need unified memory, which vGPU profiles switch off. It is neither a firewall nor shared "
        "memory.",
        cure=(
            there("ls -l /dev/nvidia-uvm"),
            say("Enable unified memory (UVM) in the vGPU's profile, or use an NCCL before 2.23."),
        ),
        over=("cuda-unknown",),
    ),
    Signature(
        id="mnnvl",
        title="NVLink between nodes is there and does not work",
        weight=Weight.CAUSE,
        words=("MNNVL (cliqueSize",),
        pattern=r"MNNVL \(cliqueSize \d+\) is available but not working",
        sample="gpu1:9:9 [0] NCCL WARN MNNVL (cliqueSize 8) is available but not working on this system. Check the "
        "IMEX channel configuration (/dev/nvidia-caps-imex-channels).",
        cause="The IMEX channel is not set up, or not handed into the container.",
        cure=(
            there("ls /dev/nvidia-caps-imex-channels", note="also in the container"),
            again("--env NCCL_MNNVL_ENABLE=0", "without it"),
        ),
    ),
    Signature(
        id="nvls",
        title="NVLink SHARP could not be set up",
        weight=Weight.CAUSE,
        words=("Failed to bind NVLink SHARP", "transport/nvls"),
        pattern=r"Failed to bind NVLink SHARP|transport/nvls\.cc.*Cuda failure",
        sample="gpu1:9:9 [0] transport/nvls.cc:160 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of "
        "size 2097152 : CUDA error 401 'the operation cannot be performed in the present state'",
        cause="The fabric manager is not running or not in order, or GPUs are parted by MIG.",
        cure=(there("systemctl status nvidia-fabricmanager"), again("--env NCCL_NVLS_ENABLE=0", "without it")),
        over=("cuda-unknown",),
        doctor=("fabric_manager",),
    ),
    Signature(
        id="p2p-disabled",
        title="Linked GPUs may not talk to each other directly",
        weight=Weight.CAUSE,
        words=("P2P is disabled between",),
        pattern=r"WARN .*P2P is disabled between (?:NVLINK )?connected GPUs",
        sample="gpu1:9:9 [0] graph/paths.cc:340 NCCL WARN P2P is disabled between NVLINK connected GPUs 0 and 1. "
        "This should not be the case given their connectivity",
        cause="A fault of the hardware or the driver.",
        cure=(there("nvidia-smi topo -p2p n"), again("--env NCCL_IGNORE_DISABLED_P2P=1", "goes on without")),
    ),
    Signature(
        id="acs",
        title="PCI access control sends traffic between GPUs by the root complex",
        weight=Weight.CAUSE,
        words=("ACSCtl:",),
        pattern=r"ACSCtl:\s*SrcValid\+",
        sample="\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-",
        cause="With ACS (or an IOMMU that is on) transfers between GPUs hang at full load or give wrong data, and "
        "NCCL prints nothing.",
        cure=(
            again("--env NCCL_P2P_DISABLE=1", "whether it is this"),
            here("ncclrun doctor {cluster}", note="names the bridges, with the command for each"),
        ),
        doctor=("pcie_acs",),
    ),
    Signature(
        id="topo-sys",
        title="NCCL can't place an interface in the machine's topology",
        weight=Weight.HARMLESS,
        words=("Could not find real path of /sys/class/net/",),
        sample="gpu1:9:9 [0] NCCL INFO Could not find real path of /sys/class/net/eth0/device",
        cause="A virtual card, or a container without that part of /sys. It says nothing of a failure.",
    ),
)
