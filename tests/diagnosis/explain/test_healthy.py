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
    "a store that is gone when all is done": (
        """
        [rank0]: step 100 loss 0.2
        [rank0]: Training done.
        [rank1]: Training done.
        [rank1]:[W202 04:05:06.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=4, addr=[::1]:41000, remote=[::1]:29500): Failed to recv, got 0 bytes
        [rank1]:[W202 04:05:06.1 ProcessGroupNCCL.cpp:1662] [PG ID 0 PG GUID 0(default_pg) Rank 1] Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: Failed to recv, got 0 bytes
        """,
    ),
    "a peer that closes first when all is done": (
        """
        gpu1:9:9 [0] NCCL INFO comm 0x1 rank 0 nranks 2 - Init COMPLETE
        Training complete in 4m 2s
        gpu1:9:15 [0] NCCL WARN socketProgress: Connection closed by remote peer gpu2<41000>
        exit code 0
        """,
    ),
    "Lightning to its end": (
        """
        GPU available: True (cuda), used: True
        UserWarning: The 'train_dataloader' does not have many workers which may be a bottleneck.
        Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/2
        distributed_backend=nccl
        All distributed processes registered. Starting with 2 processes
        Epoch 2: 100%|##########| 32/32 [00:01<00:00, train_loss=0.31]
        `Trainer.fit` stopped: `max_epochs=3` reached.
        [W TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=48): Connection reset by peer
        """,
    ),
    "the Trainer of transformers to its end": (
        """
        FutureWarning: `torch.cuda.amp.autocast(args...)` is deprecated.
        huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...
        {'loss': 0.31, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': 2.9}
        {'train_runtime': 123.4, 'train_samples_per_second': 81.0, 'train_loss': 0.41, 'epoch': 3.0}
        """,
    ),
    "DeepSpeed's banner": (
        """
        [2025-02-03 04:05:06,007] [WARNING] [runner.py:215:fetch_hostfile] Unable to find hostfile, will proceed with training with local resources only.
        [2025-02-03 04:05:06,007] [INFO] [comm.py:652:init_distributed] cdb=None
        [2025-02-03 04:05:06,007] [INFO] [comm.py:683:init_distributed] Initializing TorchBackend in DeepSpeed with backend nccl
        [2025-02-03 04:05:16,007] [INFO] [fused_optimizer.py:344:_update_scale] Grad overflow on iteration 0
        [2025-02-03 04:05:26,007] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=1, lr=[1e-05]
        [2025-02-03 04:05:36,007] [INFO] [launch.py:351:main] Process 4711 exits successfully.
        """,
    ),
    "Megatron's lines": (
        """
        > initialized tensor model parallel with size 8
         [2025-02-03 04:05:06] iteration       10/     100 | elapsed time per iteration (ms): 812.1 | lm loss: 7.1E+00 | number of skipped iterations:   0 | number of nan iterations:   0 |
         validation loss at iteration 100 | lm loss value: 2.3 | lm loss PPL: 9.9
        """,
    ),
    "Accelerate and OMP": (
        """
        The following values were not passed to `accelerate launch` and had defaults used instead: `--num_processes` was set to a value of `8`
        Setting OMP_NUM_THREADS environment variable for each process to be 1 in default
        OMP: Info #276: omp_set_nested routine deprecated, please use omp_set_max_active_levels instead.
        libgomp: Invalid value for environment variable OMP_NUM_THREADS
        epoch 0: loss 0.4
        """,
    ),
    "Horovod that waited once, and went on": (
        """
        [1,0]<stderr>:[2025-02-03 04:05:06.8: W horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.
        [1,0]<stderr>:Missing ranks:
        [1,0]<stdout>:Epoch 1 loss 0.4
        """,
    ),
    "TensorFlow without CUDA's libraries": (
        """
        2025-02-03 04:05:06.1: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open shared object file: No such file or directory
        2025-02-03 04:05:06.1: I tensorflow/stream_executor/cuda/cudart_stub.cc:29] Ignore above cudart dlerror if you do not have a GPU set up on your machine.
        INFO:tensorflow:Check health not enabled.
        Epoch 1/3
        32/32 [==============================] - 1s 20ms/step - loss: 0.3
        """,
    ),
    "an image extension that is not there": (
        """
        UserWarning: Failed to load image Python extension: libtorch_cuda_cu.so: cannot open shared object file: No such file or directory
        UserWarning: Failed to load image Python extension: '/env/torchvision/image.so: undefined symbol: _ZN5torch3jit17parseSchemaOrNameERKSs'
        epoch 0: loss 0.4
        """,
    ),
    "Ray that says where it is": (
        """
        INFO worker.py:1841 -- Connecting to existing Ray cluster at address: 10.20.0.1:6379...
        (raylet) Warning: The actor ImplicitFunc is very large (12 MiB). Check that its definition is not implicitly capturing a large array
        (RayTrainWorker pid=4711, ip=10.20.0.2) Setting up process group for: env:// [rank=1, world_size=2]
        (RayTrainWorker pid=4711, ip=10.20.0.2) epoch 1 loss 0.4
        """,
    ),
    "vLLM that serves": (
        """
        WARNING 02-03 04:05:06 [config.py:390] Casting torch.bfloat16 to torch.float16.
        INFO 02-03 04:05:06 [pynccl.py:103] vLLM is using nccl==2.27.3
        WARNING 02-03 04:05:06 [custom_all_reduce.py:137] Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs.
        INFO:     Application startup complete.
        INFO 02-03 04:06:06 [loggers.py:87] Engine 000: Avg generation throughput: 31.2 tokens/s
        """,
    ),
    "Slurm's ordinary lines": (
        """
        srun: job 4711 queued and waiting for resources
        srun: job 4711 has been allocated resources
        srun: warning: can't run 1 processes on 2 nodes, setting nnodes to 1
        0: epoch 1 loss 0.4
        1: epoch 1 loss 0.4
        """,
    ),
    "Kubernetes' ordinary events": (
        """
          Normal  Scheduled  9s  default-scheduler  Successfully assigned lab/train-0 to n1
          Normal  Pulled     8s  kubelet            Container image "lab/train:7" already present on machine
        2025-02-03T04:05:06.123456789Z stdout F step 1 loss 0.4
        """,
    ),
    "Paddle that waited for a trainer": (
        """
        server not ready, wait 3 sec to retry...
        not ready endpoints:['10.20.0.2:6171']
        I0203 04:05:06.1  99 nccl_context.cc:83] init nccl context nranks: 2 local rank: 0 gpu id: 0 ring id: 0
        epoch 0, step 10, loss: 0.4
        """,
    ),
    "wandb and a network that came back": (
        """
        wandb: Network error (ConnectionError), entering retry loop.
        wandb: Network error resolved after 0:00:12.1, resuming normal operation.
        urllib3.connectionpool WARNING Retrying (Retry(total=2)) after connection broken by 'ConnectionResetError(104)': /api
        step 90 loss 0.3
        wandb: Run summary: loss 0.3
        """,
    ),
    "a barrier of the store that all passed": (
        """
        INFO:torch.distributed.distributed_c10d:Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 (world_size=8, worker_count=6, timeout=0:30:00)
        INFO:torch.distributed.distributed_c10d:Rank 0: Completed store-based barrier for key:store_based_barrier_key:1 with 8 nodes.
        """,
    ),
    "a banner of NVIDIA's container": (
        """
        == PyTorch ==
        NOTE: The SHMEM allocation limit is set to the default of 64MB.  This may be insufficient for PyTorch.
        WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.
        epoch 1 loss 0.4
        """,
    ),
    "a checkpoint that was written at the second try": (
        """
        saving failed: OSError: [Errno 28] No space left on device: '/data/a.pt'; removed the oldest, trying again
        saved /data/a.pt
        step 12 loss 0.4
        step 13 loss 0.4
        """,
    ),
    "torch that closes without destroy_process_group": (
        """
        step 90 loss 0.3
        [rank0]:[W1202 04:05:06.1 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL. On normal program exit, the application should call destroy_process_group
        """,
    ),
    "NCCL 2.4's lines": (
        """
        w0:15:15 [0] NCCL INFO NET/Socket : Using [0]eth0:10.20.0.1<0>
        w0:15:15 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so).
        NCCL version 2.4.8+cuda10.1
        w0:15:91 [0] NCCL INFO Trees [0] 1->0->-1/-1/-1
        w0:15:91 [0] NCCL INFO Using 256 threads, Min Comp Cap 7, Trees enabled up to size -2
        w0:15:91 [0] NCCL INFO comm 0x7f rank 0 nranks 2 cudaDev 0 nvmlDev 0 - Init COMPLETE
        """,
    ),
    "a torchrun that finds node 0's store gone when its own workers are done": (
        """
        [W1202 04:05:06.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=4, addr=[::1]:41000, remote=[::1]:29500): Failed to recv, got 0 bytes
        E1202 04:05:06.764000 536 torch/distributed/elastic/agent/server/api.py:1008] Error waiting on exit barrier. Elapsed: 0.06088399887084961 seconds
        E1202 04:05:06.764000 536 torch/distributed/elastic/agent/server/api.py:1008] torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?
        """,
        "epoch 4  loss 1.0508  accuracy 89.2%",
    ),
    "Gloo that connects at the second try": (
        """
        [/pytorch/third_party/gloo/gloo/transport/tcp/debug_logger.cc:9] ERROR failed to connect, willRetry=1, retry=1, retryLimit=3, rank=1, size=2, local=[127.0.0.1]:26818, remote=[127.0.0.1]:13191$1, error=SO_ERROR: Connection refused, remote=[127.0.0.1]:13191$1
        """,
        "step 4 loss 1.0508",
    ),
    "NCCL's libfabric plugin at INFO, and libibverbs' warning": (
        """
        libibverbs: Warning: couldn't open config directory '/etc/libibverbs.d'.
        gpu3:9:9 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.18.0
        gpu3:9:9 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 16 nics)
        gpu3:9:9 [0] NCCL INFO comm 0x5 rank 0 nranks 2 - Init COMPLETE
        """,
    ),
    "what torch and Gloo remark since 2.7": (
        """
        [Gloo] Rank 0 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3
        [rank0]:[W1202 04:05:06.1 ProcessGroupNCCL.cpp:4718] [PG ID 0 PG GUID 0 Rank 0] using GPU 0 as device used by this process is currently unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect.
        graph/search.cc:765 NCCL WARN Could not find a path for pattern 4, falling back to simple order
        gpu1:1:1 [4] NCCL INFO P2P is disabled between connected GPUs 4 and 3. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.
        step 1 loss 0.4
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
    assert len(verdicts) >= 30
    assert verdicts.count("healthy") >= 28


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
        "RuntimeError: the shards of this checkpoint are of two runs",
        "[rank1]: lib.sub.StrangeError: no",
        "slurmd: error: task 3 on n7: exit code 7",
        "prog.sh: line 3: 12345 Aborted                 (core dumped) python train.py",
        "ncclrun: stalled after 19 s, exit code 123",
    ),
)
def test_work_whose_end_speaks_of_an_unknown_error_is_not_called_healthy(end: str) -> None:
    found = explained(f"step 1 loss 2\n{end}\n")
    assert found.verdict == "nothing"
    assert end in found.confidence
    assert explained(f"step 1 loss 2\n{end}\nstep 2 loss 1\n").verdict == "healthy"
    assert explained("step 1 loss 2\nvalidation error: 0.013\nerrors: 0\nexit code 0\n").verdict == "healthy"


def test_work_that_was_done_excuses_no_crash_after_it() -> None:
    end = "failed (exitcode: -11) local_rank: 0 (pid: 4712) of binary: /opt/env/bin/python"
    assert explained(f"step 9 loss 0.1\nTraining done.\n{end}").verdict == "component"


def test_a_peer_that_went_away_before_the_work_was_done_is_told() -> None:
    lost = "gpu1:9:15 [0] NCCL WARN socketProgress: Connection closed by remote peer gpu2<41000>"
    assert explained(f"step 9 loss 0.1\n{lost}").verdict == "consequence"
