"""DDP, Horovod, TensorFlow, Paddle, JAX: ranks that do not do the same, or wait for one that does not come."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import LAUNCH, again, here, say, there

_STALL = again("--stall 5m", "shows where each rank waits")

SIGNATURES = (
    Signature(
        id="ddp-unused",
        title="Parameters of the model took no part in the loss",
        weight=Weight.CAUSE,
        words=("Expected to have finished reduction in the prior iteration",),
        sample="RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",
        cause="DDP waits for a gradient of every parameter, and in this step some have none (a branch that is "
        "not taken, a head that is not used).",
        cure=(
            say(
                "DistributedDataParallel(model, find_unused_parameters=True) in the script, or leave these "
                "parameters out."
            ),
            again("--env TORCH_DISTRIBUTED_DEBUG=DETAIL", "names them"),
        ),
    ),
    Signature(
        id="ddp-twice",
        title="A parameter's gradient came twice in one step",
        weight=Weight.CAUSE,
        words=("Expected to mark a variable ready only once",),
        sample="RuntimeError: Expected to mark a variable ready only once.",
        cause="Activation checkpointing that re-enters, a module that is used twice, or two forward passes "
        "before one backward pass.",
        cure=(
            say(
                "Give checkpoint() use_reentrant=False, and DistributedDataParallel static_graph=True where each "
                "step "
                "is alike."
            ),
            again("--env TORCH_DISTRIBUTED_DEBUG=DETAIL", "names the parameter"),
        ),
        likely=True,
    ),
    Signature(
        id="ddp-model",
        title="The ranks have different models",
        weight=Weight.CAUSE,
        words=("DDP expects same model across all ranks", "appears not to match"),
        pattern=r"DDP expects same model across all ranks|"
        r"params\[\d+\] in (?:this process|rank).* appears not to match",
        sample="RuntimeError: DDP expects same model across all ranks, but Rank 0 has 160 params, while rank 1 "
        "has inconsistent 0 params.",
        cause="Another version of the code, of a library or of the configuration on some node, or a model that "
        "depends on the rank's data.",
        cure=(
            here(LAUNCH, note="sends the same code to all nodes"),
            here("ncclrun ping {cluster}", note="Python and torch of each node"),
        ),
    ),
    Signature(
        id="collectives-differ",
        title="The ranks call different collectives",
        weight=Weight.CAUSE,
        words=(
            "Detected mismatch between collectives on ranks",
            "Mismatched allreduce",
            "Mismatched allgather",
            "Mismatched broadcast",
            "Mismatched data types",
            "Mismatched MPI operations",
            "inconsistent shapes in the collective",
            "Shape mismatch in the collective",
        ),
        sample="RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
        "CollectiveFingerPrint(OpType=ALLREDUCE), but Rank 0 is running collective: "
        "CollectiveFingerPrint(OpType=BROADCAST).",
        cause="The program takes another way on some ranks, or their tensors have other shapes (a last batch, "
        "data of different length).",
        cure=(
            say(
                "Compare the two collectives that the line names: what comes before them in the script depends "
                "on the rank or its data."
            ),
            _STALL,
        ),
        over=("size-mismatch",),
    ),
    Signature(
        id="barrier-rank",
        title="A rank did not come to a barrier",
        weight=Weight.COMPONENT,
        words=(
            "failed to pass monitoredBarrier",
            "store based barrier",
            "Barrier timed out",
            "Timed out after waiting for barrier",
        ),
        pattern=r"Ranks? [\d, ]+ failed to pass monitoredBarrier|"
        r"Timed out initializing process group in store based barrier on rank.*world_size=\d+, "
        r"worker_count=\d+|"
        r"Waiting in store based barrier to initialize process group for rank: \d+.*"
        r"world_size=\d+, worker_count=\d+|Barrier timed out",
        sample="RuntimeError: Timed out initializing process group in store based barrier on rank: 2, for key: "
        "store_based_barrier_key:1 (world_size=8, worker_count=4, timeout=0:30:00)",
        cause="It was not started, died before, or hangs. With more workers than the world's size an earlier "
        "run's processes are still there, or the nodes were started with different sizes.",
        cure=(here("ncclrun status --cluster {cluster}", note="what still lives where"), _STALL),
        network=True,
        waiting=True,
    ),
    Signature(
        id="group-missing",
        title="The process group was used before it was made",
        weight=Weight.CAUSE,
        words=("Default process group has not been initialized",),
        sample="ValueError: Default process group has not been initialized, please make sure to call "
        "init_process_group.",
        cause="The script calls torch.distributed before init_process_group, or was started as a single process.",
        cure=(
            here(LAUNCH, note="gives each worker its rank and size"),
            say("And torch.distributed.init_process_group() first in the script."),
        ),
    ),
    Signature(
        id="horovod-stalled",
        title="Some ranks did not hand in a tensor that the others wait for",
        weight=Weight.COMPONENT,
        words=("are waiting for remainder of ranks", "missing ranks: ", "Missing ranks:"),
        pattern=r"waiting for remainder of ranks|\[missing ranks: [\d, ]+\]|^Missing ranks:",
        sample="[2025-02-03 04:05:06: W horovod/common/stall_inspector.cc:107] One or more tensors were "
        "submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for "
        "remainder of ranks for more than 60 seconds.",
        cause="These ranks died, are still busy with data, or take another way through the program.",
        cure=(say("Look at the logs of the ranks that it names as missing."), _STALL),
        over=("closed-remote", "process-ended"),
        network=True,
        waiting=True,
    ),
    Signature(
        id="horovod-nics",
        title="Horovod finds no network that all hosts have",
        weight=Weight.CAUSE,
        words=(
            "Unable to find a set of common task-to-task communication interfaces",
            "Unable to find common interfaces",
        ),
        sample="Exception: Unable to find a set of common task-to-task communication interfaces: [(0, {'eth0': "
        "[('10.20.0.1', 4711)]})]",
        cause="The hosts' interfaces have different names, or the ones that are alike do not reach each other.",
        cure=(
            here(
                "ncclrun resolve {cluster}",
                note="which interface joins the nodes: horovodrun --network-interfaces wants their names",
            ),
        ),
        network=True,
    ),
    Signature(
        id="tf-peer",
        title="TensorFlow can't reach a worker of its cluster",
        weight=Weight.COMPONENT,
        words=("failed to connect to all addresses", "Check health failed", "Collective ops is aborted by"),
        pattern=r"failed to connect to all addresses|Check health failed|Collective ops is aborted by: (?!.*[Ss]hape)",
        sample="tensorflow.python.framework.errors_impl.UnavailableError: failed to connect to all addresses",
        cause="A worker that TF_CONFIG names was not started, has ended, or its port is closed by a firewall.",
        cure=(
            here("ncclrun ping {cluster}", note="who reaches whom, and what to open"),
            say(
                "Look at the end of that worker's log, and at TF_CONFIG: the same cluster everywhere, the index "
                "its own."
            ),
        ),
        network=True,
    ),
    Signature(
        id="heartbeat-lost",
        title="A task stopped to answer the coordinator",
        weight=Weight.CONSEQUENCE,
        words=("stopped sending heartbeats", "heartbeat timeout"),
        pattern=r"stopped sending heartbeats|[Tt]ask .*(?:heartbeat timeout|unhealthy)",
        sample="UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats): "
        "/job:jax_worker/replica:0/task:1",
        cause="It died, was killed for want of memory, or its machine or network went away.",
        cure=(say("Look at the end of that task's log: the first error there is the cause."),),
        network=True,
    ),
    Signature(
        id="paddle-wait",
        title="Paddle waits for a trainer that does not answer",
        weight=Weight.COMPONENT,
        words=("not ready endpoints", "connect addr="),
        pattern=r"not ready endpoints:\[|"
        r"connect addr=(?P<address>[^\s:]+):\d+ failed \d+ times",
        sample="not ready endpoints:['10.20.0.2:6171']",
        cause="That trainer was not started, has ended, or listens on another address than "
        "PADDLE_TRAINER_ENDPOINTS says.",
        cure=(
            there("getent ahosts {address}", note="what its name stands for there"),
            here("ncclrun ping {cluster}", note="who reaches whom, and what to open"),
        ),
        network=True,
    ),
    Signature(
        id="hub-offline",
        title="A node has no way to the hub that it loads a model or data from",
        weight=Weight.CAUSE,
        words=("We couldn't connect to", "LocalEntryNotFoundError", "Couldn't reach", "Max retries exceeded with url"),
        pattern=r"We couldn't connect to '(?P<name>[^']+)'|LocalEntryNotFoundError|"
        r"ConnectionError: Couldn't reach (?P<name_>.+)|"
        r"HTTPS?ConnectionPool\(host='(?P<name__>[^']+)'.*Max retries exceeded",
        sample="OSError: We couldn't connect to 'https://hub.example' to load this file, couldn't find it in the "
        "cached files",
        cause="{host} can't reach {name}: it has no internet, or needs a proxy; the cache of this user on that "
        "host does not have the file.",
        cure=(
            again("--env HF_HUB_OFFLINE=1", "once the files are in the cache of every node"),
            say("Or HTTPS_PROXY in launch.env of the cluster file, where there is a proxy."),
        ),
        doctor=("proxy",),
    ),
)
