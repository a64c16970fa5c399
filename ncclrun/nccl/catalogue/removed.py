"""Names that NCCL read once."""

from __future__ import annotations

from ncclrun.nccl.catalogue.known import Integer, Known

REMOVED: tuple[Known, ...] = (
    Integer(
        "NCCL_IB_CUDA_SUPPORT",
        "GPUDirect RDMA on or off, in old versions",
        removed=(2, 4, 0),
        instead="NCCL_NET_GDR_LEVEL",
        deprecated="from 2.4.0 on NCCL_NET_GDR_LEVEL says it: LOC for off, SYS for on",
    ),
    Known(
        "NCCL_IB_GDR_LEVEL",
        "old name of NCCL_NET_GDR_LEVEL",
        since=(2, 3, 4),
        removed=(2, 4, 0),
        instead="NCCL_NET_GDR_LEVEL",
        deprecated="NCCL_NET_GDR_LEVEL is its name from 2.4.0 on",
    ),
    Integer(
        "NCCL_SINGLE_RING_THRESHOLD",
        "below so many bytes one ring was used",
        since=(2, 1, 0),
        removed=(2, 3, 0),
        deprecated="NCCL decides by itself from 2.3 on",
    ),
    Integer(
        "NCCL_LL_THRESHOLD",
        "below so many bytes protocol LL was used",
        since=(2, 1, 0),
        removed=(2, 5, 0),
        deprecated="NCCL decides by itself from 2.5 on; NCCL_PROTO limits its choice",
    ),
    Integer(
        "NCCL_TREE_THRESHOLD",
        "below so many bytes trees were used",
        since=(2, 4, 0),
        removed=(2, 5, 0),
        deprecated="NCCL decides by itself from 2.5 on; NCCL_ALGO limits its choice (Ring for no trees)",
    ),
    Known(
        "NCCL_RINGS",
        "the rings, rank by rank, in old versions",
        removed=(2, 16, 2),
        instead="NCCL_GRAPH_FILE",
        deprecated="no version from 2.16 on reads it",
        documented=False,
        source="absent from libnccl 2.16.2 and later",
    ),
    Integer(
        "NCCL_NRINGS",
        "number of rings, in old versions",
        removed=(2, 16, 2),
        instead="NCCL_MIN_CTAS",
        deprecated="no version from 2.16 on reads it",
        documented=False,
        source="absent from libnccl 2.16.2 and later",
    ),
    Integer(
        "NCCL_SHM_USE_CUDA_MEMCPY",
        "shared memory by copies of CUDA's",
        default="0",
        removed=(2, 30, 7),
        deprecated="2.30.7 has it no more",
        documented=False,
        source="strings of libnccl 2.16.2 to 2.30.4",
    ),
    Integer(
        "NCCL_SHM_MEMCPY_MODE",
        "which side of shared memory copies",
        removed=(2, 30, 7),
        deprecated="2.30.7 has it no more",
        documented=False,
        source="strings of libnccl 2.16.2 to 2.30.4",
    ),
    Integer(
        "NCCL_CREATE_THREAD_CONTEXT",
        "a CUDA context for NCCL's threads",
        removed=(2, 30, 7),
        deprecated="2.30.7 has it no more",
        documented=False,
        source="strings of libnccl 2.16.2 to 2.30.4",
    ),
    Integer(
        "NCCL_WORK_FIFO_DEPTH",
        "length of the queue of work",
        removed=(2, 22, 3),
        instead="NCCL_WORK_FIFO_BYTES",
        deprecated="2.22.3 has it no more",
        documented=False,
        source="strings of libnccl 2.16.2 to 2.21.5",
    ),
    Integer(
        "NCCL_AGG_CHANNEL_SIZE",
        "size of a channel when operations are put together",
        removed=(2, 20, 5),
        deprecated="2.20.5 has it no more",
        documented=False,
        source="strings of libnccl 2.16.2 to 2.19.3",
    ),
)
