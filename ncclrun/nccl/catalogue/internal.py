"""Variables that NCCL's source reads and its documentation doesn't name: for its developers, and apt to change.

``since`` is the earliest version that can have the name: the one after the newest library without it among those that
were looked into (2.16.2, 2.18.3, 2.19.3, 2.20.5, 2.21.5, 2.22.3, 2.23.4, 2.24.3, 2.25.1, 2.26.2, 2.27.5, 2.28.3,
2.29.7, 2.30.3, 2.30.4, 2.30.7, 2.32.3).
"""

from __future__ import annotations

from functools import partial

from ncclrun.nccl.catalogue.known import Known

_Internal = partial(Known, kind="integer", documented=False, source="NCCL source, 2.30.7")
_Newest = partial(Known, documented=False, source="strings of libnccl 2.32.3", since=(2, 30, 8))
_FAILOVER = "NCCL_IB_RESILIENCY_PORT_FAILOVER"
_RECOVERY = "NCCL_IB_RESILIENCY_PORT_RECOVERY"

_OLD: tuple[Known, ...] = (
    _Internal("NCCL_CHUNK_SIZE", "piece of a collective in bytes", default="0"),
    _Internal("NCCL_COMM_SPLIT_SHARE_RESOURCES", "communicators made by a split share their buffers", since=(2, 17, 0)),
    _Internal("NCCL_GDRCOPY_ENABLE", "copies to the GPU by GDRCopy", default="0"),
    _Internal("NCCL_GDRCOPY_FIFO_ENABLE", "the queue of work by GDRCopy", default="1"),
    _Internal("NCCL_GDRCOPY_FLUSH_ENABLE", "flushes received data by GDRCopy", default="0"),
    _Internal("NCCL_GDRCOPY_SYNC_ENABLE", "flags between CPU and GPU by GDRCopy", default="1"),
    _Internal("NCCL_GDR_FLUSH_DISABLE", "leaves out the flush after GPUDirect RDMA", default="0"),
    _Internal("NCCL_GRAPH_HELPER_DISABLE", "no helper thread for CUDA graphs", default="0"),
    _Internal("NCCL_GROUP_CUDA_STREAM", "one stream for the operations of a group"),
    _Internal("NCCL_IB_MERGE_VFS", "takes virtual functions of a card for one", default="1", since=(2, 17, 0)),
    _Internal("NCCL_IB_PKEY", "index of the partition key", default="0"),
    _Internal("NCCL_IB_USE_INLINE", "control messages inside the work request", default="0"),
    _Internal("NCCL_L1_SHARED_MEMORY_CARVEOUT", "share of L1 for shared memory", default="0"),
    _Internal("NCCL_LL128_BUFFSIZE", "buffer of protocol LL128 in bytes", default="-2"),
    _Internal("NCCL_LL128_NTHREADS", "CUDA threads of protocol LL128", default="-2"),
    _Internal("NCCL_LL_BUFFSIZE", "buffer of protocol LL in bytes", default="-2"),
    _Internal("NCCL_MAX_P2P_NCHANNELS", "most channels of send and receive"),
    _Internal("NCCL_MIN_P2P_NCHANNELS", "fewest channels of send and receive", default="1"),
    _Internal("NCCL_NCHANNELS_PER_NET_PEER", "channels to each peer by network"),
    _Internal("NCCL_NET_DISABLE_INTRA", "no network inside a host", default="0"),
    _Internal("NCCL_NET_FORCE_FLUSH", "always flushes after a receive by network", default="0"),
    _Internal(
        "NCCL_NET_OVERHEAD", "time of a network message that the tuning reckons with", default="-2", since=(2, 17, 0)
    ),
    _Internal("NCCL_NVB_PRECONNECT", "connects paths through a third GPU at the start", default="1"),
    _Internal("NCCL_NVLS_NCHANNELS", "channels of NVLink SHARP", since=(2, 17, 0)),
    _Internal("NCCL_P2P_NVL_CHUNKSIZE", "piece of a send over NVLink in bytes", default="524288"),
    _Internal("NCCL_P2P_PCI_CHUNKSIZE", "piece of a send over PCI in bytes", default="131072"),
    _Internal("NCCL_P2P_READ_ENABLE", "the receiving GPU reads, instead of the sending one writing", default="-2"),
    _Internal("NCCL_P2P_USE_CUDA_MEMCPY", "GPU to GPU by CUDA's copy engines", default="0"),
    _Internal(
        "NCCL_PROGRESS_APPENDOP_FREQ", "how often the proxy thread looks for new work", default="8", since=(2, 17, 0)
    ),
    _Internal("NCCL_PROXY_APPEND_BATCH_SIZE", "operations the proxy thread takes at a time", default="16"),
    _Internal("NCCL_PROXY_DUMP_SIGNAL", "signal on which the proxy thread tells its state", default="-1"),
    _Internal("NCCL_SHM_LOCALITY", "whose memory is used: 1 the sender's, 2 the receiver's", default="2"),
    _Internal("NCCL_THREAD_THRESHOLDS", "sizes at which more threads are used", kind="text"),
    _Internal("NCCL_CONNECT_ROUND_MAX_PEERS", "peers connected at a time", default="128", since=(2, 20, 0)),
    _Internal("NCCL_NVLS_CHUNKSIZE", "piece of NVLink SHARP in bytes", default="131072", since=(2, 21, 0)),
    _Internal("NCCL_NVLSTREE_MAX_CHUNKSIZE", "largest piece of NVLSTree in bytes", default="-2", since=(2, 20, 0)),
    _Internal("NCCL_REPORT_CONNECT_PROGRESS", "tells how far connecting has come", default="0", since=(2, 20, 0)),
    _Internal("NCCL_IB_ROUTABLE_FLID_GID_INDEX", "GID of routable FLIDs", default="1", since=(2, 22, 0)),
    _Internal("NCCL_PAT_ENABLE", "algorithm PAT: 0 off, 1 on, 2 by machine", default="2", since=(2, 23, 0)),
    _Internal(
        "NCCL_UNPACK_DOUBLE_NCHANNELS", "twice the channels for networks that unpack", default="1", since=(2, 22, 0)
    ),
    _Internal("NCCL_WORK_ARGS_BYTES", "size of a kernel's arguments", since=(2, 22, 0)),
    _Internal("NCCL_WORK_FIFO_BYTES", "size of the queue of work in bytes", since=(2, 22, 0)),
    _Internal(
        "NCCL_IB_MQP_RETRY_ALL",
        "tries again whatever failed when a queue pair is set up",
        default="0",
        since=(2, 24, 0),
    ),
    _Internal(
        "NCCL_IB_MQP_RETRY_CNT", "how often setting up a queue pair is tried again", default="34", since=(2, 24, 0)
    ),
    _Internal(
        "NCCL_IB_MQP_RETRY_SLEEP_MSEC",
        "wait before setting up a queue pair is tried again, in ms",
        default="100",
        since=(2, 24, 0),
    ),
    _Internal("NCCL_IB_WARN_RAIL_LOCAL", "warns when a connection leaves its rail", default="0", since=(2, 24, 0)),
    _Internal(
        "NCCL_NET_OPTIONAL_RECV_COMPLETION",
        "receives need no completion where the network allows",
        default="1",
        since=(2, 24, 0),
    ),
    _Internal("NCCL_NET_PLUGIN_REF_COUNT", "counts the users of the network library", default="0", since=(2, 26, 0)),
)
_OF_2_27: tuple[Known, ...] = (
    _Internal(
        "NCCL_COMM_SHRINK_SHARE_RESOURCES", "communicators made by a shrink share their buffers", since=(2, 27, 0)
    ),
    _Internal("NCCL_IB_DATA_DIRECT", "Data Direct of the RDMA device", default="1", since=(2, 27, 0)),
    _Internal("NCCL_LL128_C2C", "protocol LL128 between CPU and GPU", default="1", since=(2, 27, 0)),
    _Internal(
        "NCCL_MNNVL_SCATTER_NETS_ENABLE", "spreads network cards over an NVLink domain", default="1", since=(2, 27, 0)
    ),
    _Internal("NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE", "schedules for the use of NVLink", since=(2, 27, 0)),
    _Internal("NCCL_SYM_KERNEL", "the kernel for symmetric memory", kind="text", since=(2, 27, 0)),
    _Internal("NCCL_WIN_STRIDE", "distance between windows in bytes", default="-1", since=(2, 27, 0)),
)
_OF_2_29: tuple[Known, ...] = (
    _Internal("NCCL_ALLGATHERV_ENABLE", "all-gather of unequal parts", default="1", since=(2, 28, 4)),
    _Internal("NCCL_DISABLE_MEM_MANAGER", "without the memory manager", default="0", since=(2, 28, 4)),
    _Internal(
        "NCCL_ENABLE_VERSION_CHECK", "compares the versions of program and library", default="1", since=(2, 28, 4)
    ),
    _Internal("NCCL_GDAKI_USE_RELIABLE_DB", "doorbells of GPU networking, the safe way", default="0", since=(2, 28, 4)),
    _Internal("NCCL_GIN_ENABLE", "networking that GPUs start by themselves (GIN)", default="1", since=(2, 28, 4)),
    _Internal("NCCL_GIN_ERROR_QUERY_SEC", "seconds between looks for errors of GIN", default="10", since=(2, 28, 4)),
    _Internal("NCCL_GIN_GDAKI_NIC_HANDLER", "who rings a card's doorbell", default="0", since=(2, 28, 4)),
    _Internal("NCCL_GIN_GDAKI_QP_DEPTH", "length of GIN's queue pairs", default="128", since=(2, 28, 4)),
    _Internal("NCCL_GIN_NCONNECTIONS", "connections of GIN", default="-2", since=(2, 28, 4)),
    _Internal("NCCL_GIN_PLUGIN_REF_COUNT", "counts the users of GIN's library", default="0", since=(2, 28, 4)),
    _Internal("NCCL_GIN_PROXY_QUEUE_SIZE", "length of the queue of GIN's proxy", default="-1", since=(2, 28, 4)),
    _Internal("NCCL_GIN_TYPE", "which kind of GIN", default="-1", since=(2, 28, 4)),
    _Internal(
        "NCCL_GIN_NCONTEXTS",
        "contexts of GIN",
        since=(2, 28, 4),
        removed=(2, 30, 3),
        source="strings of libnccl 2.29.7",
    ),
    _Internal(
        "NCCL_GIN_COUNTER_POOL_SIZE",
        "GIN's pool of counters",
        since=(2, 28, 4),
        removed=(2, 30, 3),
        source="strings of libnccl 2.29.7",
    ),
    _Internal(
        "NCCL_GIN_SIGNAL_POOL_SIZE",
        "GIN's pool of signals",
        since=(2, 28, 4),
        removed=(2, 30, 3),
        source="strings of libnccl 2.29.7",
    ),
    _Internal(
        "NCCL_GIN_EXCLUSIVE_CONTEXTS",
        "a context of GIN for each user",
        since=(2, 28, 4),
        removed=(2, 30, 3),
        source="strings of libnccl 2.29.7",
    ),
    _Internal(
        "NCCL_IB_DEVICE_PCI_ORDER", "RDMA devices in the order of their PCI addresses", default="1", since=(2, 28, 4)
    ),
    _Internal("NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS", "posts receives ahead", default="-2", since=(2, 28, 4)),
    _Internal(
        "NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME",
        "how the receiver finds the buffer of a message",
        default="-2",
        since=(2, 28, 4),
    ),
    _Internal(_FAILOVER, "goes on over another port when one fails", default="0", since=(2, 28, 4)),
    _Internal(f"{_FAILOVER}_MAX_ATTEMPTS", "how often a port is given up", default="1", since=(2, 28, 4)),
    _Internal(f"{_FAILOVER}_PROBE_DELAY", "wait before a port is looked at", default="10", since=(2, 28, 4)),
    _Internal("NCCL_MNNVL_RAIL_PER_HOST", "a rail per host inside an NVLink domain", default="0", since=(2, 28, 4)),
    _Internal("NCCL_MULTI_SEGMENT_REGISTER", "registers buffers of several pieces", default="1", since=(2, 28, 4)),
    _Internal("NCCL_NO_CACHE", "variables to be read anew at each use, or ALL", kind="text", since=(2, 28, 4)),
    _Internal("NCCL_NUM_RMA_CTX", "contexts of one-sided operations", since=(2, 28, 4)),
    _Internal("NCCL_NVTX_DISABLE", "no marks for profilers", default="0", since=(2, 28, 0)),
    _Internal("NCCL_P2P_EPOCH_ENABLE", "numbers the sends and receives", default="1", since=(2, 28, 4)),
    _Internal(
        "NCCL_P2P_PER_CHANNEL_NET_BW",
        "GB/s of the network that one channel is reckoned with",
        default="14",
        since=(2, 28, 4),
    ),
    _Internal("NCCL_P2P_SCHEDULE_GROUP_SIZE", "sends and receives scheduled together", since=(2, 28, 4)),
    _Internal("NCCL_PROXY_CPUSET", "CPUs of the proxy thread", kind="text", since=(2, 28, 0)),
    _Internal(
        "NCCL_RMA_PROXY_DUMP_SIGNAL",
        "signal on which the proxy of one-sided operations tells its state",
        default="-1",
        since=(2, 28, 4),
    ),
    _Internal(
        "NCCL_RMA_PROXY_QUEUE_SIZE",
        "length of the queue of the proxy of one-sided operations",
        default="-1",
        since=(2, 28, 4),
    ),
    _Internal("NCCL_SET_CPU_STACK_SIZE", "stack size of NCCL's threads", default="1", since=(2, 28, 0)),
    _Internal("NCCL_SINGLE_PROC_MEM_REG_ENABLE", "registers memory inside one process", default="0", since=(2, 28, 0)),
    _Internal(
        "NCCL_SYM_CE_THRESHOLD", "from so many bytes on the copy engines are used", default="8388608", since=(2, 28, 4)
    ),
    _Internal("NCCL_SYM_NOWIN_ENABLE", "symmetric kernels without windows", default="0", since=(2, 28, 4)),
)
_OF_2_30: tuple[Known, ...] = (
    _Internal("NCCL_DEV_API_JIT", "compiles device code at run time", default="0", since=(2, 30, 5)),
    _Internal("NCCL_ELASTIC_BUFFER_REGISTER", "registers buffers that grow", default="1", since=(2, 30, 0)),
    _Internal(
        "NCCL_GIN_GDAKI_MAX_DEST_RD_ATOMIC", "reads and atomics a peer may have open", default="-2", since=(2, 30, 0)
    ),
    _Internal(
        "NCCL_GIN_GDAKI_MAX_QP_RD_ATOMIC",
        "reads and atomics a queue pair may have open",
        default="-2",
        since=(2, 30, 0),
    ),
    _Internal("NCCL_GIN_IB_TC", "traffic class of GIN", default="-1", since=(2, 30, 5)),
    _Internal("NCCL_IB_QUERY_PORT_SPEED", "asks the port for its speed", default="1", since=(2, 30, 5)),
    _Internal(_RECOVERY, "takes a failed port again when it is back", default="0", since=(2, 30, 0)),
    _Internal(f"{_RECOVERY}_ACK_TIMEOUT", "wait for an answer, in ms", default="5000", since=(2, 30, 0)),
    _Internal(
        f"{_RECOVERY}_ALIVE_MSG_BATCH_INTERVAL", "time between lots of messages, in ms", default="500", since=(2, 30, 0)
    ),
    _Internal(f"{_RECOVERY}_ALIVE_MSG_BATCH_SIZE", "messages of a lot", default="5", since=(2, 30, 0)),
    _Internal(f"{_RECOVERY}_ALIVE_MSG_SEQUENCE_SIZE", "lots of messages", default="5", since=(2, 30, 0)),
    _Internal(f"{_RECOVERY}_ALIVE_MSG_TIMEOUT", "wait for a message, in ms", default="4000", since=(2, 30, 0)),
    _Internal(f"{_RECOVERY}_ATTEMPTS_MAX", "how often a port is tried", default="5", since=(2, 30, 0)),
    _Internal(f"{_RECOVERY}_START_DELAY", "wait before the first try, in ms", default="200", since=(2, 30, 0)),
    _Internal(
        "NCCL_IB_SUBNET_AWARE_ROUTING",
        "joins cards that lie in one subnet",
        allowed=("0", "1"),
        default="0",
        since=(2, 30, 5),
    ),
    _Internal("NCCL_IB_SUBNET_PREFIX_LEN", "bits of an address that make the subnet", default="24", since=(2, 30, 5)),
    _Internal(
        "NCCL_MLOPART_RDMA_ENABLE", "RDMA between parts of a GPU", default="0", since=(2, 30, 5), removed=(2, 32, 3)
    ),
    _Internal("NCCL_MNNVL_CROSS_CLIQUE", "goes across parts of an NVLink domain", default="0", since=(2, 30, 0)),
    _Internal(
        "NCCL_NET_GDR_MLOPART", "GPUDirect RDMA to parts of a GPU", default="0", since=(2, 30, 5), removed=(2, 32, 3)
    ),
    _Internal("NCCL_P2P_MAX_PEERS", "most peers of send and receive", since=(2, 30, 0)),
    _Internal(
        "NCCL_PARAM_DUMP_ALL",
        "lets ncclParamDumpAll show undocumented variables too",
        kind="flag",
        allowed=("0", "1"),
        default="0",
        since=(2, 30, 0),
    ),
    _Internal("NCCL_RMA_DISABLE", "no one-sided operations", default="0", since=(2, 30, 5)),
    _Internal(
        "NCCL_RMA_PLUGIN_REF_COUNT",
        "counts the users of the library for one-sided operations",
        default="0",
        since=(2, 30, 5),
    ),
    _Internal("NCCL_SHADOW_MEMPOOL_MAX_SIZE", "largest shadow pool in bytes", default="1073741824", since=(2, 30, 5)),
    _Internal("NCCL_SYM_REUSE_SYSMEM_HANDLES", "uses handles of host memory again", default="0", since=(2, 30, 4)),
    _Internal("NCCL_TOPO_SPLIT_MLOPART", "shows parts of a GPU in the topology", default="1", since=(2, 30, 5)),
)
_NAMES_OF_2_32 = (
    *("NCCL_RUN_DIAGNOSTICS", "NCCL_RUN_RAS_DIAGNOSTICS", "NCCL_IB_PKEY_VALUE", "NCCL_CE_CHUNK_SIZE"),
    *("NCCL_CE_COLL_AG_MULTICAST_THRESHOLD", "NCCL_CE_INTRA_GPU_MEMCPY_ENABLE", "NCCL_CFT_ENABLE"),
    *("NCCL_DIAGNOSTICS_ECC_THRESHOLD", "NCCL_DIAGNOSTICS_IB_BW_TIMEOUT", "NCCL_ENQUEUE_REARCH_ENABLE"),
    *("NCCL_GDAKI_FORCE_MCST", "NCCL_GDRCOPY_USE_INTERNAL_DMABUF", "NCCL_GIN_GDAKI_LAG_AWARE_DISABLE"),
    *("NCCL_GIN_IB_OOO_OPT", "NCCL_GIN_PROXY_NTHREADS", "NCCL_GIN_PROXY_POLL_BATCH"),
    *("NCCL_HIER_CE_COLL_AG_RAIL_RING_ENABLE", "NCCL_HIER_CE_COLL_NUM_CTX", "NCCL_IB_EVENT_BASED_LB"),
    *("NCCL_IB_EVENT_BASED_LB_REMOTE", "NCCL_IB_RAIL_POLICY", "NCCL_IB_SORT_MERGE_NICS"),
    *("NCCL_IB_VR_RAILS_PER_SOCKET", "NCCL_IB_VR_SOCKET_COUNT", "NCCL_IB_WQE_LATENCY_REPORT"),
    *("NCCL_IB_WQE_LATENCY_THRESHOLD_NS", "NCCL_NUM_RMA_INT_CTX", "NCCL_PAT_NDIMS"),
    *("NCCL_P2P_PER_CHANNEL_REG_NET_BW", "NCCL_PROGRESS_COUNTER_MONITOR_POLL_MS", "NCCL_RMA_EAGER_INIT"),
    *("NCCL_PROGRESS_COUNTER_MONITOR_STALE_MS", "NCCL_PROGRESS_COUNTER_MONITOR_STALE_WARN_SEC"),
    *("NCCL_RMA_IB_WR_BATCHSIZE", "NCCL_RMA_MULTI_CTX_THRESHOLD", "NCCL_PROGRESS_COUNTERS"),
)
_OF_2_32: tuple[Known, ...] = (
    *(_Newest(name, "only its name is known") for name in _NAMES_OF_2_32),
    _Newest("NCCL_SYM_CTAS", "only its name is known", since=(2, 27, 0)),
    _Newest("NCCL_LSA_TEAM_SIZE", "only its name is known", since=(2, 28, 4)),
    _Newest("NCCL_SYM_TMA_ENABLE", "only its name is known", since=(2, 30, 0)),
    _Newest("NCCL_SYM_RS_GIN_CHUNK_SIZE", "only its name is known", since=(2, 30, 5)),
)

INTERNAL: tuple[Known, ...] = (*_OLD, *_OF_2_27, *_OF_2_29, *_OF_2_30, *_OF_2_32)
