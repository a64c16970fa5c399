"""What torch and NCCL say when something else has failed already: often the only lines that are read."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import again, say, there

_FIRST = (say("Look at the end of the log of the rank that ended first: it has the cause."),)
_SEE = (again("--env NCCL_DEBUG=INFO --env NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET", "NCCL then says what failed"),)

SIGNATURES = (
    Signature(
        id="closed-remote",
        title="A peer went away",
        weight=Weight.CONSEQUENCE,
        words=(
            "Connection closed by remote peer",
            "recv from ",
            "Connection closed by peer [",
            "Connection reset by peer",
            "ConnectionResetError",
            "BrokenPipeError",
            "Broken pipe",
            "Socket closed",
        ),
        pattern=r"Connection closed by remote peer(?: (?P<peer>[^\s<]+))?|gloo\S* Connection closed by peer \[|"
        r"recv from (?P<address>\S+) failed ?: (?:Connection re(?:set|fused)|Broken pipe)|"
        r"Call to (?:recv|send|write|read)\w* failed ?: (?:Connection reset|Broken pipe)|"
        r"(?:Error: |errno 104\W+|pair\.cc:\d+\] (?:read|write)\w* \[[^\]]*\]:\d+: )"
        r"(?:\[Errno \d+\] )?(?:Connection reset by peer|Broken pipe|Socket closed)",
        sample="gpu1:9:40 [0] NCCL WARN socketProgress: Connection closed by remote peer gpu2.lab<32926>",
        cause="The other process ended first (its own error, a full memory, a signal): the network did what it should.",
        cure=(say("Look at the end of the log of {peer}: the first error there is the cause."),),
        over=("remote-error", "store-lost", "taking-down", "child-failed"),
        network=True,
    ),
    Signature(
        id="remote-error",
        title="NCCL lost another rank",
        weight=Weight.CONSEQUENCE,
        words=(
            "NCCL communicator was aborted",
            "ncclRemoteError",
            "remote process exited or there was a network error",
        ),
        sample="ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
        "prematurely.",
        cause="A peer died, or the network to it was cut.",
        cure=_FIRST,
        network=True,
    ),
    Signature(
        id="store-lost",
        title="The store of node 0 went away",
        weight=Weight.CONSEQUENCE,
        words=("failed on SocketImpl", "Failed to recv, got 0 bytes", "failed to recv, got 0 bytes"),
        pattern=r"(?:recvValue|sendBytes|recvVector\w*|recvValueWithTimeout) failed on SocketImpl.*"
        r"(?:Broken pipe|got 0 bytes|Connection reset)|[Ff]ailed to recv, got 0 bytes",
        sample="[W1130 12:00:00.1 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=3, addr=[::1]:41000, "
        "remote=[::1]:29500): Broken pipe",
        cause="The launcher of node 0, which holds the store, ended before this one.",
        cure=(say("Look at the end of node 0's log: the first error there is the cause."),),
        network=True,
    ),
    Signature(
        id="taking-down",
        title="torch ends the process because a collective failed",
        weight=Weight.CONSEQUENCE,
        words=("taking the entire process down", "Some NCCL operations have failed or timed out"),
        sample="To avoid data inconsistency, we are taking the entire process down.",
        cause="An earlier line says which collective, and how it failed.",
        cure=_FIRST,
        network=True,
    ),
    Signature(
        id="child-failed",
        title="torchrun reports that a worker ended",
        weight=Weight.CONSEQUENCE,
        words=("ChildFailedError", "failed (exitcode: "),
        pattern=r"ChildFailedError|failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<value>\d+)",
        sample="E1130 12:00:00.1 4711 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1) "
        "local_rank: 0 (pid: 4712) of binary: /opt/env/bin/python",
        cause="The worker's own stderr has the reason. Exit codes: 1 and 2 an exception in Python, -6 an abort, -7 "
        "mostly /dev/shm, -9 killed, -11 a crash, -15 stopped by its launcher.",
        cure=(say("Read the stderr of the rank that torchrun names under Root Cause."),),
    ),
    Signature(
        id="unhandled-system",
        title="NCCL: a system call or a library failed",
        weight=Weight.CONSEQUENCE,
        words=("unhandled system error", "ncclSystemError"),
        sample="RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:911, unhandled system error, NCCL version 2.20.5",
        cause="A socket, shared memory, InfiniBand: these words alone do not tell. NCCL's own warnings do.",
        cure=_SEE,
        network=True,
    ),
    Signature(
        id="unhandled-cuda",
        title="NCCL: a CUDA call failed",
        weight=Weight.CONSEQUENCE,
        words=("unhandled cuda error", "ncclUnhandledCudaError"),
        sample="ncclUnhandledCudaError: Call to CUDA function failed.",
        cause='The line under "Last error" has CUDA\'s own words.',
        cure=_SEE,
    ),
    Signature(
        id="internal-error",
        title="NCCL: an internal check failed",
        weight=Weight.CONSEQUENCE,
        words=("ncclInternalError", "internal error"),
        pattern=r"ncclInternalError|internal error - please report this issue|"
        r"(?i:nccl)\S* (?:Error|error|failure|failed)\b.*internal error",
        sample="ncclInternalError: Internal check failed.",
        cause="In spite of its words often a setting: old versions say so when no interface is found. The line under "
        '"Last error" tells.',
        cure=_SEE,
        network=True,
    ),
    Signature(
        id="invalid-usage",
        title="NCCL: it was called, or set up, in a way that can't be",
        weight=Weight.CONSEQUENCE,
        words=(
            "ncclInvalidUsage",
            "ncclInvalidArgument",
            "invalid usage",
            "invalid argument (run with NCCL_DEBUG=WARN",
        ),
        pattern=r"ncclInvalid(?:Usage|Argument)|invalid (?:usage|argument) \(run with NCCL_DEBUG=WARN|"
        r"(?i:nccl)\S* (?:Error|error|failure|failed)\b.*invalid usage",
        sample="ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
        cause="Two ranks on one GPU, different versions, or (from 2.26) no interface that the settings allow.",
        cure=_SEE,
        network=True,
    ),
    Signature(
        id="proxy-connect",
        title="NCCL's transport could not be set up",
        weight=Weight.COMPONENT,
        words=("Proxy Call to rank", "Failed to execute operation"),
        pattern=r"Proxy Call to rank \d+ failed \(\w+\)|Failed to execute operation (?:Connect|Setup|Init) from rank",
        sample="gpu1:9:40 [0] proxy.cc:808 NCCL WARN Proxy Call to rank 7 failed (Connect)",
        cause="A connection, shared memory or InfiniBand below it failed: the warning before it says which.",
        cure=_SEE,
        network=True,
    ),
    Signature(
        id="uniqueid",
        title="Rank 0 did not give the others NCCL's id",
        weight=Weight.COMPONENT,
        words=("is setting up NCCL", "store->get('"),
        pattern=r"is setting up NCCL communicators? and retri?e?i?v?e?ving ncclUniqueIds? from|"
        r"store->get\('0[^']*'\) got error",
        sample="RuntimeError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
        "key-value store by key '0', but store->get('0') got error: Connection reset by peer",
        cause="Rank 0 died, or NCCL failed there (often: no interface found); or the ranks call different collectives.",
        cure=(say("Look at the end of rank 0's log: the first error there is the cause."),),
        over=("store-lost", "init-timeout-store", "conn-failed"),
        network=True,
    ),
    Signature(
        id="watchdog",
        title="A collective did not end in time",
        weight=Weight.COMPONENT,
        words=(
            "Timeout at NCCL work: ",
            "Watchdog caught collective operation timeout",
        ),
        pattern=r"Timeout at NCCL work: (?P<seq_>\d+)|"
        r"Watchdog caught collective operation timeout: WorkNCCL\((?:SeqNum=(?P<seq>\d+), )?"
        r"OpType=(?P<op>\w+)",
        sample="[rank5]:[E1130 12:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 5] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600060 "
        "milliseconds before timing out.",
        cause="Some rank did not come to collective {seq} ({op}): it crashed, waits for data, or does something "
        "else. One of the first handful points to the network, a late one to the program.",
        cure=(
            say("Look at the rank with the lowest SeqNum, or without such a line: it is the one that did not come."),
            again("--stall 5m", "shows where each rank waits"),
        ),
        network=True,
        waiting=True,
    ),
    Signature(
        id="heartbeat",
        title="A CUDA or NCCL call hangs",
        weight=Weight.COMPONENT,
        words=("watchdog got stuck for", "Heartbeat monitor timed out"),
        sample="[F1130 12:00:00.1 ProcessGroupNCCL.cpp:1169] [PG 0 Rank 1] ProcessGroupNCCL's watchdog got stuck for "
        "600 seconds without making progress in monitoring enqueued collectives.",
        cause="A dead GPU, a lock that is never given back, or the end of a communicator that is stuck.",
        cure=(
            there("sudo dmesg -T | grep -i xid", note="whether the GPU is in order"),
            again("--stall 5m", "shows where each rank waits"),
        ),
        network=True,
        waiting=True,
    ),
    Signature(
        id="init-timeout-store",
        title="A key that another rank should set never came",
        weight=Weight.CONSEQUENCE,
        words=("Socket Timeout", "wait timeout after", "waitForInput"),
        pattern=r"waitForInput: .*timed out after \d+ ?ms|Socket Timeout|wait timeout after \d+ ?ms, keys",
        sample="torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cuda//0",
        cause="Some rank died or hangs before it got there.",
        cure=_FIRST,
        network=True,
    ),
)
