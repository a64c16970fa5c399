"""Slurm, Kubernetes, Ray, MPI: jobs that they end, or don't let start."""

from __future__ import annotations

from ncclrun.diagnosis.explain.signature import Signature, Weight
from ncclrun.diagnosis.explain.steps import here, say, there

SIGNATURES = (
    Signature(
        id="time-limit",
        title="The job's time was over",
        weight=Weight.CAUSE,
        words=("DUE TO TIME LIMIT", "DeadlineExceeded", "was active longer than specified deadline"),
        pattern=r"(?:JOB|STEP) (?P<job>\d+)\S* (?:ON \S+ )?CANCELLED.*DUE TO TIME LIMIT|"
        r"DUE TO TIME LIMIT|DeadlineExceeded|was active longer than specified deadline",
        sample="slurmstepd: error: *** JOB 4711 ON n07 CANCELLED AT 2025-02-03T04:05:06 DUE TO TIME LIMIT ***",
        cause="The scheduler ended it at the limit that it was submitted with. Where its last lines are much "
        "older than that, it had hung before.",
        cure=(
            here("scontrol show job {job}", "kubectl get events --sort-by=.lastTimestamp", note="the limit"),
            say(
                "Submit it with a longer limit (#SBATCH --time, activeDeadlineSeconds), or go on from the last "
                "checkpoint."
            ),
        ),
        over=("slurm-cancelled", "told-to-stop", "sigkill", "process-ended"),
    ),
    Signature(
        id="node-failed",
        title="A node went down, or out of the scheduler's sight",
        weight=Weight.CAUSE,
        words=(
            "DUE TO NODE FAILURE",
            "Node failure on",
            "NodeLost",
            "NodeShutdown",
            "lost communication with a remote daemon",
            "has been marked dead because the detector",
        ),
        pattern=r"(?:JOB|STEP) (?P<job>\d+)\S* (?:ON \S+ )?CANCELLED.*DUE TO NODE FAILURE|"
        r"DUE TO NODE FAILURE|Node failure on (?P<node>[^\s,]+)|\bNode(?:Lost|Shutdown)\b|"
        r"lost communication with a remote daemon|[Tt]he node with node id.* has been marked dead because",
        sample="srun: error: Node failure on n12",
        cause="The machine crashed, was restarted, or its network was cut; whatever the other nodes print is a "
        "consequence.",
        cure=(
            here(
                "scontrol show node {node}",
                "scontrol show job {job}",
                "ncclrun ping {cluster}",
                note="its state, and the reason",
            ),
            here("ssh {node} uptime", note="whether it was restarted"),
        ),
        over=("slurm-cancelled", "told-to-stop", "sigkill", "process-ended"),
    ),
    Signature(
        id="preempted",
        title="The scheduler took the node for another job",
        weight=Weight.CAUSE,
        words=("DUE TO PREEMPTION", "DUE TO JOB REQUEUE", "this job is preempted", "Preempted by", "Preempting"),
        pattern=r"(?:JOB|STEP) (?P<job>\d+)\S* (?:ON \S+ )?CANCELLED.*DUE TO (?:PREEMPTION|JOB REQUEUE)|"
        r"DUE TO PREEMPTION|this job is preempted|Preempted by \S+|\bPreempting\b.*\bpod\b",
        sample="slurmstepd: error: *** STEP 815.0 ON n03 CANCELLED AT 2025-02-03T04:05:06 DUE TO PREEMPTION ***",
        cause="A job of higher priority came. A requeued one starts again by itself, from its last checkpoint if "
        "the script reads one.",
        cure=(
            here(
                "scontrol show job {job}",
                "kubectl get events --sort-by=.lastTimestamp",
                note="whether it waits to start again",
            ),
            say("Write checkpoints often, and at the signal that comes before (#SBATCH --signal)."),
        ),
        over=("slurm-cancelled", "told-to-stop", "sigkill", "process-ended"),
    ),
    Signature(
        id="evicted",
        title="Kubernetes put the pod out",
        weight=Weight.CAUSE,
        words=("Evicted", "The node was low on resource", "Pod ephemeral local storage usage exceeds"),
        pattern=r"\bEvicted\b|The node was low on resource: (?P<value>[\w-]+)|"
        r"Pod ephemeral local storage usage exceeds",
        sample="  Warning  Evicted  2m  kubelet  The node was low on resource: ephemeral-storage.",
        cause="The node ran short of {value} (memory, or disk for logs, caches and /tmp), or the pod used more "
        "than it asked for.",
        cure=(
            here("kubectl get events --sort-by=.lastTimestamp", note="which resource, and how much of it"),
            say("Ask for as much in the pod's requests and limits, and write caches and checkpoints to a volume."),
        ),
        over=("told-to-stop", "sigkill", "process-ended"),
    ),
    Signature(
        id="slurm-cancelled",
        title="Slurm ended the job step",
        weight=Weight.CONSEQUENCE,
        words=("CANCELLED AT", "srun: Terminating job step", "srun: Job step aborted"),
        pattern=r"(?:JOB|STEP) (?P<job>\d+)\S* (?:ON \S+ )?CANCELLED AT|"
        r"srun: (?:Terminating job step (?P<job_>\d+)|Job step aborted)",
        sample="slurmstepd: error: *** STEP 815.0 ON n03 CANCELLED AT 2025-02-03T04:05:06 ***",
        cause="A task of it failed and srun stopped the others (--kill-on-bad-exit), or somebody cancelled it.",
        cure=(
            here(
                "sacct -j {job} --format=JobID,NodeList,State,ExitCode,Elapsed,MaxRSS",
                note="what Slurm knows of the job",
            ),
            say("Look at the task that ended first: its own log has the cause."),
        ),
    ),
    Signature(
        id="slurm-refused",
        title="Slurm does not give what was asked for",
        weight=Weight.CAUSE,
        words=("Unable to allocate resources", "Unable to create step for job", "Batch job submission failed"),
        pattern=r"(?:Unable to allocate resources|Unable to create step for job \d+|Batch job submission failed): "
        r"(?P<value>.+)",
        sample="srun: error: Unable to create step for job 4711: Requested node configuration is not available",
        cause="{value}: no node has as many GPUs, CPUs or as much memory, or the step asks for more than the job has.",
        cure=(
            here("sinfo -N -o '%N %G %c %m %T'", note="what each node has, and its state"),
            say("Ask for that much in the job and in srun."),
        ),
        likely=True,
    ),
    Signature(
        id="pod-pending",
        title="Kubernetes finds no node for the pod",
        weight=Weight.CAUSE,
        words=("nodes are available",),
        pattern=r"\d+/\d+ nodes are available: (?P<value>.+)",
        sample="Warning  FailedScheduling  0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
        cause="{value} The others wait for this pod until their time-out.",
        cure=(here("kubectl describe nodes | grep -A9 'Allocated resources'", note="what each node has left"),),
        over=("rdzv-timeout", "store-clients", "store-timeout"),
    ),
    Signature(
        id="mpi-start",
        title="MPI could not start its daemon on a host",
        weight=Weight.COMPONENT,
        words=(
            "was unable to reliably start one or more daemons",
            "daemon has unexpectedly failed after launch",
            "HYDU_sock_connect",
            "unable to launch the specified application",
        ),
        sample="ORTE was unable to reliably start one or more daemons.",
        cause="SSH does not let in without a question, mpirun is not on the PATH of a session without a "
        "terminal, or a firewall keeps the daemon from calling back.",
        cure=(
            here("ncclrun ping {cluster}", note="which host does not let in, or can't be reached"),
            say(
                "Give mpirun --prefix with its installation there, where a session without a terminal does not find it."
            ),
        ),
        network=True,
    ),
    Signature(
        id="mpi-slots",
        title="More processes than MPI has slots for",
        weight=Weight.CAUSE,
        words=("not enough slots available",),
        sample="There are not enough slots available in the system to satisfy the 16",
        cause="The host list gives one slot a host where none is said, or fewer than -np asks for.",
        cure=(say("Write the number of GPUs behind each host: -H with gpu1:8,gpu2:8, or slots=8 in the host file."),),
    ),
    Signature(
        id="ray-gcs",
        title="Ray's head node can't be reached",
        weight=Weight.COMPONENT,
        words=("Failed to connect to GCS", "Could not connect to GCS", "Unable to connect to GCS", "Ray cluster at"),
        pattern=r"(?:Failed|Could not|Unable) to connect to GCS(?: at address (?P<address>[^\s:]+):\d+)?"
        r"|Ray cluster at \S+ .{0,40}(?:not found|could not)",
        sample="Failed to connect to GCS at address 10.20.0.1:6379 within 5 seconds.",
        cause="Nothing answers at {address}: ray start --head does not run there, took another address, or a "
        "firewall is between.",
        cure=(
            there("getent ahosts {address}", note="what its name stands for there"),
            here("ncclrun ping {cluster}", note="who reaches whom, and what to open"),
        ),
        network=True,
    ),
    Signature(
        id="ray-resources",
        title="Ray has fewer GPUs or nodes than the job asks for",
        weight=Weight.CAUSE,
        words=(
            "No available node types can fulfill resource request",
            "exceeds the total number of available GPUs",
            "Current node has no GPU available",
            "No CUDA GPUs found in the cluster",
        ),
        sample="ValueError: The number of required GPUs exceeds the total number of available GPUs in the "
        "placement group.",
        cause="A node did not join the cluster (its ray start failed, or it sees no GPU), or the parallel size "
        "is larger than what there is.",
        cure=(here("ray status", note="the nodes and GPUs that joined"),),
    ),
    Signature(
        id="ray-same-address",
        title="Two of Ray's nodes have the same address",
        weight=Weight.CAUSE,
        words=("Every node should have a unique IP address",),
        sample="RuntimeError: Every node should have a unique IP address. Got 2 nodes with node ids ['a1', 'b2'] "
        "and 1 unique IP addresses {'10.20.0.1'}.",
        cause="VLLM_HOST_IP (or ray start --node-ip-address) was set to one value for all; each node must have "
        "its own.",
        cure=(
            here("ncclrun resolve {cluster}", note="the address of each node"),
            say("Set VLLM_HOST_IP to it on each node before ray start, not in the job."),
        ),
    ),
    Signature(
        id="mpi-nics",
        title="MPI's processes take interfaces that do not reach each other",
        weight=Weight.CAUSE,
        words=(
            "At least one pair of MPI processes are unable to reach each other",
            "received unexpected process identifier",
            "Two mutually-exclusive MCA variables",
        ),
        sample="[n2][[22157,1],4][btl_tcp_endpoint.c:626:mca_btl_tcp_endpoint_recv_connect_ack] received "
        "unexpected process identifier [[22157,1],7]",
        cause="Open MPI tries every interface, also those that several hosts have alike (docker0, virbr0); two "
        "settings that exclude each other make it worse.",
        cure=(
            here(
                "ncclrun resolve {cluster}",
                note="which interface joins the nodes: mpirun --mca btl_tcp_if_include wants its name, or its subnet",
            ),
        ),
        network=True,
    ),
    Signature(
        id="mpi-pmi",
        title="srun started MPI processes that do not find each other",
        weight=Weight.CAUSE,
        words=("but OMPI was not built with SLURM", "PMI server not found", "PMI2_Job_GetId failed"),
        sample='The application appears to have been direct launched using "srun", but OMPI was not built with '
        "SLURM support. This usually happens",
        cause="srun and the MPI library do not speak the same PMI.",
        cure=(
            here("srun --mpi=list", note="what this Slurm speaks: srun --mpi=pmix mostly fits"),
            say("Or start mpirun within the job in place of srun."),
        ),
    ),
)
