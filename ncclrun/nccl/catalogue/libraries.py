"""Variables of torch, Gloo and TensorPipe: they are read from the environment, long before NCCL reads its files."""

from __future__ import annotations

from functools import partial

from ncclrun.nccl.catalogue.known import Kind, Known

_Torch = partial(Known, side="torch", conf=False, source="torch 2.13.0")
_Switch = partial(_Torch, kind="boolean")
_Number = partial(_Torch, kind="integer")
_Undocumented = partial(_Torch, documented=False)
_Gloo = partial(Known, side="gloo", conf=False, source="torch 2.13.0")
_TensorPipe = partial(Known, side="tensorpipe", conf=False, source="torch documentation")

_OLD: tuple[tuple[str, Kind], ...] = (
    ("NCCL_ASYNC_ERROR_HANDLING", "integer"),
    ("NCCL_BLOCKING_WAIT", "boolean"),
    ("NCCL_DESYNC_DEBUG", "boolean"),
    ("NCCL_ENABLE_TIMING", "boolean"),
    ("NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "text"),
)
"""Torch's, in spite of their names."""
_RENAMED: tuple[Known, ...] = tuple(
    _Torch(
        name,
        f"old name of TORCH_{name}",
        kind=kind,
        instead=f"TORCH_{name}",
        deprecated=f"TORCH_{name} is its name from torch 2.2 on",
    )
    for name, kind in _OLD
)

TORCH: tuple[Known, ...] = (
    _Number(
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "after an error or a time-out: 0 nothing, 1 abort and end, 2 abort only, 3 end without abort",
        allowed=("0", "1", "2", "3"),
        default="3",
    ),
    _Switch("TORCH_NCCL_BLOCKING_WAIT", "wait() blocks, and raises after the time-out", default="0"),
    _Switch(
        "TORCH_NCCL_ENABLE_MONITORING", "a thread that ends the process when the watchdog itself hangs", default="1"
    ),
    _Number(
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC",
        "how long the watchdog may be silent, in s",
        low=0,
        default="480",
        otherwise="600 in torch 2.2 to 2.4",
    ),
    _Switch("TORCH_NCCL_DUMP_ON_TIMEOUT", "writes the flight recorder after a time-out"),
    _Number("TORCH_NCCL_TRACE_BUFFER_SIZE", "operations that the flight recorder keeps; 0 is off", low=0),
    _Number("TORCH_FR_BUFFER_SIZE", "newer name of TORCH_NCCL_TRACE_BUFFER_SIZE", low=0),
    _Switch("TORCH_NCCL_TRACE_CPP_STACK", "the flight recorder keeps C++ stacks too", default="0"),
    _Switch("TORCH_FR_CPP_STACK", "newer name of TORCH_NCCL_TRACE_CPP_STACK", default="0"),
    _Torch(
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "where the flight recorder is written; the rank is added", writes_files=True
    ),
    _Torch("TORCH_FR_DUMP_TEMP_FILE", "newer name of TORCH_NCCL_DEBUG_INFO_TEMP_FILE", writes_files=True),
    _Torch(
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
        "named pipe that asks for the flight recorder; the rank is added",
        writes_files=True,
    ),
    _Number(
        "TORCH_NCCL_COORD_CHECK_MILSEC",
        "how often other ranks' wish for a dump is looked for, in ms",
        low=0,
        default="1000",
    ),
    _Number("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "how long the end waits for the dump, in ms", low=0),
    _Switch("TORCH_NCCL_DESYNC_DEBUG", "tells which rank fell behind after a time-out", default="0"),
    _Switch("TORCH_NCCL_ENABLE_TIMING", "times each operation", default="0"),
    _Switch("TORCH_NCCL_PROPAGATE_ERROR", "tells other ranks of an error"),
    _Switch("TORCH_NCCL_RETHROW_CUDA_ERRORS", "the watchdog passes errors of CUDA on", default="1"),
    _Switch("TORCH_NCCL_NAN_CHECK", "looks for NaN in what is sent", default="0"),
    _Torch("TORCH_NCCL_AVOID_RECORD_STREAMS", "keeps tensors until an operation ends, instead of marking their stream"),
    _Switch("TORCH_NCCL_HIGH_PRIORITY", "streams of high priority", default="0"),
    _Switch("TORCH_NCCL_CUDA_EVENT_CACHE", "uses CUDA events again"),
    _Number("TORCH_NCCL_RANKS_PER_ROOT", "ranks that report to one root at the start", low=1),
    _Switch("TORCH_NCCL_BCAST_UNIQUEID", "hands NCCL's id out by the store"),
    _Switch("TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN", "C++ stacks at an unclean end", default="1"),
    _Torch("TORCH_NCCL_USE_COMM_NONBLOCKING", "communicators that don't wait while they are made: 0 or 1"),
    _Torch(
        "TORCH_NCCL_NONBLOCKING_TIMEOUT",
        "how long a communicator that doesn't wait (TORCH_NCCL_USE_COMM_NONBLOCKING) may take, in s",
    ),
    _Torch("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "registers the tensors of torch's memory pool with NCCL"),
    _Torch("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "warns that sends wait for each other"),
    _Torch("TORCH_NCCL_EXTRA_DUMP_ON_EXEC", "writes the flight recorder after other exceptions too"),
    _Torch(
        "TORCH_DISTRIBUTED_DEBUG",
        "more checks: OFF, INFO or DETAIL",
        kind="choice",
        allowed=("OFF", "INFO", "DETAIL"),
        default="OFF",
        same="should",
    ),
    _Torch("TORCH_CPP_LOG_LEVEL", "log of torch's C++ parts: INFO, WARNING, ERROR or FATAL", default="WARNING"),
    _Switch("TORCH_GLOO_LAZY_INIT", "Gloo connects when it is needed", default="0"),
    _Torch("TORCH_DIST_INIT_BARRIER", "a barrier at the end of init_process_group"),
    _Torch("TORCH_NCCL_*", "torch's NCCL backend", documented=False),
    _Torch("TORCH_FR_*", "torch's flight recorder", documented=False),
    *_RENAMED,
    _Torch("MASTER_ADDR", "address of rank 0's store", same="must"),
    _Torch("MASTER_PORT", "port of rank 0's store", same="must"),
    *(
        _Torch(name, "a worker's place in the job; torchrun sets it for each")
        for name in ("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "LOCAL_WORLD_SIZE")
    ),
    _Torch("WORLD_SIZE", "workers of the job; torchrun sets it for each", same="must"),
    _Torch("PYTHON_EXEC", "the Python that torchrun starts workers with"),
    _Torch("USE_LIBUV", "which server rank 0's store is", same="should"),
    _Torch("LOGLEVEL", "log of torchrun"),
    _Torch("OMP_NUM_THREADS", "CPU threads of a process; torchrun sets 1 where it is not set"),
    _Torch("TORCHELASTIC_*", "between torchrun and its workers", documented=False),
    _Torch("TORCH_ELASTIC_*", "torchrun", documented=False),
    _Torch(
        "TORCH_SYMM_MEM_*",
        "torch's symmetric memory, which reads it when it is first used: as a rule after NCCL",
        documented=False,
        conf=True,
    ),
    _Torch("TORCH_*", "torch", documented=False),
    _Torch("PET_*", "default of the torchrun flag of that name"),
)

GLOO: tuple[Known, ...] = (
    _Gloo(
        "GLOO_SOCKET_IFNAME",
        "interfaces of Gloo: full names with commas between; no ^, no =",
        kind="names",
        otherwise="the one of the host's name",
        same="may differ",
    ),
    _Gloo("GLOO_DEVICE_TRANSPORT", "TCP, TCP_TLS or UV", default="TCP", same="should"),
    _Gloo("GLOO_DEVICE_TRANSPORT_TCP_TLS_*", "keys of Gloo over TLS"),
    _Gloo("GLOO_*", "Gloo", documented=False),
    _TensorPipe(
        "TP_SOCKET_IFNAME",
        "interface of torch's RPC: its full name",
        kind="names",
        otherwise="the one of the host's name",
        same="may differ",
    ),
)
