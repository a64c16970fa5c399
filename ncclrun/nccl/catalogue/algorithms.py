"""NCCL's documented variables of algorithms, channels and sizes."""

from __future__ import annotations

from ncclrun.nccl.catalogue.known import Choice, Flag, Integer, Known, Words

ALGORITHMS: tuple[Known, ...] = (
    Known(
        "NCCL_ALGO",
        "algorithms that may be used; a ^ in front: all the others. From 2.24 also by operation: ring;allreduce:tree",
        kind="functions",
        allowed=("Tree", "Ring", "CollnetDirect", "CollnetChain", "NVLS", "NVLSTree", "PAT"),
        otherwise="NCCL decides by size and machine",
        since=(2, 5, 0),
        same="must",
    ),
    Known(
        "NCCL_PROTO",
        "protocols that may be used, as in NCCL_ALGO; forcing LL128 where it isn't supported corrupts data",
        kind="functions",
        allowed=("LL", "LL128", "Simple"),
        otherwise="NCCL decides by size and machine",
        since=(2, 5, 0),
        same="must",
    ),
    Integer(
        "NCCL_NTHREADS",
        "CUDA threads of a block",
        allowed=("64", "128", "256", "512"),
        otherwise="512; 256 on old GPUs",
        same="should",
    ),
    Integer("NCCL_MAX_CTAS", "most blocks of a kernel", low=1, high=64, since=(2, 17, 0), same="should"),
    Integer("NCCL_MIN_CTAS", "fewest blocks of a kernel", low=1, high=64, since=(2, 17, 0), same="should"),
    Integer(
        "NCCL_MAX_NCHANNELS",
        "most channels",
        low=1,
        since=(2, 5, 0),
        instead="NCCL_MAX_CTAS",
        deprecated="NCCL_MAX_CTAS is its name from 2.17 on",
        same="should",
    ),
    Integer(
        "NCCL_MIN_NCHANNELS",
        "fewest channels",
        low=1,
        since=(2, 5, 0),
        instead="NCCL_MIN_CTAS",
        deprecated="NCCL_MIN_CTAS is its name from 2.17 on",
        same="should",
    ),
    Integer(
        "NCCL_MAX_NRINGS",
        "old name of NCCL_MAX_NCHANNELS, still read",
        documented=False,
        source="NCCL source, connect.cc",
    ),
    Integer(
        "NCCL_MIN_NRINGS",
        "old name of NCCL_MIN_NCHANNELS, still read",
        documented=False,
        source="NCCL source, connect.cc",
    ),
    Integer(
        "NCCL_CGA_CLUSTER_SIZE", "blocks that are placed together (Hopper and later)", low=0, high=8, since=(2, 16, 0)
    ),
    Words(
        "NCCL_CTA_POLICY",
        "how blocks are spent: DEFAULT, EFFICIENCY or ZERO (0, 1, 2 before 2.29)",
        allowed=("DEFAULT", "EFFICIENCY", "ZERO", "0", "1", "2"),
        separator="|",
        default="DEFAULT",
        since=(2, 27, 0),
    ),
    Choice(
        "NCCL_LAUNCH_MODE",
        "how the kernels of several GPUs of one process start; GROUP is outdated from 2.9 on",
        allowed=("PARALLEL", "GROUP"),
        default="PARALLEL",
        since=(2, 1, 0),
    ),
    Flag(
        "NCCL_COLLNET_ENABLE",
        "collectives computed in the network (SHARP)",
        default="0",
        since=(2, 6, 0),
        same="should",
    ),
    Integer("NCCL_COLLNET_NODE_THRESHOLD", "fewest nodes for that", low=1, default="2", since=(2, 9, 9), same="should"),
    Integer(
        "NCCL_P2P_NET_CHUNKSIZE",
        "piece of a send over the network, in bytes",
        low=1,
        default="131072",
        since=(2, 14, 0),
        same="should",
    ),
    Integer(
        "NCCL_P2P_LL_THRESHOLD",
        "sends up to so many bytes use protocol LL",
        low=0,
        default="16384",
        since=(2, 14, 0),
        same="should",
    ),
    Flag(
        "NCCL_SYM_GIN_KERNELS_ENABLE",
        "kernels that start network transfers by themselves",
        default="1",
        since=(2, 29, 0),
    ),
)
