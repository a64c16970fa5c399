"""Each fault is known by its line, in each wording that NCCL, torch and the others have had for it."""

from __future__ import annotations

import re

import pytest

from ncclrun.diagnosis.checks.registry import KINDS
from ncclrun.diagnosis.explain.catalogue import ALL, BY_ID
from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import filled
from tests.diagnosis.explain.logs import explained

WANTED = re.findall(
    r"\S+",
    """
if-none if-net-none if-lo if-docker if-docker-net if-linklocal6 if-linklocal4 if-ignored if-family-garbage no-af
commid-subnet commid-bad commid-229-bug conn-noroute conn-timeout conn-refused-retry conn-stale-file conn-failed
conn-unreach conn-abort closed-remote remote-error same-subnet wrong-type wrong-magic ver-mismatch size-mismatch
root-mismatch root-dup dup-gpu bad-ordinal ib-memlock ib-modqp-inval ib-modqp-unreach ib-err12 ib-err-other ib-mtu
ib-linktype ib-none ib-lib ib-async gdr-off plugin-none net-not-found shm-extend shm-unlink shm-attach dl-shm
numa-cumem not-supported mnnvl nvls p2p-disabled acs topo-sys nofile threads unhandled-system unhandled-cuda
internal-error invalid-usage debug-useless proxy-connect cuda-driver-old cuda-no-gpu cpu-torch nccl-is-available
libnccl-missing nccl-symbol store-timeout store-gai rdzv-conn rdzv-not-host rdzv-timeout store-clients eaddrinuse
env-missing local-rank-arg master-ignored noderank-ignored last-member uniqueid stop-waiting store-lost gloo-loopback
gloo-mesh gloo-ifname watchdog heartbeat taking-down child-failed sigkill sigbus sighup gpu-oom ecc xid cuda-unknown
illegal-access ssh-nocmd ssh-path ssh-auth ssh-conn modmissing nccl-params selinux hang-init init-timeout-store
timeout-generic
""",
)
"""The faults that a first version must know."""

BY_HOST = {"if-same-address", "net-mixed", "ver-differs", "rdzv-not-host"}
"""Known only by what several hosts say."""

WORDINGS = [
    ("sigkill", "RuntimeError: DataLoader worker (pid 5678) is killed by signal: Killed."),
    ("host-oom", "      Reason:       OOMKilled"),
    ("sigkill", "[ERROR] [launch.py:321:sigkill_handler] ['python', 'train.py'] exits with return code = -9"),
    ("sigkill", "mpirun noticed that process rank 1 with PID 0 on node n2 exited on signal 9 (Killed)."),
    ("watchdog", "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, TensorShape=[1], Timeout(ms)=1800000)"),
    ("if-lo", "gpu1:1:1 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>\ngpu1:1:1 [0] NCCL WARN Call to connect timeout"),
    ("if-lo", "gpu1:1:1 [0] NCCL INFO Bootstrap : Using [0]lo:127.0.0.1<0>"),
    ("if-lo", "gpu1:1:1 [0] NCCL INFO NET : Using interface lo:127.0.0.1<0>\ngpu1:1:1 [0] NCCL WARN Call to connect timeout"),
    ("if-docker", "gpu1:1:1 [0] NCCL INFO Bootstrap : Using [0]docker0:172.17.0.1<0>"),
    ("if-docker", "gpu1:1:1 [0] NCCL INFO Bootstrap: Using br-0123456789ab:172.19.0.1<0>"),
    ("if-docker", "gpu1:1:1 [0] NCCL INFO Bootstrap: Using flannel.1:10.244.0.0<0>"),
    ("if-docker-net", "x NCCL INFO socketPollConnect: connect to 172.17.0.1<4000> returned Connection refused, retrying (5/34) after sleep"),
    ("if-linklocal6", "x NCCL INFO NET : Using interface eth1:fe80::1:2ff:fe3:4%eth1<0>\nx NCCL WARN Call to connect timeout"),
    ("if-net-none", "x NCCL WARN NET/IB : No IP interface found"),
    ("commid-subnet", "x NCCL WARN Net : No interface found in the same subnet as remote address 10.9.0.1<1778>"),
    ("conn-noroute", "x NCCL INFO socketPollConnect: connect returned No route to host, retrying (26/34) after sleep for 2600 msec"),
    ("conn-refused-retry", "x NCCL INFO Call to connect returned Connection refused, retrying"),
    ("conn-refused-retry", "x NCCL INFO ncclOsSocketPollConnect: connect returned Connection refused, retrying (3/34)"),
    ("conn-failed", "x NCCL WARN socketPollConnect: Connect to 10.1.0.2<4000> returned 111(Connection refused) errno 115"),
    ("closed-remote", "x NCCL WARN NET/Socket : recv from 10.1.0.2<4000> failed : Connection reset by peer"),
    ("wrong-type", "x NCCL INFO socketFinalizeAccept from 10.1.0.2<4000>: wrong socket type 4 != 3"),
    ("size-mismatch", "x NCCL WARN Message truncated : received 1024 bytes instead of 256"),
    ("dup-gpu", "x NCCL WARN Multiple ranks detected using the same GPU on this node"),
    ("dup-gpu", "x NCCL WARN Multiple Ranks are using the same GPU/Partition"),
    ("ib-memlock", "x NCCL WARN Call to ibv_create_cq failed"),
    ("ib-modqp-inval", "x NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument, on dev mlx5_0:1, curr state INIT"),
    ("ib-modqp-unreach", "x NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1"),
    ("ib-err12", "x NCCL WARN NET/IB: Got completion from peer 10.1.0.2<4000> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=0"),
    ("ib-err-other", "x NCCL WARN NET/IB : Got completion with error 5, opcode 0, len 0, vendor err 249"),
    ("ib-linktype", "x NCCL WARN NET/IB : Remote mlx5_1 device is incompatible with the local [0]mlx5_0:1/IB"),
    ("ib-async", "x NCCL WARN NET/IB : Got async event : GID table changed"),
    ("ib-lib", "x misc/ibvwrap.cc:70 NCCL WARN Failed to load libibverbs.so"),
    ("plugin-none", "x NCCL INFO NET/Plugin: Could not find: libnccl-net.so"),
    ("plugin-none", "x NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2"),
    ("net-not-found", "x NCCL WARN Error: network AWS not found."),
    ("shm-extend", "x include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device"),
    ("shm-extend", "x include/shm.h:48 NCCL WARN Error while creating shared memory segment nccl-shm-recv-1-0 (size 9637888)"),
    ("dl-shm", "RuntimeError: unable to open shared memory object </torch_4711_1> in read-write mode"),
    ("dl-shm", "RuntimeError: unable to write to file </torch_4711_2>"),
    ("numa-cumem", "RuntimeError: peer access is not supported between these two devices"),
    ("not-supported", "x NCCL WARN Cuda failure 801 'operation not supported'"),
    ("nvls", "x transport/nvls.cc:200 NCCL WARN Cuda failure 1 'invalid argument'"),
    ("p2p-disabled", "x NCCL WARN P2P is disabled between connected GPUs 2 and 3."),
    ("threads", "OSError: can't start new thread"),
    ("threads", "bash: fork: retry: Resource temporarily unavailable"),
    ("unhandled-system", "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error."),
    ("unhandled-cuda", "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"),
    ("internal-error", "RuntimeError: NCCL error: internal error - please report this issue to the NCCL developers"),
    ("invalid-usage", "RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)"),
    ("debug-useless", "NCCL_DEBUG='ERROR' torchrun train.py"),
    ("proxy-connect", "x NCCL WARN Failed to execute operation Setup from rank 3, retcode 3"),
    ("cuda-driver-old", "Test CUDA failure common.cu:1045 'CUDA driver version is insufficient for CUDA runtime version'"),
    ("cuda-no-gpu", "RuntimeError: No CUDA GPUs are available"),
    ("cuda-no-gpu", "RuntimeError: Found no NVIDIA driver on your system."),
    ("libnccl-missing", "ImportError: libnccl.so.2: cannot open shared object file: No such file or directory"),
    ("libnccl-missing", "RuntimeError: (PreconditionNotMet) The third-party dynamic library (libnccl.so) that Paddle depends on is not configured correctly."),
    ("store-timeout", "RuntimeError: The client socket has timed out after 900s while trying to connect to (gpu1, 29500)."),
    ("store-gai", "ValueError: host not found: Name or service not known"),
    ("store-gai", "socket.gaierror: [Errno -2] Name or service not known"),
    ("cpu-torch", "AssertionError: Torch not compiled with CUDA enabled"),
    ("gloo-mesh", "RuntimeError: [/x/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:39875: Connection refused"),
    ("closed-remote", "RuntimeError: [/x/third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.1.0.3]:21212"),
    ("fabric-down", "x NCCL WARN Cuda failure 802 'system not yet initialized'"),
    ("ib-gdr-memory", "x NCCL WARN Call to ibv_reg_mr_iova2 failed with error Bad address"),
    ("eaddrinuse", "[W socket.cpp:436] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."),
    ("env-missing", "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_ADDR expected, but not set"),
    ("local-rank-arg", "usage: x\nx.py: error: unrecognized arguments: --local_rank=1"),
    ("uniqueid", "RuntimeError: [1] is setting up NCCL communicators and retreiving ncclUniqueId from [0] via c10d key-value store"),
    ("store-lost", "[W TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=48): Failed to recv, got 0 bytes"),
    ("gloo-ifname", "RuntimeError: Unable to find interface for: bond7"),
    ("heartbeat", "[rank2]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 2] Heartbeat monitor timed out!"),
    ("child-failed", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"),
    ("sigkill", "traceback : Signal 9 (SIGKILL) received by PID 4711"),
    ("host-oom", "[ 100.1] Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB"),
    ("sigbus", "traceback : Signal 7 (SIGBUS) received by PID 4711"),
    ("sighup", "traceback : Signal 1 (SIGHUP) received by PID 4711"),
    ("sighup", "W1130 api.py:1] Received Signals.SIGHUP death signal, shutting down workers"),
    ("gpu-oom", "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20 MiB"),
    ("ecc", "CUDA error: Uncorrectable NVLink error detected during the execution"),
    ("xid", "kernel: NVRM: GPU at PCI:0000:02:00 has fallen off the bus."),
    ("gpu-oom", "x NCCL WARN Cuda failure 2 'out of memory'"),
    ("illegal-access", "CUDA error: unspecified launch failure"),
    ("ssh-nocmd", "gpu2: sh: 1: torchrun: not found"),
    ("ssh-path", "python3: can't open file '/home/ada/train.py': [Errno 2] No such file or directory"),
    ("ssh-auth", "kex_exchange_identification: read: Connection reset by peer"),
    ("ssh-conn", "ssh: Could not resolve hostname gpu9: Name or service not known"),
    ("init-timeout-store", "RuntimeError: Socket Timeout"),
    ("timeout-generic", "x NCCL WARN socketProgressOpt: exceeded retries (20000)"),
]  # fmt: skip


def seen_in(text: str) -> list[str]:
    """The ids of all that is told of a log, the cause first."""
    diagnosis = explained(text)
    first = [diagnosis.found] if diagnosis.found else []
    return [fault.id for fault in (*first, *diagnosis.others, *diagnosis.remarks)]


def test_all_faults_that_are_wanted_are_known() -> None:
    assert len(WANTED) == 109
    assert set(WANTED) <= set(BY_ID)


@pytest.mark.parametrize("signature", ALL, ids=lambda one: one.id)
def test_its_own_line_is_diagnosed_as_it(signature: Signature) -> None:
    if not signature.words and signature.id == "same-subnet":
        assert "no line" in signature.sample
    elif signature.weight is Weight.HARMLESS:
        assert any(word in signature.sample for word in signature.words)
        assert signature.match(signature.sample) is not None
        assert seen_in(signature.sample) == []
    else:
        texts = signature.sample.split("\n") if signature.id in BY_HOST else [signature.sample]
        fault = explained(*texts).found
        if signature.weight is Weight.REMARK:
            assert seen_in(signature.sample) == [signature.id]
            assert fault is None
        else:
            assert fault is not None
            assert fault.id == signature.id


@pytest.mark.parametrize(("name", "line"), WORDINGS, ids=[f"{name}-{at}" for at, (name, _) in enumerate(WORDINGS)])
def test_other_wordings_are_known_too(name: str, line: str) -> None:
    if BY_ID[name].weight is Weight.HARMLESS:
        signature = BY_ID[name]
        assert any(word in line for word in signature.words)
        assert signature.match(line) is not None
        assert seen_in(line) == []
    else:
        assert seen_in(line)[:1] == [name]


@pytest.mark.parametrize("signature", ALL, ids=lambda one: one.id)
def test_its_texts_can_be_filled_and_what_it_explains_is_known(signature: Signature) -> None:
    assert "{" not in filled(signature.cause, {})
    assert set(signature.over) <= set(BY_ID)
    assert set(signature.doctor) <= set(KINDS)
    assert signature.cause.endswith((".", "}", ":", ")"))
    assert signature.cure or signature.weight <= Weight.REMARK


def test_a_cure_names_what_the_line_told() -> None:
    fault = explained(BY_ID["store-timeout"].sample).found
    assert fault is not None
    assert "10.20.0.1:29500" in fault.cause
    assert "sport = :29500" in fault.fix


def test_ids_are_unique_and_fit_to_name_a_page() -> None:
    assert len(BY_ID) == len(ALL)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in BY_ID)


@pytest.mark.parametrize("name", ["conn-noroute", "conn-timeout", "conn-refused-retry", "conn-failed", "if-docker-net"])
def test_a_connection_is_told_with_the_whole_address_and_its_port(name: str) -> None:
    known = BY_ID[name].match(BY_ID[name].sample)
    assert known is not None
    assert re.fullmatch(r"\d+\.\d+\.\d+\.\d+", known["address"])
    assert len(known["port"]) >= 4
