"""Options as typed become values, or a UsageError that says what is wanted."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from ncclrun.commands.amounts import duration
from ncclrun.commands.history import check_run_id
from ncclrun.model.cluster import ClusterSpec, Node
from ncclrun.model.errors import UsageError
from ncclrun.model.events import Stream
from ncclrun.model.job import JobSpec, Retry, Stall
from ncclrun.planning.hostlist import select

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def job_from_options(
    *,
    program: str,
    args: tuple[str, ...],
    module: bool,
    launcher: str,
    nproc_per_node: str | None,
    master_port: str | None,
    env: Sequence[str],
    environ: Mapping[str, str],
    workdir: str | None,
    python: str | None,
    run_id: str | None,
    grace: float | None,
    timeout: float | None,
    sync: bool,
    stall: Stall | None = None,
    share_gpus: bool = False,
    clean_leftovers: bool = False,
    checkpoint_dir: str | None = None,
) -> JobSpec:
    """The job of a `launch` command line; ``environ`` gives the values for ``--env NAME``."""
    if launcher not in ("torchrun", "exec"):
        raise UsageError(f"--launcher {launcher!r} is not known", fix="--launcher torchrun or --launcher exec")
    if module and launcher == "exec":
        raise UsageError(
            "-m goes with torchrun; --launcher exec runs a command", fix=f"--launcher exec … python -m {program}"
        )
    for option, path in (("--workdir", workdir), ("--checkpoint-dir", checkpoint_dir)):
        if path is not None and not path.startswith(("/", "~")):
            raise UsageError(f"{option} {path!r} depends on where one stands", fix="write it from / or ~ on")
    kind: Literal["script", "module", "command"] = "module" if module else "script"
    return JobSpec(
        kind="command" if launcher == "exec" else kind,
        program=program,
        args=args,
        launcher="exec" if launcher == "exec" else "torchrun",
        run_id=None if run_id is None else check_run_id(run_id),
        nproc_per_node=number_or_auto("--nproc-per-node", nproc_per_node, 1, 1024),
        master_port=number_or_auto("--master-port", master_port, 1, 65535),
        python=python,
        workdir=workdir,
        grace=_finite("--grace", grace),
        timeout=_finite("--timeout", timeout),
        env=environment_options(env, environ),
        from_shell=frozenset(name for name, typed in _typed(env).items() if not typed),
        sync=sync,
        stall=stall,
        share_gpus=share_gpus,
        clean_leftovers=clean_leftovers,
        checkpoint_dir=checkpoint_dir,
    )


def retry_options(
    retries: int | None, spares: str | None, min_nodes: int | None, retry_on: str | None, *, detach: bool
) -> Retry | None:
    """``--retries`` and what goes with it; None where nobody asked for it."""
    if retry_on not in (None, "lost", "failure"):
        raise UsageError(f"--retry-on {retry_on!r} is not known", fix="--retry-on lost or --retry-on failure")
    if retries is None:
        rest = {"--spares": spares, "--min-nodes": min_nodes, "--retry-on": retry_on}
        alone = next((option for option, value in rest.items() if value is not None), None)
        if alone is not None:
            raise UsageError(f"{alone} is for runs that are tried again", fix=f"add  --retries 3  to {alone}")
        return None
    if detach:
        raise UsageError(
            "--retries are made by the ncclrun that follows the run, and --detach leaves it",
            fix="leave one of the two out; in tmux, or by nohup, an ncclrun stays when you go",
        )
    return Retry(times=retries, min_nodes=min_nodes, on_failure=retry_on == "failure")


def _finite(option: str, seconds: float | None) -> float | None:
    if seconds is not None and not math.isfinite(seconds):
        raise UsageError(f"{option} {seconds}: a number of seconds is wanted")
    return seconds


def stall_options(after: str | None, action: str) -> Stall | None:
    """``--stall`` and ``--stall-action``; None where nobody asked for it."""
    if action not in ("report", "stop"):
        raise UsageError(f"--stall-action {action!r} is not known", fix="--stall-action report or --stall-action stop")
    if after is None and action == "stop":
        raise UsageError("--stall-action stop needs to know after how long", fix="--stall 10m --stall-action stop")
    return None if after is None else Stall(duration("--stall", after), stop=action == "stop")


def _typed(options: Sequence[str]) -> dict[str, bool]:
    """Whether the value of each name was typed (``K=V``) or is the shell's (``K``); the last one of a name counts."""
    return {option.partition("=")[0]: "=" in option for option in options}


def number_or_auto(option: str, text: str | None, low: int, high: int) -> int | Literal["auto"] | None:
    """``auto``, or a whole number within the bounds."""
    if text is None or text == "auto":
        return text  # type: ignore[return-value]  # the comparison narrows a str to no literal
    if not re.fullmatch(r"[0-9]{1,5}", text) or not low <= int(text) <= high:
        raise UsageError(f"{option} {text!r}: a whole number from {low} to {high} is wanted, or auto")
    return int(text)


def environment_options(options: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """``K=V`` as it stands, ``K`` with this shell's value; the last one of a name counts."""
    values: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not _NAME.match(name):
            raise UsageError(
                f"--env {option!r}: {name!r} can't be a variable's name", fix="--env NAME=VALUE or --env NAME"
            )
        if not equals and name not in environ:
            raise UsageError(
                f"--env {name}: this shell does not export {name}", fix=f"export {name}=…, or --env {name}=VALUE"
            )
        values[name] = value if equals else environ[name]
    return values


def stream_option(text: str | None) -> Stream | None:
    """``out`` or ``err``."""
    if text not in (None, "out", "err"):
        raise UsageError(f"--stream {text!r} is not known", fix="--stream out or --stream err")
    return text  # type: ignore[return-value]  # the comparison narrows a str to no literal


def only_nodes(cluster: ClusterSpec, selection: str | None) -> ClusterSpec:
    """The cluster with the selected nodes, in file order; the first of them is the master."""
    if selection is None:
        return cluster
    indexes = select(selection, [node.name for node in cluster.nodes])
    return replace(cluster, nodes=tuple(cluster.nodes[index] for index in indexes))


def hold_back(
    cluster: ClusterSpec, nodes: str | None, spares: str | None, min_nodes: int | None
) -> tuple[ClusterSpec, tuple[Node, ...]]:
    """The nodes that begin, and the spares, which are not among them; UsageError where nothing sensible is left."""
    held = () if spares is None else only_nodes(cluster, spares).nodes
    chosen = only_nodes(cluster, nodes)
    taken = tuple(node for node in chosen.nodes if node not in held)
    if not taken:
        raise UsageError("all nodes are --spares: none is left to begin with", fix="hold back fewer")
    if min_nodes is not None and min_nodes > len(taken):
        raise UsageError(f"--min-nodes {min_nodes}, but the run begins with {len(taken)}", fix="lower --min-nodes")
    return replace(chosen, nodes=taken), held
