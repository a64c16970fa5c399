"""What is wrong with settings is found, and what works is not accused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncclrun.model.settings import Setting, SettingFinding
from ncclrun.nccl.catalogue.names import ALL, KNOWN
from ncclrun.nccl.check.findings import across_findings, setting_findings, together_findings
from ncclrun.nccl.version import NEWEST, Version

VERSIONS: list[Version | None] = [None, (2, 18, 3), (2, 23, 4), (2, 27, 5), (2, 30, 3), NEWEST]
TEXTS = st.text() | st.text("0123456789xKMGae=^,:;*|# \t\r\n'\"$truefalse", max_size=12)


def findings(line: str, version: Version | None = None, *, conf: bool = False) -> tuple[SettingFinding, ...]:
    name, _, value = line.partition("=")
    return setting_findings(Setting(name, value, "here", 3), version, conf=conf)


def only(line: str, version: Version | None = None, *, conf: bool = False) -> SettingFinding:
    (finding,) = findings(line, version, conf=conf)
    return finding


def accused(found: tuple[SettingFinding, ...]) -> list[SettingFinding]:
    return [finding for finding in found if finding.level != "info"]


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


class TestOneSetting:
    @pytest.mark.parametrize(("line", "kind", "fix"), MENDED, ids=[line for line, _, _ in MENDED])
    def test_that_is_wrong_is_told_with_the_line_as_it_should_be(self, line: str, kind: str, fix: str) -> None:
        finding = only(line)
        assert (finding.id, finding.fix) == (kind, fix)
        assert finding.level in ("error", "warning")
        assert accused(findings(fix)) == []

    @pytest.mark.parametrize(("line", "kind"), NOT_MENDED)
    def test_that_nobody_but_its_owner_can_mend_is_told(self, line: str, kind: str) -> None:
        finding = only(line)
        assert (finding.id, finding.fix) == (kind, "")
        assert finding.level in ("error", "warning")

    @pytest.mark.parametrize("line", WORKING)
    def test_that_works_is_not_accused(self, line: str) -> None:
        assert accused(findings(line)) == []

    @pytest.mark.parametrize(("line", "kind"), NOTED)
    def test_that_works_may_be_worth_a_word(self, line: str, kind: str) -> None:
        finding = only(line)
        assert (finding.id, finding.level) == (kind, "info")

    @pytest.mark.parametrize("name", NAMES_OF_OTHERS.split())
    def test_of_a_vendor_or_a_framework_is_not_accused(self, name: str) -> None:
        assert accused(findings(f"{name}=1")) == []

    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("NCCL_SOCKET_INTERFACE", "NCCL_SOCKET_IFNAME"),
            ("GLOO_SOCKET_IFACE", "GLOO_SOCKET_IFNAME"),
            ("TP_SOCKET_INTERFACE", "TP_SOCKET_IFNAME"),
            ("NCCL_IB_RETRY_COUNT", "NCCL_IB_RETRY_CNT"),
            ("NCCL_TOPOLOGY_FILE", "NCCL_TOPO_FILE"),
            ("NCCL_DEBUG_SUBSYSTEM", "NCCL_DEBUG_SUBSYS"),
            ("NCCL_DEGUB", "NCCL_DEBUG"),
        ],
    )
    def test_with_another_word_in_its_name_is_recognised(self, name: str, meant: str) -> None:
        finding = findings(f"{name}=x")[0]
        assert finding.id == "unknown_name"
        assert finding.fix.startswith(f"{meant}=")
        assert finding.sees.startswith({"G": "Gloo ", "T": "TensorPipe ", "N": "NCCL "}[meant[0]])

    def test_keeps_its_place_and_says_what_nccl_reads(self) -> None:
        finding = only("NCCL_IB_DISABLE=true")
        assert (finding.file, finding.line, finding.name, finding.value) == ("here", 3, "NCCL_IB_DISABLE", "true")
        assert finding.level == "error"
        assert "reads 0" in finding.sees
        assert "InfiniBand stays on" in finding.sees

    def test_with_two_mistakes_has_one_line_that_mends_both(self) -> None:
        found = findings("NCCL_IB_DISABLED=yes")
        assert [finding.id for finding in found] == ["unknown_name", "word_for_number"]
        assert {finding.fix for finding in found} == {"NCCL_IB_DISABLE=1"}
        assert only("NCCL_SOCKET_IFNAME=^docker*,^veth*").fix == "NCCL_SOCKET_IFNAME=^docker,veth,lo"

    def test_of_an_unknown_name_is_only_mentioned_where_nothing_is_near(self) -> None:
        assert only("NCCL_NET_DISABLE=1").level == "info"
        assert findings("SOMETHING_ELSE=1") == ()

    def test_that_is_empty_hides_a_file(self) -> None:
        assert (only("NCCL_IB_HCA=").level, only("NCCL_IB_HCA=").id) == ("info", "empty_value")


class TestTheVersion:
    def test_tells_what_came_later(self) -> None:
        assert only("NCCL_RAS_ENABLE=1", (2, 18, 3)).id == "too_new"
        assert findings("NCCL_RAS_ENABLE=1", (2, 27, 5)) == ()

    def test_that_is_not_known_makes_nothing_too_new(self) -> None:
        assert [k.name for k in ALL if any(f.id == "too_new" for f in findings(f"{k.name}=1"))] == []

    def test_decides_whether_a_blank_behind_a_level_counts(self) -> None:
        assert only("NCCL_DEBUG=INFO ", (2, 30, 4)).fix == "NCCL_DEBUG=INFO"
        assert findings("NCCL_DEBUG=INFO ", (2, 30, 7)) == ()

    def test_decides_what_an_unknown_algorithm_does(self) -> None:
        assert "fails" in only("NCCL_ALGO=Rign", (2, 24, 3)).sees
        assert "passes over it" in only("NCCL_ALGO=Rign", (2, 23, 4)).sees

    def test_decides_whether_operations_have_lists_of_their_own(self) -> None:
        assert findings("NCCL_ALGO=ring;allreduce:tree", (2, 24, 3)) == ()
        finding = only("NCCL_ALGO=ring;allreduce:tree", (2, 23, 4))
        assert (finding.level, finding.fix) == ("error", "")
        assert "2.24" in finding.sees

    def test_decides_whether_a_word_is_a_switch(self) -> None:
        assert only("NCCL_SET_THREAD_NAME=true", (2, 30, 3)).id == "word_for_number"
        assert findings("NCCL_SET_THREAD_NAME=true", (2, 30, 7)) == ()

    def test_decides_whether_init_tells_the_interface(self) -> None:
        assert findings("NCCL_DEBUG_SUBSYS=INIT", (2, 22, 3)) == ()
        assert only("NCCL_DEBUG_SUBSYS=INIT", (2, 23, 4)).id == "bootstrap_hidden"
        assert findings("NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP") == findings("NCCL_DEBUG_SUBSYS=ALL") == ()

    def test_decides_whether_there_is_a_newer_name_already(self) -> None:
        assert findings("NCCL_CHECK_POINTERS=1", (2, 27, 5)) == ()
        assert only("NCCL_CHECK_POINTERS=1", (2, 29, 7)).id == "deprecated"

    def test_decides_whether_a_policy_has_a_name(self) -> None:
        assert only("NCCL_CTA_POLICY=EFFICIENCY", (2, 28, 9)).id == "word_for_number"
        assert findings("NCCL_CTA_POLICY=EFFICIENCY", (2, 29, 7)) == ()


class TestInAConfFile:
    @pytest.mark.parametrize(
        "line",
        ["TORCH_NCCL_BLOCKING_WAIT=1", "GLOO_SOCKET_IFNAME=eth0", "NCCL_BLOCKING_WAIT=1", "LD_LIBRARY_PATH=/opt"],
    )
    def test_what_others_read_comes_too_late(self, line: str) -> None:
        assert (only(line, conf=True).level, only(line, conf=True).id) == ("error", "too_late")
        assert accused(findings(line)) == []

    def test_the_name_of_the_file_itself_does_nothing(self) -> None:
        assert only("NCCL_CONF_FILE=/etc/mine", conf=True).id == "no_effect"

    def test_a_name_of_the_build_does_no_harm(self) -> None:
        assert only("NCCL_HOME=/usr", conf=True).level == "info"

    def test_plugins_see_theirs(self) -> None:
        assert findings("OFI_NCCL_PROTOCOL=RDMA", conf=True) == ()


class TestAnySetting:
    @given(st.sampled_from(sorted(KNOWN)) | TEXTS, TEXTS, st.sampled_from(VERSIONS), st.booleans())
    def test_is_judged(self, name: str, value: str, version: Version | None, conf: bool) -> None:
        for finding in setting_findings(Setting(name, value), version, conf=conf):
            assert finding.sees
            assert "\n" not in finding.sees
            assert finding.fix != f"{name}={value}"
            assert finding.level != "info" or finding.fix == ""

    @given(st.sampled_from(sorted(KNOWN)), TEXTS)
    def test_needs_no_second_mending(self, name: str, value: str) -> None:
        for fix in {finding.fix for finding in setting_findings(Setting(name, value), None, conf=False)} - {""}:
            assert [finding.fix for finding in findings(fix) if finding.fix] == []

    @pytest.mark.parametrize("version", VERSIONS)
    def test_that_has_a_default_or_allowed_value_is_not_accused(self, version: Version | None) -> None:
        for known in ALL:
            if known.family or known.removed or (version and known.since and version < known.since):
                continue
            own = [known.default] if known.default is not None else []
            words = () if version and known.name in ("NCCL_DEBUG", "NCCL_CTA_POLICY") else known.allowed
            for value in (*own, *words):
                if known.name != "NCCL_CTA_POLICY" or not version:
                    assert accused(setting_findings(Setting(known.name, value), version, conf=False)) == []


class TestTogether:
    def test_infiniband_that_is_off_needs_no_device(self) -> None:
        found = together_findings([Setting("NCCL_IB_DISABLE", "1"), Setting("NCCL_IB_HCA", "mlx5_0", "f", 2)], None)
        assert [(f.name, f.level, f.line) for f in found] == [("NCCL_IB_HCA", "info", 2)]
        assert together_findings([Setting("NCCL_IB_DISABLE", "true"), Setting("NCCL_IB_HCA", "mlx5_0")], None) == ()

    def test_infiniband_alone_and_none_at_all_fails(self) -> None:
        (finding,) = together_findings([Setting("NCCL_IB_DISABLE", "1"), Setting("NCCL_NET", "IB")], None)
        assert finding.level == "error"

    def test_a_log_file_without_a_level_stays_empty(self) -> None:
        alone = [Setting("NCCL_DEBUG_FILE", "/tmp/%h.%p"), Setting("NCCL_DEBUG_SUBSYS", "NET")]
        assert {f.id for f in together_findings(alone, None)} == {"unused"}
        assert together_findings([*alone, Setting("NCCL_DEBUG", "INFO")], None) == ()

    def test_an_address_of_the_root_is_misread_by_some_versions(self) -> None:
        root = Setting("NCCL_COMM_ID", "10.0.0.1:4000")
        for version, kinds in (((2, 28, 9), []), ((2, 29, 2), ["contradiction"]), ((2, 30, 3), []), (None, [])):
            assert [f.id for f in together_findings([root], version)] == kinds
        assert together_findings([root, Setting("NCCL_SOCKET_IFNAME", "eth0")], (2, 29, 7)) == ()

    def test_a_fixed_gid_leaves_nothing_to_look_for(self) -> None:
        subnet = Setting("NCCL_IB_ADDR_RANGE", "10.0.0.0/8")
        assert [f.id for f in together_findings([subnet, Setting("NCCL_IB_GID_INDEX", "3")], None)] == ["unused"]
        assert together_findings([subnet, Setting("NCCL_IB_GID_INDEX", "-1")], None) == ()

    def test_a_subnet_must_be_of_the_family_that_is_looked_for(self) -> None:
        subnet = Setting("NCCL_IB_ADDR_RANGE", "fd00::/8")
        (finding,) = together_findings([subnet], None)
        assert (finding.level, finding.name) == ("warning", "NCCL_IB_ADDR_RANGE")
        assert together_findings([subnet, Setting("NCCL_IB_ADDR_FAMILY", "AF_INET6")], None) == ()

    def test_too_many_sockets_are_counted(self) -> None:
        threads = Setting("NCCL_SOCKET_NTHREADS", "8")
        (finding,) = together_findings([threads, Setting("NCCL_NSOCKS_PERTHREAD", "16")], None)
        assert "128 sockets" in finding.sees
        assert together_findings([threads, Setting("NCCL_NSOCKS_PERTHREAD", "8")], None) == ()

    def test_a_level_of_what_is_off_says_nothing(self) -> None:
        found = together_findings([Setting("NCCL_P2P_DISABLE", "1"), Setting("NCCL_P2P_LEVEL", "NVL")], None)
        assert [f.name for f in found] == ["NCCL_P2P_LEVEL"]

    def test_bounds_must_not_cross(self) -> None:
        found = together_findings([Setting("NCCL_MIN_CTAS", "16"), Setting("NCCL_MAX_CTAS", "8")], None)
        assert [f.id for f in found] == ["contradiction"]

    def test_old_and_new_name_of_torchs_must_agree(self) -> None:
        new = Setting("TORCH_NCCL_BLOCKING_WAIT", "true")
        assert together_findings([new, Setting("NCCL_BLOCKING_WAIT", "1")], None) == ()
        assert len(together_findings([new, Setting("NCCL_BLOCKING_WAIT", "0")], None)) == 1

    def test_of_a_name_twice_the_first_counts(self) -> None:
        twice = [Setting("NCCL_IB_DISABLE", "0"), Setting("NCCL_IB_DISABLE", "1"), Setting("NCCL_IB_HCA", "mlx5_0")]
        assert together_findings(twice, None) == ()

    @given(st.lists(st.builds(Setting, st.sampled_from(sorted(KNOWN)), TEXTS)))
    def test_any_settings_are_judged(self, settings: list[Setting]) -> None:
        assert {f.name for f in together_findings(settings, None)} <= {s.name for s in settings}


class TestConfFiles:
    def test_what_is_read_after_nccl_or_who_knows_when_is_not_accused(self) -> None:
        for name in ("TORCH_SYMM_MEM_DISABLE_MULTICAST", "NVSHMEM_DISABLE_NVLS", "TORCH_SOMETHING_NEW"):
            levels = [one.level for one in setting_findings(Setting(name, "1"), None, conf=True)]
            assert set(levels) <= {"info"}, name

    def test_what_torch_has_read_before_is_an_error(self) -> None:
        (found,) = setting_findings(Setting("TORCH_NCCL_BLOCKING_WAIT", "1"), None, conf=True)
        assert (found.id, found.level) == ("too_late", "error")


class TestVersions:
    def test_what_nccl_reads_no_more_is_a_warning_only_where_its_version_is_known(self) -> None:
        gone = Setting("NCCL_TREE_THRESHOLD", "0")
        found = setting_findings(gone, (2, 27, 5), conf=True)
        assert [(one.id, one.level) for one in found] == [("removed", "warning")]
        assert [(one.id, one.level) for one in setting_findings(gone, None, conf=True)] == [("removed", "info")]


class TestAcrossNodes:
    def test_what_must_be_the_same_is_an_error_where_it_differs(self) -> None:
        (finding,) = across_findings({"gpu1": {"NCCL_ALGO": "Ring"}, "gpu2": {"NCCL_ALGO": "Ring"}, "gpu3": {}})
        assert (finding.name, finding.level, finding.id) == ("NCCL_ALGO", "error", "differs")
        assert "Ring on gpu1, gpu2; not set on gpu3" in finding.sees

    def test_what_should_be_is_a_warning(self) -> None:
        (finding,) = across_findings({"a": {"NCCL_SOCKET_FAMILY": "AF_INET"}, "b": {"NCCL_SOCKET_FAMILY": "AF_INET6"}})
        assert finding.level == "warning"

    def test_values_count_as_nccl_reads_them(self) -> None:
        assert across_findings({"a": {"NCCL_BUFFSIZE": "0x10"}, "b": {"NCCL_BUFFSIZE": "16 # x"}}) == ()
        assert across_findings({"a": {"NCCL_ALGO": "Ring,Tree"}, "b": {"NCCL_ALGO": "tree,ring"}}) == ()
        assert across_findings({"a": {"NCCL_IB_DISABLE": "0"}, "b": {}}) == ()

    def test_names_of_interfaces_may_differ(self) -> None:
        assert across_findings({"a": {"NCCL_SOCKET_IFNAME": "eth0"}, "b": {"NCCL_SOCKET_IFNAME": "ens1"}}) == ()

    def test_hosts_must_not_have_one_name(self) -> None:
        (finding,) = across_findings({"a": {"NCCL_HOSTID": "x"}, "b": {"NCCL_HOSTID": "x"}})
        assert finding.id == "not_unique"
        assert across_findings({"a": {"NCCL_HOSTID": "x"}, "b": {"NCCL_HOSTID": "y"}}) == ()

    @given(st.dictionaries(st.text(), st.dictionaries(st.sampled_from(sorted(KNOWN)), TEXTS, max_size=3), max_size=3))
    def test_any_nodes_are_compared(self, nodes: dict[str, dict[str, str]]) -> None:
        assert len(across_findings(nodes)) <= sum(map(len, nodes.values()))
