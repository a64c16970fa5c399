"""GPUs: drivers, memory, links, hardware that fails."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight

SIGNATURES = (
    Signature(
        id="gpu-oom",
        title="The GPU's memory is full",
        weight=Weight.CAUSE,
        words=("CUDA out of memory", "torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"),
        sample="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity "
        "of 79.15 GiB",
        cause="The model and batch are too large for it, or another process has a part of it.",
        cure="nvidia-smi   on {host} (who else is on it), then a smaller batch",
        check="`ncclrun launch` tells who else is on each GPU, and locks those that it takes",
        doctor=("gpu_in_use", "leftover"),
    ),
    Signature(
        id="ecc",
        title="A GPU's memory or link is faulty",
        weight=Weight.CAUSE,
        words=("uncorrectable ECC error", "Uncorrectable NVLink error"),
        sample="RuntimeError: CUDA error: uncorrectable ECC error encountered",
        cause="The hardware reports an error that it could not correct.",
        cure="nvidia-smi -q -d ECC,ROW_REMAPPER   on {host}; leave the node out (--nodes '!{host}'), reset the GPU, "
        "have it replaced",
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
        cure="sudo dmesg -T | grep -i xid; nvidia-smi   on {host}; leave the node out and reset or replace the GPU",
        over=("cuda-unknown", "ecc"),
        doctor=("xid", "gpu_lost"),
    ),
    Signature(
        id="cuda-driver-old",
        title="The driver is older than this build of torch or NCCL needs",
        weight=Weight.CAUSE,
        words=("CUDA driver version is insufficient", "NVIDIA driver on your system is too old"),
        sample="RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
        cause="On {host} the driver does not know the CUDA version that the installed package was built for.",
        cure="nvidia-smi --query-gpu=driver_version --format=csv,noheader   on {host}; a newer driver there, or a "
        "torch for an older CUDA everywhere",
        over=("cuda-unknown", "cuda-no-gpu"),
        doctor=("driver_old",),
    ),
    Signature(
        id="driver-mixed",
        title="The driver was updated, and the kernel still runs the old one",
        weight=Weight.CAUSE,
        words=("Driver/library version mismatch",),
        sample="Failed to initialize NVML: Driver/library version mismatch",
        cause="The driver's libraries on {host} are newer than the module in its kernel; no new process gets a GPU.",
        cure="cat /proc/driver/nvidia/version   on {host}; then restart it (sudo reboot), when nobody works there",
        over=("cuda-unknown", "cuda-no-gpu"),
        doctor=("no_driver",),
    ),
    Signature(
        id="fabric-down",
        title="CUDA waits for the fabric of the GPUs",
        weight=Weight.CAUSE,
        words=("system not yet initialized",),
        sample="RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized",
        cause="On machines with NVSwitch nvidia-fabricmanager must run, of exactly the driver's version; on {host} it "
        "does not, or has not ended its work.",
        cure="systemctl status nvidia-fabricmanager; sudo systemctl restart nvidia-fabricmanager   on {host}",
        over=("cuda-unknown", "cuda-no-gpu"),
        doctor=("fabric_manager",),
    ),
    Signature(
        id="cuda-no-gpu",
        title="The process sees no GPU",
        weight=Weight.CAUSE,
        words=(
            "no CUDA-capable device",
            "ProcessGroupNCCL is only supported with GPUs",
            "No CUDA GPUs are available",
            "Found no NVIDIA driver",
        ),
        sample="ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
        cause="A container without --gpus, a driver that is not loaded, an empty CUDA_VISIBLE_DEVICES, or a host "
        "without a GPU.",
        cure="nvidia-smi -L   on {host}, as the job is started there; containers: docker run --gpus all",
        over=("cuda-unknown",),
        doctor=("no_driver", "container_no_gpus", "cuda_unavailable"),
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
        cure="--env NCCL_CUMEM_HOST_ENABLE=0, or a newer driver; see  nvidia-smi topo -p2p r",
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
        cure="enable unified memory (UVM) in the profile of the vGPU, or an NCCL before 2.23;  ls /dev/nvidia-uvm   "
        "on {host}",
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
        cure="ls /dev/nvidia-caps-imex-channels   on {host} (mount it into the container), or --env "
        "NCCL_MNNVL_ENABLE=0",
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
        cure="systemctl status nvidia-fabricmanager   on {host}, restart it; or --env NCCL_NVLS_ENABLE=0",
        over=("cuda-unknown",),
        doctor=("fabric_manager",),
    ),
    Signature(
        id="p2p-disabled",
        title="Linked GPUs may not talk to each other directly",
        weight=Weight.CAUSE,
        words=("P2P is disabled between",),
        pattern=r"P2P is disabled between (?:NVLINK )?connected GPUs",
        sample="gpu1:9:9 [0] graph/paths.cc:340 NCCL WARN P2P is disabled between NVLINK connected GPUs 0 and 1. "
        "This should not be the case given their connectivity",
        cause="A fault of the hardware or the driver.",
        cure="nvidia-smi topo -p2p n   on {host}; reset or replace; NCCL_IGNORE_DISABLED_P2P=1 goes on without",
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
        cure="test with  --env NCCL_P2P_DISABLE=1; then switch the IOMMU off in the BIOS (iommu=pt) or ACS off by "
        "setpci",
        doctor=("pcie_acs",),
    ),
    Signature(
        id="illegal-access",
        title="A kernel on the GPU accessed memory that is not its own",
        weight=Weight.CONSEQUENCE,
        words=("an illegal memory access was encountered", "unspecified launch failure"),
        sample="RuntimeError: CUDA error: an illegal memory access was encountered",
        cause="A fault of the program or a library, told at a later call than its own; seldom direct access between "
        "GPUs.",
        cure="--env CUDA_LAUNCH_BLOCKING=1   shows the call; try once --env NCCL_P2P_DISABLE=1",
    ),
    Signature(
        id="cuda-unknown",
        title="A CUDA call of NCCL's failed",
        weight=Weight.COMPONENT,
        words=("Cuda failure",),
        pattern=r"Cuda failure (?:\d+ )?'(?P<value>[^']+)'",
        sample="gpu1:9:9 [0] NCCL WARN Cuda failure 'invalid device pointer'",
        cause="CUDA says: {value}.",
        cure="look the text up; `nvidia-smi` and  sudo dmesg -T | grep -i xid   on {host} tell whether the GPU is in "
        "order",
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
