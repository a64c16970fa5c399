"""NCCL's documented variables of the ways between GPUs, and of memory."""

from __future__ import annotations

from ncclrun.nccl.catalogue.known import Choice, Flag, Integer, Known

P2P_LEVELS = ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS")
GDR_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS")

TRANSPORTS: tuple[Known, ...] = (
    Flag("NCCL_P2P_DISABLE", "GPUs of a host reach each other through host memory only", default="0"),
    Known(
        "NCCL_P2P_LEVEL",
        "how far apart GPUs may be to reach each other directly, LOC (never) to SYS (always)",
        kind="level",
        allowed=P2P_LEVELS,
        exact=True,
        otherwise="NCCL decides by the machine",
        since=(2, 3, 4),
    ),
    Flag("NCCL_P2P_DIRECT_DISABLE", "inside one process, copies through buffers of NCCL's", default="0"),
    Flag(
        "NCCL_SHM_DISABLE",
        "no shared memory (/dev/shm) between the processes of a host: the network is used",
        default="0",
    ),
    Flag("NCCL_NVB_DISABLE", "no NVLink paths through a third GPU", default="0", since=(2, 11, 0)),
    Flag(
        "NCCL_PXN_DISABLE",
        "does without network cards of other GPUs by way of NVLink (PXN)",
        default="0",
        since=(2, 12, 0),
        same="should",
    ),
    Integer(
        "NCCL_P2P_PXN_LEVEL",
        "other GPUs' network cards (PXN) for send and receive: 0 never, 1 where it must, 2 wherever it can",
        allowed=("0", "1", "2"),
        default="2",
        since=(2, 12, 0),
    ),
    Flag(
        "NCCL_PXN_C2C",
        "other GPUs' network cards (PXN) over the link between CPU and GPU",
        default="1",
        otherwise="0 in 2.27",
        since=(2, 27, 0),
    ),
    Known(
        "NCCL_NET_GDR_LEVEL",
        "how far a network card may be from the GPU for GPUDirect RDMA, LOC (never) to SYS (always)",
        kind="level",
        allowed=GDR_LEVELS,
        exact=True,
        otherwise="NCCL decides by the machine",
        since=(2, 4, 0),
    ),
    Flag(
        "NCCL_NET_GDR_READ",
        "GPUDirect RDMA on the sending side too",
        otherwise="1 on machines with NVLink, else 0",
    ),
    Flag(
        "NCCL_NET_GDR_C2C",
        "GPUDirect RDMA over the link between CPU and GPU",
        default="1",
        otherwise="0 in 2.26",
        since=(2, 26, 0),
    ),
    Flag(
        "NCCL_NET_SHARED_BUFFERS",
        "one pool of buffers for send and receive over the network",
        default="1",
        since=(2, 8, 0),
    ),
    Flag("NCCL_NET_SHARED_COMMS", "GPUs that go through one card share its connections", default="1", since=(2, 12, 0)),
    Flag(
        "NCCL_IGNORE_NET_MISMATCH",
        "0 fails when ranks see different numbers of network cards",
        default="1",
        since=(2, 30, 0),
    ),
    Flag(
        "NCCL_IGNORE_COLLNET_MISMATCH",
        "1 goes on when ranks see different numbers of CollNet devices",
        default="0",
        since=(2, 30, 0),
    ),
    Integer(
        "NCCL_NVLS_ENABLE",
        "NVLink SHARP: 0 off, 1 on, 2 where it is supported",
        allowed=("0", "1", "2"),
        default="2",
        since=(2, 17, 0),
        same="should",
    ),
    Integer(
        "NCCL_MNNVL_ENABLE",
        "NVLink across hosts: 0 off, 1 on, 2 where it is supported",
        allowed=("0", "1", "2"),
        default="2",
        since=(2, 21, 0),
        same="should",
    ),
    Integer(
        "NCCL_MNNVL_UUID",
        "NVLink domain, in place of what the fabric manager says",
        otherwise="asked",
        since=(2, 25, 0),
    ),
    Integer(
        "NCCL_MNNVL_CLIQUE_ID",
        "part of the NVLink domain, in place of what the fabric manager says",
        otherwise="asked",
        since=(2, 23, 0),
    ),
    Flag(
        "NCCL_IGNORE_CPU_AFFINITY",
        "threads go to the GPU's CPUs, whatever the job was bound to",
        default="0",
        since=(2, 4, 6),
    ),
    Choice(
        "NCCL_IGNORE_DISABLED_P2P",
        "goes on though GPUs with NVLink say that they can't reach each other: 1 with a warning, 2 without",
        allowed=("0", "1", "2"),
        default="0",
        documented=False,
        source="NCCL source, paths.cc",
    ),
)

MEMORY: tuple[Known, ...] = (
    Integer("NCCL_BUFFSIZE", "buffer between two GPUs, in bytes", low=1, default="4194304", same="should"),
    Choice(
        "NCCL_CUMEM_ENABLE",
        "device memory from the driver's cuMem calls",
        allowed=("0", "1"),
        otherwise="1 where it is supported, from 2.19 on",
        since=(2, 18, 0),
    ),
    Choice(
        "NCCL_CUMEM_HOST_ENABLE",
        "shared host memory from the driver's cuMem calls, in place of /dev/shm",
        allowed=("0", "1"),
        otherwise="1 where it is supported, from 2.24 on",
        since=(2, 23, 0),
    ),
    Flag("NCCL_GRAPH_REGISTER", "registers the buffers of CUDA graphs", default="1", since=(2, 11, 0)),
    Flag("NCCL_LOCAL_REGISTER", "registers the buffers that the program asks for", default="1", since=(2, 19, 0)),
    Flag("NCCL_LEGACY_CUDA_REGISTER", "registers buffers from cudaMalloc too", default="0", since=(2, 24, 0)),
    Flag("NCCL_WIN_ENABLE", "windows: memory that all ranks register together", default="1", since=(2, 27, 0)),
    Flag(
        "NCCL_SET_STACK_SIZE",
        "sets CUDA's stack size at the start, so that memory doesn't grow later",
        default="0",
        since=(2, 9, 0),
    ),
    Flag("NCCL_GRAPH_MIXING_SUPPORT", "CUDA graphs and plain calls side by side", default="1", since=(2, 13, 0)),
    Flag(
        "NCCL_GRAPH_STREAM_ORDERING",
        "keeps captured kernels in the order of their calls",
        default="1",
        since=(2, 30, 5),
    ),
    Integer(
        "NCCL_MEM_SYNC_DOMAIN",
        "CUDA memory domain of NCCL's kernels",
        allowed=("0", "1"),
        default="1",
        since=(2, 16, 0),
    ),
    Flag(
        "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
        "buffers of their own for short messages by network",
        default="0",
        since=(2, 17, 0),
    ),
    Flag(
        "NCCL_LAUNCH_ORDER_IMPLICIT",
        "keeps operations of several communicators in the order of their calls",
        default="0",
        since=(2, 26, 0),
    ),
    Flag("NCCL_MULTI_RANK_GPU_ENABLE", "lets two ranks share a GPU (experimental)", default="0", since=(2, 30, 0)),
)
