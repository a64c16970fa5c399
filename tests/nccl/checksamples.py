"""Settings that are wrong, with the line as it should be, and settings that work."""

from __future__ import annotations

MENDED = [
    ("NCCL_IB_DISABLE=true", "word_for_number", "NCCL_IB_DISABLE=1"),
    ("NCCL_NVLS_ENABLE=on", "word_for_number", "NCCL_NVLS_ENABLE=1"),
    ("NCCL_BUFFSIZE=8M", "number_garbage", "NCCL_BUFFSIZE=8388608"),
    ("NCCL_IB_TC=010", "octal", "NCCL_IB_TC=10"),
    ("NCCL_IB_TC=089", "octal", "NCCL_IB_TC=89"),
    ("NCCL_P2P_DISABLE=2", "out_of_range", "NCCL_P2P_DISABLE=1"),
    ("NCCL_SHM_DISABLE=2", "out_of_range", "NCCL_SHM_DISABLE=1"),
    ("NCCL_BUFFSIZE=4*1024*1024", "number_garbage", "NCCL_BUFFSIZE=4194304"),
    ("NCCL_BUFFSIZE=4_194_304", "number_garbage", "NCCL_BUFFSIZE=4194304"),
    ("NCCL_BUFFSIZE=4,194,304", "number_garbage", "NCCL_BUFFSIZE=4194304"),
    ("NCCL_BUFFSIZE=1<<22", "number_garbage", "NCCL_BUFFSIZE=4194304"),
    ("NCCL_BUFFSIZE=1.5e6", "number_garbage", "NCCL_BUFFSIZE=1500000"),
    ("NCCL_DEBUG=INFO,WARN", "debug_silent", "NCCL_DEBUG=INFO"),
    ("NCCL_DEBUG=ALL", "debug_silent", "NCCL_DEBUG=INFO"),
    ("NCCL_DEBUG=3", "debug_silent", "NCCL_DEBUG=INFO"),
    ("NCCL_DEBUG=ERROR", "debug_silent", "NCCL_DEBUG=WARN"),
    ("NCCL_DEBUG=WARNING", "debug_silent", "NCCL_DEBUG=WARN"),
    ("NCCL_DEBUG=DEBUG", "debug_silent", "NCCL_DEBUG=INFO"),
    ("NCCL_DEBUG=1", "debug_silent", "NCCL_DEBUG=INFO"),
    ("NCCL_DEBUG=INFO # x", "inline_comment", "NCCL_DEBUG=INFO"),
    ("NCCL_DEBUG_SUBSYS=NET,INET,GRAPH", "not_a_choice", "NCCL_DEBUG_SUBSYS=NET,INIT,GRAPH"),
    ("NCCL_ALGO=Tree|Ring", "separator", "NCCL_ALGO=Tree,Ring"),
    ("NCCL_ALGO=Ring, Tree", "separator", "NCCL_ALGO=Ring,Tree"),
    ("NCCL_PROTO=Simpel", "not_a_choice", "NCCL_PROTO=Simple"),
    ("NCCL_SOCKET_FAMILY=ipv4", "not_a_choice", "NCCL_SOCKET_FAMILY=AF_INET"),
    ("NCCL_SOCKET_FAMILY=af_inet6", "not_a_choice", "NCCL_SOCKET_FAMILY=AF_INET6"),
    ("NCCL_P2P_LEVEL=nvl", "not_a_choice", "NCCL_P2P_LEVEL=NVL"),
    ("NCCL_NET=tcp", "not_a_choice", "NCCL_NET=Socket"),
    ("NCCL_SOCKET_IFNAME=eth1  # my card", "inline_comment", "NCCL_SOCKET_IFNAME=eth1"),
    ("NCCL_SOCKET_IFNAME=eth0, eth1", "blank_in_list", "NCCL_SOCKET_IFNAME=eth0,eth1"),
    ("NCCL_SOCKET_IFNAME=eth0 eth1", "blank_in_list", "NCCL_SOCKET_IFNAME=eth0,eth1"),
    ("NCCL_SOCKET_IFNAME=eth0;eth1", "separator", "NCCL_SOCKET_IFNAME=eth0,eth1"),
    ("NCCL_SOCKET_IFNAME=eth*", "wildcard", "NCCL_SOCKET_IFNAME=eth"),
    ("NCCL_SOCKET_IFNAME=^lo,^docker", "sign_inside", "NCCL_SOCKET_IFNAME=^lo,docker"),
    ("NCCL_SOCKET_IFNAME==eth0,=eth1", "sign_inside", "NCCL_SOCKET_IFNAME==eth0,eth1"),
    ("NCCL_SOCKET_IFNAME==^lo", "sign_inside", "NCCL_SOCKET_IFNAME=^=lo"),
    ('NCCL_SOCKET_IFNAME="eth0"', "quotes", "NCCL_SOCKET_IFNAME=eth0"),
    ("NCCL_SOCKET_IFNAME=^docker0", "lo_let_in", "NCCL_SOCKET_IFNAME=^docker0,lo"),
    ("NCCL_SOCKET_IFNAME=eth.*", "wildcard", "NCCL_SOCKET_IFNAME=eth"),
    ("NCCL_SOCKET_IFNAME=eth[01]", "wildcard", "NCCL_SOCKET_IFNAME=eth0,eth1"),
    ("NCCL_IB_HCA=mlx5_[0-3]", "wildcard", "NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_2,mlx5_3"),
    ("NCCL_IB_HCA==mlx5_{0,2}", "wildcard", "NCCL_IB_HCA==mlx5_0,mlx5_2"),
    ("NCCL_SOCKET_IFNAME=['eth0']", "wildcard", "NCCL_SOCKET_IFNAME=eth0"),
    ("NCCL_SOCKET_IFNAME=[eth0,eth1]", "wildcard", "NCCL_SOCKET_IFNAME=eth0,eth1"),
    ("NCCL_SOCKET_IFNAME=\u201ceth0\u201d", "quotes", "NCCL_SOCKET_IFNAME=eth0"),
    ("NCCL_SOCKET_IFNAME=eth0\\", "stray_character", "NCCL_SOCKET_IFNAME=eth0"),
    ("NCCL_IB_HCA=mlx5_0:1;mlx5_1:1", "separator", "NCCL_IB_HCA=mlx5_0:1,mlx5_1:1"),
    ("NCCL_IB_HCA=mlx5_0:1 mlx5_1:1", "separator", "NCCL_IB_HCA=mlx5_0:1,mlx5_1:1"),
    ("NCCL_BUFFSIZE=4Mi", "number_garbage", "NCCL_BUFFSIZE=4194304"),
    ("NCCL_BUFFSIZE=2**22", "number_garbage", "NCCL_BUFFSIZE=4194304"),
    ("NCCL_ALGO=Ring;Tree", "separator", "NCCL_ALGO=Ring,Tree"),
    ("NCCL_ALGO=AllReduce:Tree,AllGather:Ring", "separator", "NCCL_ALGO=AllReduce:Tree;AllGather:Ring"),
    ("NCCL_ALGO=all_reduce:Ring", "not_a_choice", "NCCL_ALGO=allreduce:Ring"),
    ("NCCL_NET_GDR_LEVEL=SYSTEM", "not_a_choice", "NCCL_NET_GDR_LEVEL=SYS"),
    ("NCCL_TOPO_FILE=/etc/topo.xml ", "blank_in_path", "NCCL_TOPO_FILE=/etc/topo.xml"),
    ("GLOO_SOCKET_IFNAME=eth0 eth1", "gloo_filter", "GLOO_SOCKET_IFNAME=eth0,eth1"),
    ("NCCL_SOCKET_IFNAME=!lo", "other_sign", "NCCL_SOCKET_IFNAME=^lo"),
    ("NCCL_SOCKET_IFNAME=eth0# my card", "blank_in_list", "NCCL_SOCKET_IFNAME=eth0"),
    ("NCCL_SOCKET_IFNAME=eth0 // my card", "blank_in_list", "NCCL_SOCKET_IFNAME=eth0"),
    ("NCCL_SOCKET_IFNAME=eth0/eth1", "separator", "NCCL_SOCKET_IFNAME=eth0,eth1"),
    ("NCCL_IB_ADDR_RANGE=10.1.0.0/255.255.0.0", "not_a_subnet", "NCCL_IB_ADDR_RANGE=10.1.0.0/16"),
    ('NCCL_NET="IB"', "quotes", "NCCL_NET=IB"),
    ("NCCL_NET= Socket", "quotes", "NCCL_NET=Socket"),
    ('NCCL_NET_PLUGIN="none"', "quotes", "NCCL_NET_PLUGIN=none"),
    ('GLOO_SOCKET_IFNAME="eth0"', "quotes", "GLOO_SOCKET_IFNAME=eth0"),
    ("GLOO_SOCKET_IFNAME=eth0 # x", "inline_comment", "GLOO_SOCKET_IFNAME=eth0"),
    ("NCCL_IB_HCA=mlx5_0\nmlx5_1", "control_character", "NCCL_IB_HCA=mlx5_0,mlx5_1"),
    ("GLOO_SOCKET_IFNAME==eth0", "gloo_filter", "GLOO_SOCKET_IFNAME=eth0"),
    ("TORCH_NCCL_BLOCKING_WAIT=on", "not_a_choice", "TORCH_NCCL_BLOCKING_WAIT=1"),
    ("TORCH_NCCL_ASYNC_ERROR_HANDLING=true", "word_for_number", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1"),
    ("NCCL_SOKET_IFNAME=eth0", "unknown_name", "NCCL_SOCKET_IFNAME=eth0"),
    ("nccl_debug=INFO", "unknown_name", "NCCL_DEBUG=INFO"),
    ("NCCL_IB_ENABLE=0", "unknown_name", "NCCL_IB_DISABLE=1"),
    ("NCCL_IFNAME=eth0", "unknown_name", "NCCL_SOCKET_IFNAME=eth0"),
    ("NCCL_HEARTBEAT_TIMEOUT_SEC=60", "unknown_name", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=60"),
]
NOT_MENDED = [
    ("GLOO_SOCKET_IFNAME=^lo", "gloo_filter"),
    ("GLOO_SOCKET_IFNAME=10.0.0.1", "not_a_name"),
    ("GLOO_SOCKET_IFNAME=!lo", "gloo_filter"),
    ("GLOO_SOCKET_IFNAME=mlx5_0", "other_device"),
    ("NCCL_IB_HCA=0000:17:00.0", "not_a_name"),
    ("NCCL_IB_HCA=mlx5_0/1", "separator"),
    ("NCCL_IB_HCA=mlx5_0,eth0", "other_device"),
    ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=10m", "number_garbage"),
    ("NCCL_SOCKET_IFNAME=10.0.0.1", "not_a_name"),
    ("NCCL_SOCKET_IFNAME=192.168.0.0/24", "not_a_name"),
    ("NCCL_SOCKET_IFNAME=fd00::1", "not_a_name"),
    ("NCCL_SOCKET_IFNAME=auto", "not_a_name"),
    ("NCCL_IB_HCA=all", "not_a_name"),
    ("NCCL_IB_HCA=/dev/infiniband/uverbs0", "not_a_name"),
    ("NCCL_SOCKET_IFNAME=:eth0", "no_names"),
    ("NCCL_SOCKET_IFNAME=^=", "no_names"),
    ("NCCL_SOCKET_IFNAME=eth?", "wildcard"),
    ("NCCL_BUFFSIZE=4 194 304", "number_garbage"),
    ("NCCL_IB_TIMEOUT=22.5", "number_garbage"),
    ("NCCL_IB_TC=106,105", "number_garbage"),
    ("NCCL_NET=none", "not_a_choice"),
    ("NCCL_NET=IB,Socket", "not_a_choice"),
    ("NCCL_NET_PLUGIN=~/libnccl-net.so", "tilde"),
    ("NCCL_RAS_ADDR=28028", "not_an_address"),
    ("NCCL_COMM_ID=10.0.0.1:99999", "out_of_range"),
    ("NCCL_IB_ADDR_RANGE=10.0.0.0", "not_a_subnet"),
    ("TORCH_NCCL_HEARTBEAT_TIMEOUT=60", "unknown_name"),
    ("NCCL_IB_GID=3", "unknown_name"),
    ("NCCL_NET_GDR=1", "unknown_name"),
    ("NCCL_SOCKET_IFNAME=mlx5_0", "other_device"),
    ("NCCL_IB_HCA=eth0", "other_device"),
    ("NCCL_SOCKET_IFNAME=*", "one_character"),
    ("NCCL_DEBUG_FILE=~/nccl.%h.%p", "tilde"),
    ("NCCL_COMM_ID=10.0.0.1", "not_an_address"),
    ("NCCL_IB_ADDR_RANGE=10.0.0.0/16,10.1.0.0/16", "not_a_subnet"),
    ("NCCL_NTHREADS=16", "out_of_range"),
    ("NCCL_IB_RETRY_CNT=20", "out_of_range"),
    ("NCCL_P2P_LEVEL=NODE", "not_a_choice"),
    ("NCCL_NETDEVS_POLICY=SOME", "not_a_choice"),
]
WORKING = """
NCCL_NET=GPUDirectTCPX_v7
NCCL_NET=AWS Libfabric
NCCL_NET=ib
NCCL_SOCKET_IFNAME=enp0s12
NCCL_SOCKET_IFNAME=^lo,docker
NCCL_SOCKET_IFNAME=^docker,lo
NCCL_SOCKET_IFNAME==eth0
NCCL_SOCKET_IFNAME=bond0.2093
NCCL_SOCKET_IFNAME=eth1
NCCL_GPUDIRECTTCPX_TX_BINDINGS=eth1:8-21,112-125;eth2:8-21,112-125
NCCL_FASTRAK_IFNAME=eth1,eth2
NCCL_DYNAMIC_CHUNK_SIZE=524288
NCCL_PLUGIN_P2P=ucx
NCCL_UCX_TLS=dc,cuda_copy,cuda_ipc
NCCL_IBEXT_DISABLE=1
NCCL_TUNER_CONFIG_PATH=/var/lib/tuner.textproto
OFI_NCCL_PROTOCOL=RDMA
RCCL_MSCCL_ENABLE=0
NCCL_NCHANNELS_PER_PEER=32
NCCL_HOME=/usr
NCCL_VERSION=2.11.4-1
NCCL_TIMEOUT=1800
NCCL_PLUGIN_DISABLE=1
NCCL_MIN_NCHANNELS=0
NCCL_IB_HCA=mlx5_0:1 ,mlx5_1:1
NCCL_BUFFSIZE=4194304 bytes
NCCL_CTA_POLICY=3
NCCL_SOCKET_MAGIC=0xffffffffffffffff
NCCL_IB_HCA=^mlx5_0:1
NCCL_IB_HCA=mlx5
NCCL_IB_HCA=mlx5_bond_1,mlx5_bond_5
NCCL_IB_HCA=rocep1s0f0:1,roceP2p1s0f0:1
NCCL_IB_HCA=rdma0,rdma1
NCCL_ALGO=ring,tree
NCCL_ALGO=ring;allreduce:tree,collnetdirect
NCCL_ALGO=^Tree
NCCL_ALGO=MSCCL,RING,TREE
NCCL_PROTO=simple
NCCL_IB_TIMEOUT=220
NCCL_IB_GID_INDEX=3
NCCL_IB_DISABLE=false
NCCL_DEBUG=info
NCCL_DEBUG=VERSION
NCCL_DEBUG_FILE=/tmp/nccl.log
NCCL_DEBUG_SUBSYS=^net,coll
NCCL_P2P_LEVEL=5
NCCL_NET_GDR_LEVEL=C2C
NCCL_NETDEVS_POLICY=max:1
NCCL_LAUNCH_MODE=group
NCCL_BUFFSIZE=4194304 # 4 MiB
NCCL_MIN_NCHANNELS=112
NCCL_BLOCKING_WAIT=0
NCCL_DEBUG=${NCCL_DEBUG:-WARN}
NCCL_SOCKET_IFNAME=<your interface>
NCCL_COMM_ID=[fd00::1]:4000
NCCL_IB_HCA=
TORCH_NCCL_SOME_NEW_THING=x
TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=600s
GLOO_SOCKET_IFNAME=eth0,eth1
CUDA_VISIBLE_DEVICES=0,1
""".strip().split("\n")


NOTED = [
    ("NCCL_SOCKET_IFNAME=^lo,docker", "exclusion"),
    ("NCCL_SOCKET_IFNAME=lo", "loopback"),
    ("NCCL_SOCKET_IFNAME=eth1,eth10", "prefix"),
    ("NCCL_DEBUG_SUBSYS=INIT,NET", "bootstrap_hidden"),
    ("NCCL_DEBUG_FILE=/tmp/nccl.%h.log", "shared_file"),
    ("NCCL_P2P_LEVEL=4", "old_number"),
    ("NCCL_IB_TIMEOUT=0", "out_of_range"),
    ("NCCL_IB_GID_INDEX=3", "gid_index"),
    ("NCCL_IB_TC=106 # lossless", "number_garbage"),
    ("NCCL_IB_DISABLE=1;", "number_garbage"),
]
NAMES_OF_OTHERS = """
FI_EFA_USE_DEVICE_RDMA OFI_NCCL_NIC_DUP_CONNS NCCL_OFI_TUNER NCCL_GPUDIRECTTCPX_CTRL_DEV NCCL_FASTRAK_USE_LLCM
NCCL_SHIMNET_X NCCL_USE_SNAP NCCL_GIB_X SHARP_COLL_ENABLE_SAT NCCL_SHARP_GROUP_SIZE_THRESH NCCL_PLUGIN_P2P NCCL_UCX_TLS
UCX_NET_DEVICES NCCL_IBEXT_DISABLE NCCL_MSCCL_ENABLE MSCCL_XML_FILES RCCL_MSCCLPP_ENABLE NCCL_NCHANNELS_PER_PEER
NCCL_ACCL_C4 ACCL_IB_GID_INDEX_FIX NCCL_TCCL_X TCCL_X VCCL_X BYTED_TORCH_BYTECCL NCCL_BYTECCL_X NCCL_CTRAN_ENABLE
HOROVOD_NCCL_HOME VLLM_NCCL_SO_PATH SGLANG_NCCL_SO_PATH RAY_NCCL_X OMPI_MCA_btl_tcp_if_include HCCL_SOCKET_IFNAME
CCL_SOCKET_IFNAME FLAGS_nccl_blocking_wait NCCL_HOME NCCL_TESTS_PATH NCCL_LOG_FILE NCCL_LOG_DIR NCCL_RANK NCCL_PORT
NCCL_MASTER_ADDR NCCL_BACKEND NCCL_HOSTFILE NCCL_TIMEOUT NCCL_SHIM_X NCCL_PREFETCH NCCL_C4_ENABLE CUDA_VISIBLE_DEVICES
NCCL_IB_EXT_DISABLE NCCL_ENABLE_DMABUF_SUPPORT NCCL_PLUGIN_PATH NCCL_LIB_SO NVTE_FUSED_ATTN RANK WORLD_SIZE
"""
