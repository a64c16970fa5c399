"""CUDA in the processes: GPUs that they can't see, memory that is full, code that does not fit or goes wrong."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import again, here, say, there

SIGNATURES = (
    Signature(
        id="gpu-oom",
        title="The GPU's memory is full",
        weight=Weight.CAUSE,
        words=(
            "CUDA out of memory",
            "torch.OutOfMemoryError",
            "torch.cuda.OutOfMemoryError",
            "CUDA error: out of memory",
            "OOM when allocating tensor",
            "CUDA_ERROR_OUT_OF_MEMORY",
            "Out of memory error on GPU",
            "Out of memory while trying to allocate",
            "No available memory for the cache blocks",
            "is less than desired GPU memory utilization",
            "'out of memory'",
        ),
        pattern=r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|CUDA error: out of memory|"
        r"OOM when allocating tensor|CUDA_ERROR_OUT_OF_MEMORY|Out of memory error on GPU|"
        r"RESOURCE_EXHAUSTED: Out of memory|No available memory for the cache blocks|"
        r"is less than desired GPU memory utilization|Cuda failure (?:2 )?'out of memory'",
        sample="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity "
        "of 79.15 GiB",
        cause="The model and batch are too large for it, or another process has a part of it.",
        cure=(
            there("nvidia-smi", note="who else is on it"),
            say("If nobody is: a smaller batch, or the model on more GPUs."),
        ),
        check="`ncclrun launch` tells who else is on each GPU, and locks those that it takes",
        over=("cuda-unknown", "cublas", "process-ended"),
        doctor=("gpu_in_use", "leftover"),
    ),
    Signature(
        id="cuda-driver-old",
        title="The driver is older than this build of torch or NCCL needs",
        weight=Weight.CAUSE,
        words=(
            "CUDA driver version is insufficient",
            "NVIDIA driver on your system is too old",
            "unsatisfied condition: cuda",
            "forward compatibility was attempted on non supported HW",
        ),
        pattern=r"CUDA driver version is insufficient|NVIDIA driver on your system is too old|"
        r"unsatisfied condition: cuda *>?=|forward compatibility was attempted",
        sample="RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
        cause="On {host} the driver does not know the CUDA version that the installed package was built for.",
        cure=(
            there("nvidia-smi --query-gpu=driver_version --format=csv,noheader"),
            say("A newer driver there, or a torch for an older CUDA on all hosts."),
        ),
        over=("cuda-unknown", "cuda-no-gpu"),
        doctor=("driver_old",),
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
            "CUDA unknown error",
            "Failed to infer device type",
            "No supported gpu backend found",
            "Could not find any nv files on this host",
            "NVIDIA-SMI has failed",
            "NVML: Driver Not Loaded",
            "libcuda.so.1: cannot open",
            "libnvidia-ml.so.1: cannot open",
        ),
        sample="ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
        cause="A container without --gpus, a driver that is not loaded, an empty CUDA_VISIBLE_DEVICES, or a host "
        "without a GPU.",
        cure=(
            there(
                "nvidia-smi -L", note="in the container, where the job runs in one; none there: docker run --gpus all"
            ),
            here("ncclrun doctor {cluster}", note="driver, devices and CUDA_VISIBLE_DEVICES of each host"),
        ),
        over=("cuda-unknown",),
        doctor=("no_driver", "container_no_gpus", "cuda_unavailable"),
        likely=True,
    ),
    Signature(
        id="gpu-busy",
        title="The GPU takes no further process",
        weight=Weight.CAUSE,
        words=("CUDA-capable device(s) is/are busy or unavailable", "devices are busy or unavailable"),
        sample="RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        cause="Its compute mode is exclusive and another process has it (two workers on one GPU, a job before "
        "that still lives), or it has just failed.",
        cure=(
            there(
                "nvidia-smi --query-gpu=index,compute_mode --format=csv && nvidia-smi",
                note="the mode, and who is on it",
            ),
            here("ncclrun status --cluster {cluster}", note="what still lives where"),
        ),
        over=("cuda-unknown",),
        doctor=("compute_mode", "gpu_in_use", "leftover"),
        likely=True,
    ),
    Signature(
        id="no-kernel",
        title="This build of torch, or of an extension, knows no code for the GPU",
        weight=Weight.CAUSE,
        words=(
            "no kernel image is available",
            "CUDA error: invalid device function",
            "is not compatible with the current PyTorch installation",
        ),
        sample="RuntimeError: CUDA error: no kernel image is available for execution on the device",
        cause="The GPU of {host} is newer, or older, than the architectures that the package was built for; "
        "mixed GPUs show it on one host only.",
        cure=(
            there(
                "nvidia-smi --query-gpu=name,compute_cap --format=csv && python3 -c 'import torch; "
                "print(torch.version.cuda, torch.cuda.get_arch_list())'",
                note="compute_cap is to be among the sm_ numbers",
            ),
            say(
                "Install the torch for a newer CUDA on all hosts, and build extensions anew with TORCH_CUDA_ARCH_LIST."
            ),
        ),
        over=("cuda-unknown", "process-ended"),
        doctor=("torch_arch",),
    ),
    Signature(
        id="device-assert",
        title="An index or a label is out of its range",
        weight=Weight.COMPONENT,
        words=("device-side assert triggered",),
        sample="RuntimeError: CUDA error: device-side assert triggered",
        cause="A kernel's own check failed, mostly a token id beyond the embedding or a label beyond the "
        "classes. It is the program or its data; everything on that GPU fails afterwards.",
        cure=(
            again("--env CUDA_LAUNCH_BLOCKING=1", "shows the call"),
            say("The line with `Assertion` above it names the check."),
        ),
        over=("cuda-unknown", "program", "illegal-access"),
    ),
    Signature(
        id="cublas",
        title="cuBLAS or cuDNN could not be set up on the GPU",
        weight=Weight.COMPONENT,
        words=(
            "Blas GEMM launch failed",
            "DNN library initialization failed",
            "CUBLAS_STATUS_ALLOC_FAILED",
            "CUBLAS_STATUS_NOT_INITIALIZED",
            "CUDNN_STATUS_NOT_INITIALIZED",
            "CUDNN_STATUS_ALLOC_FAILED",
        ),
        sample="RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        cause="Mostly the GPU's memory is full; else an index out of range came before it, or the library does "
        "not fit to the driver.",
        cure=(
            there("nvidia-smi", note="how much memory is left, and who has it"),
            again("--env CUDA_LAUNCH_BLOCKING=1", "shows the call that failed first"),
        ),
        doctor=("gpu_in_use", "driver_old"),
    ),
    Signature(
        id="illegal-access",
        title="A kernel on the GPU accessed memory that is not its own",
        weight=Weight.CONSEQUENCE,
        words=("an illegal memory access was encountered", "unspecified launch failure"),
        sample="RuntimeError: CUDA error: an illegal memory access was encountered",
        cause="A fault of the program or a library, told at a later call than its own; seldom direct access between "
        "GPUs.",
        cure=(
            again("--env CUDA_LAUNCH_BLOCKING=1", "shows the call"),
            again("--env NCCL_P2P_DISABLE=1", "whether it is access between GPUs"),
        ),
    ),
    Signature(
        id="cuda-unknown",
        title="A CUDA call of NCCL's failed",
        weight=Weight.COMPONENT,
        words=("Cuda failure",),
        pattern=r"Cuda failure (?:\d+ )?'(?P<value>[^']+)'",
        sample="gpu1:9:9 [0] NCCL WARN Cuda failure 'invalid device pointer'",
        cause="CUDA says: {value}.",
        cure=(there("nvidia-smi"), there("sudo dmesg -T | grep -i xid", note="whether the GPU is in order")),
    ),
    Signature(
        id="cuda-fork",
        title="CUDA was used before the processes were forked",
        weight=Weight.CAUSE,
        words=(
            "create new processes if CUDA is already initialized",
            "Cannot re-initialize CUDA in forked subprocess",
            "'initialization error'",
            "CUDA error: initialization error",
        ),
        sample="RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
        "you must use the 'spawn' start method",
        cause="A process that has used CUDA can't hand it on to children that fork makes of it.",
        cure=(
            say(
                "torch.multiprocessing.set_start_method('spawn') first in the script, or no CUDA before the "
                "workers start."
            ),
        ),
        over=("cuda-unknown",),
    ),
)
