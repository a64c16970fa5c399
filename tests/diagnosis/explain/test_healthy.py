"""Logs of runs that went well: whatever words stand in them, nobody is accused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.explain.logs import explained

REAL = Path(__file__).parents[3] / "docs/logs/two-hosts-nccl.log"

NCCL = """
{host}:16:16 [0] NCCL INFO ENV/Plugin: Could not find: libnccl-env.so
{host}:16:16 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to =eth1
{host}:16:16 [0] NCCL INFO Bootstrap: Using eth1:10.77.0.{n}<0>
{host}:16:16 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
{host}:16:16 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so
{host}:16:16 [0] NCCL INFO NET/IB : No device found.
{host}:16:16 [0] NCCL INFO Failed to initialize NET plugin IB
{host}:16:16 [0] NCCL INFO NET/Socket : Using [0]eth1:10.77.0.{n}<0>
{host}:16:16 [0] NCCL INFO Using network Socket
{host}:16:16 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank {n} nranks 2 cudaDev 0 nvmlDev 0 busId 60 - Init START
{host}:16:16 [0] NCCL INFO ncclTopoGetCpuAffinity: Affinity for GPU 0 is empty, ignoring.
{host}:16:16 [0] NCCL INFO Could not find real path of /sys/class/net/eth1/device
{host}:16:16 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank {n} nranks 2 cudaDev 0 nvmlDev 0 busId 60 - Init COMPLETE
{host}:16:16 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 0
256 MiB: 2.902 GB/s busbw
{host}:16:16 [0] NCCL INFO comm 0x1 rank {n} nranks 2 cudaDev 0 busId 60 - Destroy COMPLETE
"""

HEALTHY = {
    "NCCL at INFO on two hosts": (NCCL.format(host="ma", n=1), NCCL.format(host="mb", n=2)),
    "a rank that was refused once, before its peer listened": (
        """
        mb:16:20 [0] NCCL INFO Bootstrap: Using eth1:10.77.0.2<0>
        mb:16:20 [0] NCCL INFO socketPollConnect: connect to 10.77.0.1<40001> returned Connection refused, retrying (1/34) after sleep for 100 msec
        mb:16:16 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 1 nranks 2 - Init START
        mb:16:16 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 1 nranks 2 - Init COMPLETE
        rank 1 done
        """,
    ),
    "warnings of NCCL that are none": (
        """
        ma:9:9 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]
        ma:9:9 [0] NCCL WARN socketFinalizeAccept: wrong magic 1 != 2
        ma:9:9 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'
        ma:9:9 [0] NCCL INFO Connected all trees
        """,
    ),
    "metrics with the word error": (
        """
        step 100 | loss 0.713 | error rate 0.12 | grad error 1e-3
        step 200 | loss 0.512 | error rate 0.08 | timeout fraction 0.0
        validation: word error rate 4.2 %, 0 failed, 0 killed
        """,
    ),
    "names that are looked up in vain while a peer comes up": (
        """
        [W1130 12:00:01 socket.cpp:764] [c10d] The IPv6 network addresses of (pod-0, 29500) cannot be retrieved (gai error: -2 - Name or service not known).
        [W1130 12:00:02 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3
        all ranks joined
        """,
    ),
    "Gloo on one machine without a name": (
        """
        [W1130 12:00:01 ProcessGroupGloo.cpp:524] Warning: Unable to resolve hostname to a (local) address. Using the loopback address as fallback. Manually set the network interface to bind to with GLOO_SOCKET_IFNAME.
        rank 0 sum 6.0
        """,
    ),
    "memory that was full, and a batch that was made smaller": (
        """
        trying batch size 64
        torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
        trying batch size 32
        epoch 1 loss 2.31
        epoch 2 loss 1.97
        """,
    ),
    "a port that TensorBoard found in use": (
        """
        TensorBoard could not bind to port 6006, Address already in use; trying 6007
        Epoch 1: loss=0.9
        """,
    ),
    "a traceback that was logged and survived": (
        """
        WARNING could not read shard 7:
        Traceback (most recent call last):
          File "data.py", line 3, in read
            raise OSError("bad shard")
        OSError: bad shard
        skipped it
        step 11 loss 0.4
        step 12 loss 0.3
        """,
    ),
    "one machine that talks to itself by the loopback": (
        """
        ma:9:9 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>
        ma:9:9 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>
        ma:9:9 [0] NCCL INFO comm 0x5 rank 0 nranks 2 - Init COMPLETE
        """,
    ),
    "torchrun's ordinary warnings": (
        """
        W1130 12:00:00.1 9 torch/distributed/run.py:792] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded
        master_addr is only used for static rdzv_backend and when rdzv_endpoint is not specified.
        [rank0]: step 1, loss 0.5
        """,
    ),
    "a server that says what it does with signals": (
        """
        ignoring SIGHUP and SIGPIPE; got signal: 15 would stop us
        """,
    ),
    "a progress bar and colours": ("\x1b[32mEpoch 3\x1b[0m: 100%|█████| 10/10 [00:01<00:00]\rloss 0.2",),
    "a question about errors as data": (
        """
        {"prompt": "what does a bus look like", "answer": "No route was needed"}
        step 3 loss 1.0
        """,
    ),
    "a real run of two hosts with GPUs": (REAL.read_text(encoding="utf-8").split("\n$ torchrun")[0],),
}  # fmt: skip


@pytest.mark.parametrize("texts", HEALTHY.values(), ids=HEALTHY.keys())
def test_nothing_is_accused(texts: tuple[str, ...]) -> None:
    diagnosis = explained(*texts)
    assert diagnosis.found is None
    assert diagnosis.others == ()
    assert diagnosis.consequences == ()
    assert diagnosis.verdict in ("healthy", "nothing")


def test_there_are_enough_of_them_and_most_are_seen_to_be_healthy() -> None:
    verdicts = [explained(*texts).verdict for texts in HEALTHY.values()]
    assert len(verdicts) >= 10
    assert verdicts.count("healthy") >= 9


def test_what_is_worth_knowing_is_told_without_an_accusation() -> None:
    diagnosis = explained(*HEALTHY["torchrun's ordinary warnings"])
    assert [fault.id for fault in diagnosis.remarks] == ["master-ignored"]


def test_the_same_real_network_accused_when_it_hangs() -> None:
    """Its second half: by hand, without a choice of interface."""
    by_hand = REAL.read_text(encoding="utf-8").split("\n$ torchrun")[1]
    diagnosis = explained(by_hand)
    assert diagnosis.found is not None
    assert diagnosis.found.id == "if-same-address"


@pytest.mark.parametrize(
    "end",
    (
        "RuntimeError: Detected mismatch between collectives on ranks.",
        "[rank1]: lib.sub.StrangeError: no",
        "slurmstepd: error: *** STEP 45.0 ON n7 CANCELLED AT 2024-03-01T10:00:00 ***",
        "[n1:12345] Signal: Segmentation fault (11)",
        "ncclrun: stalled after 19 s, exit code 123",
    ),
)
def test_work_whose_end_speaks_of_an_unknown_error_is_not_called_healthy(end: str) -> None:
    found = explained(f"step 1 loss 2\n{end}\n")
    assert found.verdict == "nothing"
    assert end in found.confidence
    assert explained(f"step 1 loss 2\n{end}\nstep 2 loss 1\n").verdict == "healthy"
    assert explained("step 1 loss 2\nvalidation error: 0.013\nerrors: 0\nexit code 0\n").verdict == "healthy"
