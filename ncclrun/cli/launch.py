"""`ncclrun launch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ncclrun.cli.options import ASK_PASS, HOSTS, JSON, NODES, STALL, STALL_ACTION
from ncclrun.cli.running import find_cluster, may_clean, open_transport, signals, tell

if TYPE_CHECKING:
    from ncclrun.commands.launch import Launch
    from ncclrun.commands.retry import Attempts
    from ncclrun.model.job import JobSpec


class LaunchCommand(TyperCommand):
    """Takes options before CLUSTER and between CLUSTER and SCRIPT; what follows SCRIPT is the script's own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Moves the options behind CLUSTER before it, since parsing stops at the first word that is none."""
        ctx.allow_interspersed_args = False
        parser = self.make_parser(ctx)
        options, _, _ = parser.parse_args(args=list(args))
        rest = list(options.get("words") or ())
        if rest[1:] and rest[0].endswith(".py") and "hosts" not in options:
            from ncclrun.model.errors import UsageError

            fix = f"ncclrun launch CLUSTER {rest[0]} …"
            raise UsageError(f"{rest[0]} is a script, not a cluster file, which comes first", fix=fix)
        if rest and "hosts" not in options:
            script = parser.parse_args(args=rest[1:])[0].get("words") or ()
            before, between = args[: len(args) - len(rest)], rest[1 : len(rest) - len(script)]
            args = [*before, *between, rest[0], *script]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words as a person reads them."""
        return ["[OPTIONS]", "CLUSTER", "SCRIPT", "[ARGS]..."]


def launch(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="CLUSTER SCRIPT [ARGS]", help="CLUSTER is left out with --hosts.")
    ] = None,
    hosts: Annotated[str | None, HOSTS] = None,
    module: Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a Python module, as in python -m.")] = False,
    launcher: Annotated[
        str, typer.Option(help="torchrun, or exec: any command, once a rank.", metavar="torchrun|exec")
    ] = "torchrun",
    nodes: Annotated[str | None, NODES] = None,
    nproc_per_node: Annotated[str | None, typer.Option(help="Workers a node.", metavar="N|auto")] = None,
    master_port: Annotated[str | None, typer.Option(help="Port on node 0.", metavar="PORT|auto")] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", help="K=V sets it for all workers, K passes on this shell's value.", metavar="K[=V]"),
    ] = None,
    workdir: Annotated[str | None, typer.Option(help="Directory that the nodes have; nothing is sent.")] = None,
    python: Annotated[str | None, typer.Option(help="The training's Python on the nodes.")] = None,
    run_id: Annotated[str | None, typer.Option(help="Name of the run; by default made of the time.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and start nothing.")] = False,
    detach: Annotated[
        bool, typer.Option("-d", "--detach", help="Leave the run to its nodes once it runs; stdout has its id alone.")
    ] = False,
    json: Annotated[bool, JSON] = False,
    ranks: Annotated[str | None, typer.Option(help="Ranks to print (0, 0-3, !5); all are kept.", metavar="SEL")] = None,
    grace: Annotated[float | None, typer.Option(help="Seconds between SIGTERM and SIGKILL.", min=0, max=3600)] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Stop the run after so many seconds (exit code 124).", min=0.001)
    ] = None,
    stall: Annotated[str | None, STALL] = None,
    stall_action: Annotated[str, STALL_ACTION] = "report",
    no_sync: Annotated[
        bool, typer.Option("--no-sync", help="Send nothing: the nodes have this directory under the same path.")
    ] = False,
    share_gpus: Annotated[
        bool, typer.Option("--share-gpus", help="Start also where another run has the GPUs, and let others share them.")
    ] = False,
    clean_leftovers: Annotated[
        bool, typer.Option("--clean-leftovers", help="End what dead runs of yours left on the nodes, then start.")
    ] = False,
    retries: Annotated[
        int | None, typer.Option(help="Start again, so many times at most, when a node is lost.", min=1, max=1000)
    ] = None,
    spares: Annotated[
        str | None,
        typer.Option(help="Nodes held back for --retries, each to take a lost one's place.", metavar="SEL"),
    ] = None,
    min_nodes: Annotated[
        int | None, typer.Option(help="--retries go on with as few nodes as that, without a spare.", min=1)
    ] = None,
    retry_on: Annotated[
        str | None,
        typer.Option(help="failure: also when a rank fails; lost (default): not then.", metavar="lost|failure"),
    ] = None,
    checkpoint_dir: Annotated[
        str | None,
        typer.Option(help="NCCLRUN_CHECKPOINT_DIR of the script: a directory on the nodes, made if missing."),
    ] = None,
    ask_pass: Annotated[bool, ASK_PASS] = False,
) -> None:
    """Run a script on all nodes of a cluster.

    What follows SCRIPT is its own, byte for byte.
    """
    import os
    from dataclasses import replace

    from ncclrun.commands.launch import Launch
    from ncclrun.commands.options import hold_back, job_from_options, retry_options, stall_options
    from ncclrun.commands.retry import Attempts
    from ncclrun.model.errors import EXIT_NOT_STARTED, UsageError
    from ncclrun.planning.hostlist import check_ranks

    rest = list(words or [])
    cluster_word = None if hosts is not None else (rest.pop(0) if rest else None)
    if not rest:
        raise UsageError(
            "launch needs a cluster and a script",
            fix="ncclrun launch CLUSTER SCRIPT [ARGS]…   or   ncclrun launch --hosts a,b SCRIPT [ARGS]…",
        )
    if ranks is not None:
        check_ranks(ranks)
    retry = retry_options(retries, spares, min_nodes, retry_on, detach=detach)
    cluster, held = hold_back(find_cluster(cluster_word, hosts, None), nodes, spares, min_nodes)
    job = job_from_options(
        program=rest[0],
        args=tuple(rest[1:]),
        module=module,
        launcher=launcher,
        nproc_per_node=nproc_per_node,
        master_port=master_port,
        env=env or [],
        environ=os.environ,
        workdir=workdir,
        python=python,
        run_id=run_id,
        grace=grace,
        timeout=timeout,
        sync=not no_sync,
        stall=stall_options(stall, stall_action),
        share_gpus=share_gpus,
        clean_leftovers=clean_leftovers,
        checkpoint_dir=checkpoint_dir,
    )
    with signals() as control, open_transport(ask_pass, cluster) as transport:

        def made(job: JobSpec) -> Launch | Attempts:
            if retry is not None and not dry_run:
                return Attempts(cluster, held, job, retry, transport, control, os.environ)
            return Launch(cluster, job, transport, control, os.environ, dry_run=dry_run, detach=detach)

        command = made(job)
        aside = detach and not dry_run
        code = tell(command.events(), control, json=json, ranks=ranks, plan=dry_run, unread=True, aside=aside)
        if code == EXIT_NOT_STARTED and command.met_leftovers and not clean_leftovers and may_clean(control, json=json):
            command = made(replace(job, clean_leftovers=True))
            code = tell(command.events(), control, json=json, ranks=ranks, unread=True, aside=aside)
        raise typer.Exit(code or 0)
