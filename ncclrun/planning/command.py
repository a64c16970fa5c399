"""The command lines: torchrun's for a node, or the user's own for each rank."""

from __future__ import annotations

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
    max_restarts: int,
) -> tuple[str, ...]:
    """One node's torchrun with the static rendezvous, running each worker through worker.sh.

    ``--rdzv-id`` is always given: without it two jobs that meet on one port join each other. ``--node-rank`` counts
    with the static rendezvous only, which also needs no host names.
    """
    return (
        python,  # by module, since PATH is short in a login without a terminal
        "-m",
        "torch.distributed.run",
        f"--nnodes={nnodes}",
        f"--nproc-per-node={nproc}",
        f"--node-rank={node_rank}",
        "--rdzv-backend=static",
        f"--rdzv-id={run_id}",
        f"--master-addr={master_addr}",
        f"--master-port={master_port}",
        f"--local-addr={local_addr}",
        f"--max-restarts={max_restarts}",
        # The node reads how a worker ended before torchrun looks and reaps it; its default of 0.1 s makes that a race.
        "--monitor-interval=0.5",
        "--log-dir",
        f"{RUN}/torch",
        "--no-python",
        "/bin/sh",
        WORKER,
        *worker_command(job, python),
    )


def worker_command(job: JobSpec, python: str) -> tuple[str, ...]:
    """What one worker runs; the user's arguments come last, untouched."""
    if job.kind == "command":
        return (job.program, *job.args)
    if job.kind == "module":
        return (python, "-u", "-m", job.program, *job.args)
    return (python, "-u", job.program, *job.args)
