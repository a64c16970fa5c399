"""Failures of other schedulers, frameworks and versions: the decisive lines in their order, and what is to be told."""

from __future__ import annotations

from textwrap import dedent

import pytest

from ncclrun.model.explainevents import Verdict
from tests.diagnosis.explain.logs import explained

FAILURES: list[tuple[str, str, Verdict, str]] = [
    ("torch: a node that comes when all is over", "rdzv-closed", "consequence", """
        [ERROR] 2023-02-03 04:05:06,007 error_handler: {"message": {"message": "RendezvousClosedError: "}}
        Traceback (most recent call last):
          File "/env/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py", line 634, in run
            raise RendezvousClosedError()
        torch.distributed.elastic.rendezvous.api.RendezvousClosedError
    """),
    ("torch: a node that waits for others", "rdzv-timeout", "component", """
        [INFO] 2023-02-03 04:05:06,007 api: [default] Rendezvous'ing worker group
        Traceback (most recent call last):
        torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError
    """),
    ("torch: the cause in the inner exception", "rdzv-conn", "component", """
        [ERROR] 2021-02-03 04:05:06,007 error_handler: {
          "message": {
            "message": "RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.",
    """),
    ("torch 1.8: nobody at MASTER_ADDR", "store-connect", "component", """
        Traceback (most recent call last):
          File "train.py", line 12, in <module>
            dist.init_process_group("nccl")
          File "/env/torch/distributed/rendezvous.py", line 188, in _env_rendezvous_handler
            store = TCPStore(master_addr, master_port, world_size, start_daemon, timeout)
        RuntimeError: connect() timed out. Original timeout was 1800000 ms.
    """),
    ("torch 1.11: more workers than the world's size", "barrier-rank", "component", """
        INFO:torch.distributed.distributed_c10d:Added key: store_based_barrier_key:1 to store for rank: 2
        INFO:torch.distributed.distributed_c10d:Waiting in store based barrier to initialize process group for rank: 2, key: store_based_barrier_key:1 (world_size=2, worker_count=4, timeout=0:30:00)
        RuntimeError: Timed out initializing process group in store based barrier on rank: 2, for key: store_based_barrier_key:1 (world_size=2, worker_count=4, timeout=0:30:00)
    """),
    ("torch: a barrier that says who is missing", "barrier-rank", "component", """
        [rank0]: RuntimeError: [Rank 0]: Ranks 3, 5 failed to pass monitoredBarrier in 300000 ms
        [rank1]: RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0.
    """),
    ("torch: collectives that do not fit", "collectives-differ", "cause", """
        [rank1]: Traceback (most recent call last):
        [rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=9, OpType=ALLREDUCE, TensorShape=[8]), but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=9, OpType=BROADCAST)
        [rank0]:[E202 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=BROADCAST, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.
    """),
    ("torch 1.6: no process group", "group-missing", "cause", """
        Traceback (most recent call last):
        RuntimeError: Default process group has not been initialized, please make sure to call init_process_group.
    """),
    ("DDP: parameters without a gradient", "ddp-unused", "cause", """
        step 0 loss 9.1
        [rank0]: Traceback (most recent call last):
        [rank0]: RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has parameters that were not used in producing loss.
        [rank1]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 1.
    """),
    ("DDP: a gradient twice", "ddp-twice", "cause", """
        RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a module parameter outside the `forward` function.
    """),
    ("DDP: another model on one node", "ddp-model", "cause", """
        RuntimeError: DDP expects same model across all ranks, but Rank 1 has 161 params, while rank 0 has inconsistent 160 params.
        [rank0]: torch.distributed.DistBackendError: remote process exited or there was a network error
    """),
    ("DDP: sizes that differ", "ddp-model", "cause", """
        RuntimeError: [1]: params[3] in this process with sizes [100, 64] appears not to match sizes of the same param in process 0.
    """),
    ("data loaders: descriptors that got lost", "nofile", "cause", """
        Traceback (most recent call last):
          File "/usr/lib/python3.8/multiprocessing/reduction.py", line 164, in recvfds
            raise RuntimeError('received %d items of ancdata' %
        RuntimeError: received 0 items of ancdata
    """),
    ("data loaders: OSError", "nofile", "cause", """
        OSError: [Errno 24] Too many open files: '/tmp/pymp-x1'
        RuntimeError: DataLoader worker (pid(s) 4711) exited unexpectedly
    """),
    ("data loaders: /dev/shm by its path", "dl-shm", "cause", """
        OSError: [Errno 28] No space left on device: '/dev/shm/pym-4711-x'
    """),
    ("gloo: a rank that does not come", "gloo-timeout", "component", """
        [rank3]: Traceback (most recent call last):
        [rank3]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete
        ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 3 (pid: 4711) of binary: /env/bin/python
    """),
    ("gloo: a peer that gave up", "gloo-timeout", "component", """
        RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:589] Application timeout caused pair closure
    """),
    ("gloo: no way to the peer's address", "gloo-connect", "component", """
        RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error
    """),
    ("gloo: a time-out on connecting", "gloo-connect", "component", """
        RuntimeError: [/opt/conda/gloo/gloo/transport/tcp/pair.cc:761] connect timeout [10.20.0.7]:38111
    """),
    ("CUDA: a runtime that is not there", "cuda-lib", "cause", """
        Traceback (most recent call last):
          File "/env/lib/python3.10/site-packages/flash_attn/__init__.py", line 3, in <module>
        ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory
    """),
    ("CUDA: cuBLAS by ctypes", "cuda-lib", "cause", """
        OSError: libcublas.so.12: cannot open shared object file: No such file or directory
        E1130 12:00:00.1 4711 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1) local_rank: 0 (pid: 4712) of binary: /opt/env/bin/python
    """),
    ("CUDA: cuDNN of Paddle", "cuda-lib", "cause", """
        ImportError: libcudnn.so.8: cannot open shared object file: No such file or directory
    """),
    ("CUDA: the driver's own library, so no GPU in the container", "cuda-no-gpu", "cause", """
        ImportError: libcuda.so.1: cannot open shared object file: No such file or directory
    """),
    ("CUDA: nvJitLink of another version", "lib-symbol", "cause", """
        ImportError: /env/lib/python3.11/site-packages/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12
    """),
    ("an extension for another torch", "lib-symbol", "cause", """
        ImportError: /env/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi
        gpu2: [ERROR] [launch.py:321:sigkill_handler] ['python', 'train.py'] exits with return code = 1
    """),
    ("an older system on one host", "libc-old", "cause", """
        gpu7: ImportError: /lib64/libc.so.6: version `GLIBC_2.32' not found (required by /env/lib/python3.10/site-packages/flash_attn_2_cuda.so)
    """),
    ("CUDA: a kernel's check", "device-assert", "component", """
        ../aten/src/ATen/native/cuda/Indexing.cu:1290: indexSelectLargeIndex: block: [31,0,0], thread: [64,0,0] Assertion `srcIndex < srcSelectDimSize` failed.
        RuntimeError: CUDA error: device-side assert triggered
        x NCCL WARN Cuda failure 'device-side assert triggered'
        [rank1]: torch.distributed.DistBackendError: remote process exited or there was a network error
    """),
    ("CUDA: a GPU newer than the package", "no-kernel", "cause", """
        UserWarning: NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.
        RuntimeError: CUDA error: no kernel image is available for execution on the device
    """),
    ("CUDA: an exclusive GPU", "gpu-busy", "cause", """
        RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable
        CUDA kernel errors might be asynchronously reported at some other API call.
    """),
    ("CUDA: cuBLAS has no memory", "cublas", "component", """
        RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`
    """),
    ("CUDA: forked", "cuda-fork", "cause", """
        RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method
    """),
    ("NCCL 2.8: forked", "cuda-fork", "cause", """
        gpu1:88:90 [1] init.cc:840 NCCL WARN Cuda failure 'initialization error'
        RuntimeError: NCCL error in: ../torch/lib/c10d/ProcessGroupNCCL.cpp:784, unhandled cuda error, NCCL version 2.7.8
    """),
    ("NCCL 2.10: no memory left for it", "gpu-oom", "cause", """
        gpu1:88:90 [1] include/alloc.h:48 NCCL WARN Cuda failure 'out of memory'
        ncclUnhandledCudaError: Call to CUDA function failed.
    """),
    ("NCCL 2.4: a peer that went away", "closed-remote", "consequence", """
        w0:15:91 [3] include/socket.h 398 NCCL WARN Call to recv failed : Connection reset by peer.
        w0:15:91 [3] transport.cu:153 NCCL WARN transport.cu:153 ->2 [Proxy thread error]
    """),
    ("NCCL 2.2: packets that get lost", "conn-timeout", "component", """
        gpu3:18:18 [0] INFO NET : Using interface enp3s0:192.168.144.3<0>
        NCCL version 2.2.13+cuda9.0
        gpu3:18:61 [0] include/socket.h:360 WARN Call to connect failed : Connection timed out
        gpu3:18:62 [0] include/socket.h:371 WARN Connection closed by remote peer
    """),
    ("NCCL 2.28: an argument that can't be", "invalid-usage", "consequence", """
        gpu1:9:9 [0] enqueue.cc:2400 NCCL WARN Broadcast : invalid root 8 (root should be in the 0..8 range)
        ncclInvalidArgument: Invalid value for an argument.
    """),
    ("a crash without a word", "sigsegv", "component", """
        E1130 12:00:00.1 4711 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: -11) local_rank: 2 (pid: 4712) of binary: /opt/env/bin/python
        torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
        train.py FAILED
          exitcode  : -11 (pid: 4712)
          traceback : Signal 11 (SIGSEGV) received by PID 4712
    """),
    ("a crash under mpirun", "sigsegv", "component", """
        [n1:4711] *** Process received signal ***
        [n1:4711] Signal: Segmentation fault (11)
        mpirun noticed that process rank 1 with PID 4711 on node n1 exited on signal 11 (Segmentation fault).
    """),
    ("SIGBUS by a shell", "sigbus", "component", """
        run.sh: line 9:  4711 Bus error               (core dumped) python train.py
    """),
    ("a checkpoint on a full disk", "disk-full", "cause", """
        RuntimeError: [enforce fail at inline_container.cc:603] . PytorchStreamWriter failed writing file data/41: file write failed
        During handling of the above exception, another exception occurred:
        OSError: [Errno 28] No space left on device: '/data/run7/step_2000.pt'
        RuntimeError: [enforce fail at inline_container.cc:365] . unexpected pos 1907584 vs 1907476
    """),
    ("a checkpoint that was not written, and no reason", "write-failed", "component", """
        {'loss': 2.9043, 'learning_rate': 4.99e-05}
        RuntimeError: [enforce fail at inline_container.cc:445] . PytorchStreamWriter failed writing file data/176: file write failed
    """),
    ("a quota", "disk-full", "cause", """
        OSError: [Errno 122] Disk quota exceeded
        srun: error: n03: task 5: Exited with exit code 1
    """),
    ("a disk that the kernel took from use", "read-only", "cause", """
        OSError: [Errno 30] Read-only file system: '/scratch/run7/last.pt'
    """),
    ("srun: memory", "host-oom", "cause", """
        slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.
        srun: error: n03: task 5: Out Of Memory
        srun: Terminating job step 4711.0
        slurmstepd: error: *** STEP 4711.0 ON n03 CANCELLED AT 2025-02-03T04:05:06 ***
    """),
    ("srun: memory, in older words", "host-oom", "cause", """
        slurmstepd: error: Detected 2 oom-kill event(s) in step 4711.batch cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.
    """),
    ("Kubernetes: memory", "host-oom", "cause", """
            Last State:     Terminated
              Reason:       OOMKilled
              Exit Code:    137
    """),
    ("docker compose: killed, who knows by whom", "sigkill", "component", """
        worker-1  | step 3 loss 0.4
        worker-1 exited with code 137
    """),
    ("Ray: memory", "host-oom", "cause", """
        (raylet, ip=10.20.0.2) [2025-02-03 04:05:06,007 E 9751 9751] (raylet) node_manager.cc:3084: 4 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node
        ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task.
    """),
    ("Gloo: other shapes on one rank", "gloo-size", "cause", """
        terminate called after throwing an instance of 'gloo::EnforceNotMet'
          what():  [enforce fail at /build/gloo/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4. Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?
        [rank0]: RuntimeError: [/build/gloo/gloo/transport/tcp/pair.cc:537] Connection closed by peer [10.77.0.2]:24494. This is typically caused by a remote worker hanging or bugs in the application. Check the logs of the remote worker before reporting an error.
        E1201 05:21:54.248000 155 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -6) local_rank: 2 (pid: 157) of binary: /opt/env/bin/python
    """),
    ("the program's own want of memory", "cpu-memory", "cause", """
        [rank2]: Traceback (most recent call last):
        [rank2]: RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: can't allocate memory: you tried to allocate 17179869184 bytes. Error code 12 (Cannot allocate memory)
    """),
    ("Slurm: time", "time-limit", "cause", """
        Epoch 7: loss 0.31
        slurmstepd: error: *** JOB 4711 ON n07 CANCELLED AT 2025-02-03T04:05:06 DUE TO TIME LIMIT ***
        torch.distributed.elastic.multiprocessing.api.SignalException: Process 99 got signal: 15
    """),
    ("Slurm: a node", "node-failed", "cause", """
        [rank0]:[E202 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=901, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.
        srun: error: Node failure on n12
        slurmstepd: error: *** JOB 4711 ON n07 CANCELLED AT 2025-02-03T04:05:06 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***
    """),
    ("Slurm: preemption", "preempted", "cause", """
        submitit WARNING (2025-02-03 04:05:06,453) - Caught signal SIGUSR2 on n03: this job is preempted.
        slurmstepd: error: *** JOB 608 ON n03 CANCELLED AT 2025-02-03T04:05:07 DUE TO JOB REQUEUE ***
        srun: error: n03: tasks 2-3: Exited with exit code 1
    """),
    ("Slurm: cancelled, the log does not say by whom", "slurm-cancelled", "consequence", """
        step 3 loss 0.4
        slurmstepd: error: *** STEP 815.0 ON n03 CANCELLED AT 2025-02-03T04:05:06 ***
        srun: error: n03: task 1: Terminated
    """),
    ("Slurm: more than there is", "slurm-refused", "cause", """
        srun: error: Unable to create step for job 4711: Requested node configuration is not available
    """),
    ("torchrun: told to stop", "told-to-stop", "consequence", """
        W0203 04:05:06.1 99 torch/distributed/elastic/agent/server/api.py:740] Received Signals.SIGTERM death signal, shutting down workers
        W0203 04:05:06.1 99 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 100 closing signal SIGTERM
        torch.distributed.elastic.multiprocessing.api.SignalException: Process 99 got signal: 15
    """),
    ("docker: no GPU driver", "docker-gpu", "cause", """
        docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].
    """),
    ("docker: the toolkit can't talk to the driver", "docker-gpu", "cause", """
        docker: Error response from daemon: failed to create task for container: OCI runtime create failed: error running hook #0: nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown.
    """),
    ("docker: an image for a newer driver", "cuda-driver-old", "cause", """
        docker: Error response from daemon: OCI runtime create failed: nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.6, please update your driver to a newer version
    """),
    ("docker: GPUs that are gone", "nvml-lost", "cause", """
        step 900 loss 0.2
        Failed to initialize NVML: Unknown Error
        RuntimeError: No CUDA GPUs are available
    """),
    ("Kubernetes: evicted", "evicted", "cause", """
          Warning  Evicted    2m    kubelet  The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi.
          Normal   Killing    2m    kubelet  Stopping container pytorch
    """),
    ("Kubernetes: no room", "pod-pending", "cause", """
          Warning  FailedScheduling  30s  default-scheduler  0/3 nodes are available: 3 Insufficient nvidia.com/gpu.
    """),
    ("Kubernetes: no image", "image-pull", "cause", """
          Warning  Failed  9s  kubelet  Failed to pull image "lab/train:7": rpc error: code = NotFound
          Warning  Failed  9s  kubelet  Error: ErrImagePull
    """),
    ("Horovod: ranks that are missing", "horovod-stalled", "component", """
        [1,0]<stderr>:[2025-02-03 04:05:06.8: W horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.
        [1,0]<stderr>:Missing ranks:
        [1,0]<stderr>:1: [DistributedOptimizer_Allreduce/grad_3]
    """),
    ("Horovod: shut down by another rank", "process-ended", "consequence", """
        horovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor after one of the ranks finished execution.
    """),
    ("Horovod: no common network", "horovod-nics", "cause", """
        Exception: Unable to find a set of common task-to-task communication interfaces: [(0, {'eth0': [('10.20.0.1', 4711)]}), (1, {'ens3': [('10.20.0.2', 4712)]})]
    """),
    ("TensorFlow: a worker that is not there", "tf-peer", "component", """
        2025-02-03 04:05:06.1: E tensorflow/core/common_runtime/base_collective_executor.cc:249] BaseCollectiveExecutor::StartAbort UNAVAILABLE: failed to connect to all addresses
        tensorflow.python.framework.errors_impl.UnavailableError: Collective ops is aborted by: failed to connect to all addresses
    """),
    ("TensorFlow: shapes that differ", "collectives-differ", "cause", """
        tensorflow.python.framework.errors_impl.InternalError: Collective ops is aborted by: Shape mismatch in the collective instance 100. Op at device /job:worker/replica:0/task:1/device:GPU:0 expected shape [8] but another member in the group expected shape [9].
    """),
    ("TensorFlow: GPU memory", "gpu-oom", "cause", """
        ResourceExhaustedError: OOM when allocating tensor with shape[64,256,56,56] and type float on /job:worker/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc
        Collective ops is aborted by: failed to connect to all addresses
    """),
    ("JAX: a task that died", "heartbeat-lost", "consequence", """
        UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats): /job:jax_worker/replica:0/task:1
    """),
    ("Paddle: a trainer that is not there", "paddle-wait", "component", """
        server not ready, wait 3 sec to retry...
        not ready endpoints:['10.20.0.2:6171']
        I0203 04:05:06.1  99 gen_comm_id_helper.cc:212] connect addr=10.20.0.2:6171 failed 9 times with reason: Connection refused retry after 0.5 seconds
    """),
    ("Paddle: GPU memory", "gpu-oom", "cause", """
        ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 2.000000GB memory on GPU 0, 15.1GB memory has been allocated
        ABORT!!! Out of all 2 trainers, the trainer process with rank=[0] was aborted. Please check its log.
    """),
    ("Ray: the head node", "ray-gcs", "component", """
        [2025-02-03 04:05:06,007 C 99 99] global_state_accessor.cc:117: Failed to connect to GCS at address 10.20.0.1:6379 within 5 seconds.
    """),
    ("vLLM on Ray: a node that did not join", "ray-resources", "cause", """
        ERROR 02-03 04:05:06 [core.py:390] ValueError: The number of required GPUs exceeds the total number of available GPUs in the placement group.
        RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
    """),
    ("vLLM on Ray: one address for two", "ray-same-address", "cause", """
        RuntimeError: Every node should have a unique IP address. Got 2 nodes with node ids ['a1', 'b2'] and 1 unique IP addresses {'10.20.0.1'}.
    """),
    ("vLLM: its own traceback, and the server that only lost the engine", "program", "cause", """
        (EngineCore_DP0 pid=99) ERROR 02-03 04:05:06 [core.py:708] EngineCore hit an exception: Traceback (most recent call last):
        (EngineCore_DP0 pid=99) ERROR 02-03 04:05:06 [core.py:708]   File "/env/vllm/model.py", line 7, in load
        (EngineCore_DP0 pid=99) ERROR 02-03 04:05:06 [core.py:708] ValueError: 60 heads can't be split by 8
        Traceback (most recent call last):
        RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
    """),
    ("vLLM: no memory for the cache", "gpu-oom", "cause", """
        (EngineCore_DP0 pid=99) ERROR 02-03 04:05:06 [core.py:708] ValueError: Free memory on device (3.1/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB).
        RuntimeError: Engine core initialization failed. See root cause above.
    """),
    ("Lightning: a rank that waits for one that died", "process-ended", "consequence", """
        pytorch_lightning.utilities.exceptions.DeadlockDetectedException: DeadLock detected from rank: 1
    """),
    ("mp.spawn: the child's own error", "program", "cause", """
        Traceback (most recent call last):
          File "/env/torch/multiprocessing/spawn.py", line 150, in join
            raise ProcessRaisedException(msg, error_index, failed_process.pid)
        torch.multiprocessing.spawn.ProcessRaisedException:

        -- Process 1 terminated with the following error:
        Traceback (most recent call last):
          File "/work/train.py", line 9, in main
        KeyError: 'labels'
    """),
    ("Accelerate: only that a process ended", "process-ended", "consequence", """
        Traceback (most recent call last):
          File "/env/accelerate/commands/launch.py", line 923, in simple_launcher
        subprocess.CalledProcessError: Command '['/env/bin/python', 'train.py']' returned non-zero exit status 1.
    """),
    ("Accelerate under pdsh: a traceback in a frame", "program", "cause", """
        104.17.20.17: ╭───────────────────── Traceback (most recent call last) ──────────────────────╮
        104.17.20.17: │ /work/train.py:81 in main                                                    │
        104.17.20.17: │ ❱  81 │   batch["labels"]                                                    │
        104.17.20.17: ╰──────────────────────────────────────────────────────────────────────────────╯
        104.17.20.17: KeyError: 'labels'
        104.17.20.18: ╭───────────────────── Traceback (most recent call last) ──────────────────────╮
        104.17.20.18: ╰──────────────────────────────────────────────────────────────────────────────╯
        104.17.20.18: RuntimeError: Connection reset by peer
    """),
    ("CUDA: an image's libraries for a newer driver", "cuda-driver-old", "cause", """
        RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non supported HW
    """),
    ("NCCL 2.23: RDMA that gets lost, and what follows from it", "ib-err12", "cause", """
        504:34610:36821 [4] ib_plugin.c:1673 NCCL WARN NET/IB: Got completion from peer 10.0.1.23<47140> with status=5 opcode=0 len=0 vendor err 249 (Recv) hca ibp152s0
        504:34610:36821 [4] ib_plugin.c:1673 NCCL WARN NET/IB: Got completion from peer 10.0.1.23<47140> with status=12 opcode=0 len=0 vendor err 129 (Recv) hca ibp152s0
    """),
    ("Accelerate: a signal that subprocess names", "sigkill", "component", """
        subprocess.CalledProcessError: Command '['/env/bin/python', 'train.py']' died with <Signals.SIGKILL: 9>.
    """),
    ("Lightning: CUDA before its processes", "cuda-fork", "cause", """
        RuntimeError: Lightning can't create new processes if CUDA is already initialized. Did you manually call `torch.cuda.*` functions
    """),
    ("Lightning: no GPU", "cuda-no-gpu", "cause", """
        lightning.fabric.utilities.exceptions.MisconfigurationException: No supported gpu backend found!
    """),
    ("TensorFlow: cuBLAS has no memory", "cublas", "component", """
        InternalError: Blas GEMM launch failed : a.shape=(64, 10), b.shape=(10, 10), m=64, n=10, k=10 [Op:MatMul]
    """),
    ("torch 2.4: nobody at the address", "store-timeout", "component", """
        torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (gpu1, 29500). The client socket has failed to connect to 10.20.0.1:29500 (errno: 111 - Connection refused).
    """),
    ("torch: an address that node 0 does not have", "address-not-here", "cause", """
        [W socket.cpp:436] [c10d] The server socket has failed to bind to [gpu1.lab]:29500 (errno: 99 - Cannot assign requested address).
        [E socket.cpp:957] [c10d] The client socket has timed out after 60000ms while trying to connect to (gpu1.lab, 29500).
    """),
    ("pdsh: a host that SSH does not reach", "ssh-conn", "cause", """
        pdsh@n0: gpu2: ssh exited with exit code 255
    """),
    ("a script's own first line", "ssh-nocmd", "cause", """
        gpu2: /usr/bin/env: 'python': No such file or directory
    """),
    ("NCCL: a container without RDMA's devices", "ib-open", "cause", """
        c0ffee:9:9 [0] misc/ibvwrap.cc:94 NCCL WARN Call to ibv_open_device failed
        c0ffee:9:9 [0] transport/net_ib.cc:177 NCCL WARN NET/IB : Unable to open device mlx5_0
    """),
    ("NCCL on EFA", "ofi-error", "component", """
        gpu3:9:40 [2] nccl_net_ofi_rdma.c:900 NCCL WARN NET/OFI Request 0x7f completed with error. RC: 107. Error: 4123 (unreachable remote). Completed length: 0
        gpu3:9:40 [2] NCCL INFO transport/net.cc:1298 -> 2
    """),
    ("docker: not for this user", "docker-daemon", "cause", """
        docker: permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: Post "http://x/v1.24/containers/create"
    """),
    ("MPI under srun", "mpi-pmi", "cause", """
        The application appears to have been direct launched using "srun",
        but OMPI was not built with SLURM's PMI support and therefore cannot
    """),
    ("Megatron: sizes that do not divide", "program", "cause", """
        [rank0]: Traceback (most recent call last):
        [rank0]:   File "/work/megatron/core/parallel_state.py", line 500, in initialize_model_parallel
        [rank0]: RuntimeError: world_size (12) is not divisible by 8
        [rank1]: Traceback (most recent call last):
        [rank1]: RuntimeError: world_size (12) is not divisible by 8
    """),
    ("DeepSpeed: no SSH", "ssh-conn", "cause", """
        Traceback (most recent call last):
        subprocess.CalledProcessError: Command 'ssh -o PasswordAuthentication=no gpu2 hostname' returned non-zero exit status 255.
        RuntimeError: Using hostfile at hosts but host=gpu2 was not reachable via ssh. If you are running with a single node please remove hosts or setup passwordless ssh.
    """),
    ("mpirun: daemons", "mpi-start", "component", """
        --------------------------------------------------------------------------
        ORTE was unable to reliably start one or more daemons.
        This usually is caused by:
    """),
    ("mpirun: slots", "mpi-slots", "cause", """
        There are not enough slots available in the system to satisfy the 16
        slots that were requested by the application:
    """),
    ("mpirun: a node that went down", "node-failed", "cause", """
        ORTE has lost communication with a remote daemon.
          HNP daemon   : [[1,0],0] on node n1
          Remote daemon: [[1,0],2] on node n3
    """),
    ("mpirun: somebody aborted", "process-ended", "consequence", """
        MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD
        with errorcode 1.
    """),
    ("a hub without a way to it", "hub-offline", "cause", """
        gpu2: requests.exceptions.ConnectionError: HTTPSConnectionPool(host='hub.example', port=443): Max retries exceeded with url: /m/config.json (Caused by NewConnectionError)
        gpu2: OSError: We couldn't connect to 'https://hub.example' to load this file, couldn't find it in the cached files
    """),
    ("NCCL 2.14: GPUs that NCCL itself does not join, and a peer that is gone", "closed-remote", "consequence", """
        node1: node1:15874:17284 [4] NCCL INFO P2P is disabled between connected GPUs 4 and 3. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.
        node2: Last error:
        node2: Net : Call to recv from 10.20.0.2<56843> failed : Connection refused
        RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1269, internal error, NCCL version 2.14.3
    """),
    ("NCCL: a rank too many", "rank-invalid", "cause", """
        worker-1:25:25 [0] init.cc:981 NCCL WARN Invalid rank requested : 2/2
        RuntimeError: NCCL error in: ../torch/lib/c10d/ProcessGroupNCCL.cpp:784, invalid usage, NCCL version 2.7.8
    """),
    ("NCCL's tests", "internal-error", "consequence", """
        gpu1: Test NCCL failure common.cu:958 'internal error'
         .. gpu1 pid 4711: Test failure common.cu:842
    """),
    ("torch 2.9: a store that does not answer", "init-timeout-store", "consequence", """
        [rank0]:[W902 16:27:57.29 socket.cpp:494] [c10d] waitForInput: socket SocketImpl(fd=33, addr=[n2]:39076, remote=[n1]:29501) timed out after 1800000ms
    """),
    ("torch: a communicator that another's failure aborted", "remote-error", "consequence", """
        [rank3]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3.
    """),
    ("Ray: an actor that tells its container's address", "if-docker-net", "cause", """
        (RayWorker pid=4711, ip=10.0.1.75) [E socket.cpp:922] [c10d] The client socket has timed out after 1800s while trying to connect to (172.17.0.2, 44737).
    """),
    ("Lightning: a rank that waits", "waits-for-ranks", "consequence", """
        GPU available: True, used: True
        initializing ddp: GLOBAL_RANK: 1, MEMBER: 2/8
        initializing ddp: GLOBAL_RANK: 0, MEMBER: 1/8
    """),
    ("MPI: the wrong interfaces", "mpi-nics", "cause", """
        At least one pair of MPI processes are unable to reach each other for
        MPI communications.  This means that no Open MPI device has indicated
    """),
    ("MPI: a process that aborted", "process-ended", "consequence", """
        prterun noticed that process rank 7 with PID 0 on node n4 exited on signal 6 (Aborted).
    """),
    ("DeepSpeed: another nvcc", "cuda-mismatch", "cause", """
        [rank0]: deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: Installed CUDA version 11.8 does not match the version torch was compiled with 12.1, unable to compile cuda/cpp extensions without a matching cuda version.
    """),
    ("data that is on one host alone", "ssh-path", "cause", """
        gpu2: Traceback (most recent call last):
        gpu2: FileNotFoundError: [Errno 2] No such file or directory: '/data/corpus/train.bin'
    """),
    ("another user's directory", "file-denied", "cause", """
        PermissionError: [Errno 13] Permission denied: '/nfs/run7/last.pt'
    """),
    ("a file system that went away", "io-error", "cause", """
        OSError: [Errno 5] Input/output error: '/nfs/run7/last.pt'
    """),
    ("a checkpoint that is half", "file-broken", "cause", """
        [rank5]: RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory
    """),
    ("an older processor", "sigill", "component", """
        run.sh: line 3: 12345 Illegal instruction     (core dumped) python train.py
    """),
    ("a host of another architecture", "exec-format", "cause", """
        gpu5: bash: /opt/env/bin/python: cannot execute binary file: Exec format error
    """),
    ("Slurm: no such program there", "ssh-nocmd", "cause", """
        slurmstepd: error: execve(): torchrun: No such file or directory
        srun: error: n03: task 5: Exited with exit code 2
    """),
    ("vLLM: no GPU", "cuda-no-gpu", "cause", """
        RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` to turn on verbose logging
    """),
]  # fmt: skip


@pytest.mark.parametrize(("_title", "name", "verdict", "text"), FAILURES, ids=[title for title, *_ in FAILURES])
def test_what_failed_is_told_and_how_sure_that_is(_title: str, name: str, verdict: Verdict, text: str) -> None:
    diagnosis = explained(text)
    assert diagnosis.found is not None
    assert (diagnosis.found.id, diagnosis.verdict) == (name, verdict)
    assert diagnosis.found.fix


@pytest.mark.parametrize(
    "before",
    [
        "gpu1 3 | ",
        "3: ",
        "[1,3]<stderr>:",
        "[rank3]: ",
        "Jan  2 03:04:05 gpu9 python[77]: ",
        "2026-01-02 03:04:05,678 ",
    ],
)
def test_what_stands_before_the_lines_hides_none_of_it(before: str) -> None:
    for title, name, verdict, text in FAILURES:
        diagnosis = explained("\n".join(before + line for line in dedent(text).strip("\n").split("\n")))
        assert diagnosis.found is not None, title
        assert (diagnosis.found.id, diagnosis.verdict) == (name, verdict), title


def test_who_only_waited_is_explained_by_whatever_failed_elsewhere() -> None:
    waited = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE)"
    failed = "step 9 loss 0.4\nx\ny\nRuntimeError: PytorchStreamWriter failed writing file data/41: file write failed"
    diagnosis = explained(waited, failed)
    assert diagnosis.found is not None
    assert (diagnosis.found.id, diagnosis.others) == ("write-failed", ())
    assert [fault.id for fault in diagnosis.consequences] == ["watchdog"]


def test_an_address_that_torch_makes_up_is_in_no_command() -> None:
    """So it prints them where no name is found; the address was 10.20.0.9."""
    found = explained(
        "[W1201 05:32:49.541667000 socket.cpp:764] [c10d] The client socket has failed to connect to "
        "[2430:0:7532:0:7ffc::]:6075 (errno: 113 - No route to host).\n"
        "[W1201 05:32:52.612189034 socket.cpp:764] [c10d] The client socket has failed to connect to "
        "145.85.0.0:6078 (errno: 113 - No route to host).\n"
    ).found
    assert found is not None
    assert found.id == "conn-noroute"
    assert "2430:" not in found.cause + str(found.fix)
    assert "145.85" not in found.cause + str(found.fix)
