"""Failures as people report them: the decisive lines of real ones, in their order, each with its one cause."""

from __future__ import annotations

import pytest

from tests.diagnosis.explain.logs import explained

REPORTS = [
    (
        "an interface that this host does not have, under the name of an internal error",
        "if-none",
        """
        [rank2]:     work = group.broadcast([tensor], opts)
        [rank2]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2588, internal error - please report this issue to the NCCL developers, NCCL version 2.21.5
        [rank2]: ncclInternalError: Internal check failed.
        [rank2]: Last error:
        [rank2]: Bootstrap : no socket interface found
        """,
    ),
    (
        "the same in a version that goes on with an empty address",
        "if-family-garbage",
        """
        [trainer1]:m7:88:88 [1] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth4
        [trainer1]:m7:88:88 [1] NCCL INFO NCCL_SOCKET_IFNAME set to eth4
        [trainer0|0]:ncclInternalError: Internal check failed.
        [trainer0|0]:Last error:
        [trainer0|0]:ncclSocketInit: connecting to address  with family 31120 is neither AF_INET(2) nor AF_INET6(10)
        """,
    ),
    (
        "a filter that lets the loopback in",
        "if-lo",
        """
        m1:42:43 [0] NCCL INFO comm 0x7e rank 0 nranks 4
        m2:41:46 [0] NCCL INFO NET : Using interface lo:127.0.0.1<0>
        m2:41:46 [0] NCCL INFO NET : Using interface eth0:10.50.4.2<0>
        m2:41:46 [0] NCCL INFO NET : Using interface eth1:fe80::5:6dff:fe7:8%eth1<0>
        m2:41:46 [0] NCCL INFO NET/Socket : 3 interfaces found
        m2:42:49 [1] include/socket.h:361 NCCL WARN Call to connect timeout : Connection refused
        """,
    ),
    (
        "a container's veth on the host",
        "if-linklocal6",
        """
        ip-10-3-0-7:14:67 [0] NCCL INFO Bootstrap : Using [0]ens5:10.3.0.7<0> [1]veth11aa22b:fe80::a:bff:fec:d%veth11aa22b<0>
        ip-10-3-0-7:14:67 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]
        ip-10-3-0-7:14:67 [0] NCCL INFO NET/Socket : Using [0]ens5:10.3.0.7<0> [1]veth11aa22b:fe80::a:bff:fec:d%veth11aa22b<0>
        NCCL version 2.7.8+cuda11.1
        RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:911, unhandled system error, NCCL version 2.7.8
        ncclSystemError: System call (socket, malloc, munmap, etc) failed.
        """,
    ),
    (
        "containers behind docker's bridge",
        "if-docker-net",
        """
        a0a0a0a0a0a0:12:27 [0] misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to 172.17.0.4<30001> failed : Software caused connection abort
        b1b1b1b1b1b1:17:17 [0] misc/socket.cc:237 NCCL WARN Net : No interface found in the same subnet as remote address 203.0.113.7<1778>
        b1b1b1b1b1b1:17:17 [0] bootstrap.cc:39 NCCL WARN NET/Socket : No usable listening interface found
        """,
    ),
    (
        "a container without a network",
        "no-af",
        """
        NCCL failure common.cu:874 'unhandled system error'
        c2c2c2c2c2c2:3:3 [0] misc/ibvwrap.cu:61 WARN Failed to open libibverbs.so[.1]
        c2c2c2c2c2c2:3:3 [0] include/socket.h:311 WARN Socket creation failed : Address family not supported by protocol
        """,
    ),
    (
        "a GID that the fabric does not carry",
        "ib-err12",
        """
        w1:9:98 [0] NCCL INFO NET/IB : Using [0]mlx5_2:1/RoCE ; OOB eth0:10.8.0.1<0>
        w1:9:98 [0] NCCL INFO Using network IB
        w1:9:98 [0] transport/net_ib.cc:839 NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129
        """,
    ),
    (
        "InfiniBand on one side only",
        "wrong-type",
        """
        ma:16:16 [6] NCCL INFO Bootstrap : Using ibs8:10.8.1.1<0>
        mb:85:80 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.
        mb:85:80 [0] NCCL INFO NET/Socket : Using [0]ibs8:10.8.1.2<0> [1]ib0:10.8.1.3<0>
        mb:85:80 [0] NCCL INFO Using network Socket
        ma:16:30 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3
        """,
    ),
    (
        "docker's 64 MB of shared memory",
        "shm-extend",
        """
        d3d3d3d3d3d3:31:35 [0] include/shm.h:28 NCCL WARN Call to posix_fallocate failed: No space left on device
        d3d3d3d3d3d3:31:35 [0] NCCL INFO include/shm.h:41 -> 2
        d3d3d3d3d3d3:31:35 [0] include/shm.h:48 NCCL WARN Error while creating shared memory segment nccl-shm-recv-77-0-1-3 (size 9637888)
        """,
    ),
    (
        "a firewall that lets ping through",
        "conn-noroute",
        """
        m5:23:23 [2] NCCL INFO Bootstrap : Using bond0:10.9.1.3<0>
        m5:24:24 [6] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.9.1.4<50123> returned 113(No route to host) errno 115(Operation now in progress)
        m5:24:24 [6] NCCL INFO misc/socket.cc:570 -> 2
        m5:24:24 [6] NCCL INFO bootstrap.cc:285 -> 2
        [2026-02-02 10:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):
        """,
    ),
    (
        "the default port, twice",
        "eaddrinuse",
        """
        [W socket.cpp:436] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
        torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. The server socket has failed to bind to 0.0.0.0:29500 (errno: 98 - Address already in use).
        ERROR: launcher exits
        """,
    ),
    (
        "a name that DNS does not have yet",
        "store-gai",
        """
        Traceback (most recent call last):
          File "/env/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py", line 156, in _create_tcp_store
            host, port, is_master=is_server, timeout=timedelta(seconds=read_timeout)
        ValueError: host not found: Name or service not known
        """,
    ),
    (
        "Gloo tells its peers 127.0.0.1",
        "gloo-mesh",
        """
        RuntimeError: Gloo connectFullMesh failed with [/build/gloo/transport/tcp/pair.cc:152]
          timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:40404
          (rank=3, size=8, local=[127.0.0.1])
        ray.exceptions.ActorHandleNotFoundError: created in job 01, but the current job is 02
        RuntimeError: Engine core initialization failed
        """,
    ),
    (
        "cuMem between GPUs that have no peer access",
        "numa-cumem",
        """
        [2026-01-09 23:51:24] e4e4e4e4e4e4:7:8 [0] transport/shm.cc:590 NCCL WARN Cuda failure 217 'peer access is not supported between these two devices'
        e4e4e4e4e4e4:7:8 [0] NCCL INFO transport/shm.cc:590 -> 1
        RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)
        """,
    ),
    (
        "a peer that was killed: not the network's fault",
        "closed-remote",
        """
        [rank1]:[E415 21:17:08 ProcessGroupNCCL.cpp:552] [Rank 1] Collective WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) raised the following async exception: NCCL error: remote process exited or there was a network error, NCCL version 2.21.5
        ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
        Last error:
        socketProgress: Connection closed by remote peer m9.internal<32926>
        """,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("_title", "name", "text"), REPORTS, ids=[title for title, _, _ in REPORTS])
def test_the_cause_is_found(_title: str, name: str, text: str) -> None:
    fault = explained(text).found
    assert fault is not None
    assert fault.id == name


def test_a_killed_peer_is_a_consequence_and_the_peer_is_named() -> None:
    diagnosis = explained(REPORTS[-1][2])
    assert diagnosis.verdict == "consequence"
    assert diagnosis.found is not None
    assert "m9.internal" in diagnosis.found.fix


BOTH = """
    {host}:9:9 [0] NCCL INFO Bootstrap: Using eth1:10.77.0.{n}<0>
    {host}:9:9 [0] NCCL INFO NET/Socket : Using [0]eth1:10.77.0.{n}<0> [1]eth0:192.168.5.5<0>
    {host}:9:9 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 nranks 2 - Init START
    {host}:9:9 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 nranks 2 - Init COMPLETE
    {host}:9:15 [0] NCCL INFO socketPollConnect: connect to 192.168.5.5<49625> returned Connection refused, retrying (7/34) after sleep for 700 msec
"""


def test_an_address_that_two_hosts_announce_explains_why_both_are_refused() -> None:
    diagnosis = explained(BOTH.format(host="ma", n=1), BOTH.format(host="mb", n=2))
    assert diagnosis.found is not None
    assert diagnosis.found.id == "if-same-address"
    assert "192.168.5.5 (eth0) is announced by ma, mb" in diagnosis.found.cause
    assert [fault.id for fault in diagnosis.consequences] == ["conn-refused-retry"]
    assert diagnosis.consequences[0].lines == 2
    assert diagnosis.hosts == ("ma", "mb")


def test_a_comment_in_the_value_explains_that_no_interface_is_found() -> None:
    text = """
        ma:9:9 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth1   # the fast one
        ma:9:9 [0] bootstrap.cc:133 NCCL WARN Bootstrap : no socket interface found
    """
    diagnosis = explained(text)
    assert diagnosis.found is not None
    assert diagnosis.found.id == "if-value"
    assert "# the fast one" in diagnosis.found.cause


def test_the_programs_own_error_is_named_where_the_others_only_lost_it() -> None:
    diagnosis = explained(
        """
        [rank1]: Traceback (most recent call last):
        [rank1]:   File "train.py", line 9, in <module>
        [rank1]: KeyError: 'labels'
        """,
        "[rank0]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
        "prematurely.",
    )
    assert diagnosis.found is not None
    assert (diagnosis.verdict, diagnosis.found.id) == ("cause", "program")
    assert "KeyError: 'labels'" in diagnosis.found.cause
    assert (diagnosis.found.ranks, diagnosis.ranks) == ("1", "0-1")
    assert [fault.id for fault in diagnosis.consequences] == ["remote-error"]


def test_what_training_survived_for_long_is_not_what_ended_it() -> None:
    steps = "\n".join(f"step {n} loss 0.{n}" for n in range(30))
    text = f"RuntimeError: CUDA out of memory, halving the batch\n{steps}\nConnection closed by remote peer m2<4000>"
    diagnosis = explained(text)
    assert diagnosis.found is not None
    assert diagnosis.found.id == "closed-remote"
    assert [fault.id for fault in diagnosis.others] == ["gpu-oom"]


def test_the_rank_that_ended_first_is_believed_before_others() -> None:
    from ncclrun.diagnosis.explain.judge import Recorded, judge
    from tests.diagnosis.explain.logs import scan

    logs = [
        scan("CUDA error: invalid device ordinal", "rank0.err", "ma", 0),
        scan("a\nb\nRuntimeError: CUDA out of memory", "rank1.err", "mb", 1),
    ]
    ordinary, known = judge(logs).found, judge(logs, Recorded(rank=1)).found
    assert ordinary is not None
    assert known is not None
    assert (ordinary.id, known.id) == ("bad-ordinal", "gpu-oom")
    assert known.evidence[0].line == 3


def test_nothing_that_is_known_asks_for_more_words() -> None:
    diagnosis = explained("starting\nwaiting for data")
    assert (diagnosis.verdict, diagnosis.found) == ("nothing", None)
    assert any("NCCL_DEBUG=INFO" in line for line in diagnosis.more)
    assert (diagnosis.files, diagnosis.lines) == (1, 2)


def test_a_process_that_was_killed_is_told_as_what_failed_and_the_kernels_own_line_as_the_cause() -> None:
    killed = "  exitcode  : -9 (pid: 9923)"
    late = "[Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE)"
    alone = explained(late, killed)
    assert alone.found is not None
    assert (alone.verdict, alone.found.id, alone.more) == ("component", "sigkill", ())
    assert [fault.id for fault in alone.consequences] == ["watchdog"]
    known = explained(late, killed, "[ 9.1] Out of memory: Killed process 9923 (python) total-vm:1kB")
    assert known.found is not None
    assert (known.verdict, known.found.id) == ("cause", "host-oom")


def test_a_line_that_allows_several_causes_is_not_called_sure() -> None:
    assert explained("ModuleNotFoundError: No module named 'einops'").confidence.startswith("sure")
    bridge = "x NCCL WARN socketStartConnect: Connect to 172.18.0.3<40117> failed : Connection timed out"
    assert explained(bridge).confidence.startswith("likely")


def test_words_about_the_network_are_asked_for_where_that_is_what_failed() -> None:
    failed = explained("x NCCL WARN Connect to 10.1.0.2<4000> failed : Connection timed out")
    assert failed.verdict == "component"
    assert any("NCCL_DEBUG=INFO" in line for line in failed.more)
