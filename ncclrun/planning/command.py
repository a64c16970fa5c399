"""The command lines: torchrun's for a node, or the user's own for each rank."""

from __future__ import annotations

from ncclrun.model.cluster import Launch
from ncclrun.model.job import JobSpec

RUN = "@RUN@"
"""Stands for the run directory on the node, as an element of ``argv`` or at its start, before a slash."""
WORKER = "@WORKER@"
"""Stands for the path of worker.sh on the node, as a whole element."""


def torchrun_command(
    job: JobSpec,
    python: str,
    *,
    run_id: str,
    nnodes: int,
    nproc: int,
    node_rank: int,
    master_addr: str,
    master_port: str,
    local_addr: str,
    launch: Launch,
) -> tuple[str, ...]:
    """One node's torchrun, running each worker through worker.sh.

    ``--rdzv-id`` is always given: without it two jobs that meet on one port join each other. ``--local-addr`` is what
    the others are told of this node: without it that would be its host name, which may lead anywhere.
    """
    return (
        python,  # by module, since PATH is short in a login without a terminal
        "-m",
        "torch.distributed.run",
        *_rendezvous(job, launch.rendezvous, nnodes, node_rank, master_addr, master_port),
        f"--nproc-per-node={nproc}",
        f"--rdzv-id={run_id}",
        f"--local-addr={local_addr}",
        f"--max-restarts={launch.max_restarts}",
        # The node reads how a worker ended before torchrun looks and reaps it; its default of 0.1 s makes that a race.
        "--monitor-interval=0.5",
        "--log-dir",
        f"{RUN}/torch",
        "--no-python",
        "/bin/sh",
        WORKER,
        *worker_command(job, python),
    )


def _rendezvous(
    job: JobSpec, backend: str, nnodes: int, node_rank: int, master_addr: str, master_port: str
) -> tuple[str, ...]:
    """How the nodes find each other. ``--node-rank`` counts with the static rendezvous only."""
    if backend == "static":
        return (
            f"--nnodes={nnodes}",
            f"--node-rank={node_rank}",
            "--rdzv-backend=static",
            f"--master-addr={master_addr}",
            f"--master-port={master_port}",
        )
    least = min(job.min_nodes or nnodes, nnodes)
    address = f"[{master_addr}]" if ":" in master_addr else master_addr
    return (
        f"--nnodes={least}:{nnodes}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={address}:{master_port}",
        # Said to each: torchrun's own guess, by host names, may find two hosts or none.
        f"--rdzv-conf=is_host={int(node_rank == 0)}",
    )


def worker_command(job: JobSpec, python: str) -> tuple[str, ...]:
    """What one worker runs; the user's arguments come last, untouched."""
    if job.kind == "command":
        return (job.program, *job.args)
    if job.kind == "module":
        return (python, "-u", "-m", job.program, *job.args)
    return (python, "-u", job.program, *job.args)
