"""Is anybody in the way of a run that is to start? Pure: what a node said becomes problems, each with what mends it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ncclrun.diagnosis.checks.host import shared_memory
from ncclrun.diagnosis.checks.kind import Kind
from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.model.facts import Gpu, GpuProcess, Leftover, NodeFacts
from ncclrun.model.netevents import Problem
from ncclrun.model.plan import NodePlan
from ncclrun.model.words import lasting

IDLE_MEMORY = 1024
"""MiB that a GPU without a known process may have in use before it is told: a driver takes some, a desktop more."""
MOST_PROCESSES = 4
SHARE = "--share-gpus"

IN_USE = Kind(
    id="gpu_in_use",
    title="somebody else uses the GPUs",
    symptom="`CUDA out of memory` at once, or a run that is slower than yesterday.",
    cause="Another user's training, a notebook that was left open, or a process of a dead run.",
    cure="Ask its owner, or take other GPUs.",
    launch=True,
)
LEFTOVER = Kind(
    id="leftover",
    title="processes of a dead run live on",
    symptom="GPU memory that nobody seems to use; `Address already in use`.",
    cause="The run's supervisor was killed, so that nobody ended its workers.",
    cure="`ncclrun launch --clean-leftovers`, or `ncclrun stop RUN`, ends exactly these.",
    launch=True,
)
LOCKED = Kind(
    id="gpu_locked",
    title="another launch holds the GPUs",
    symptom="The launch is refused.",
    cause="A run of yours, or of another user of ncclrun, has these GPUs.",
    cure="Stop that run, take other GPUs, or let both use them with `--share-gpus`.",
    launch=True,
    doctor=False,
)
KINDS = (IN_USE, LEFTOVER, LOCKED)


def used_gpus(plan: NodePlan, facts: NodeFacts) -> tuple[Gpu, ...]:
    """The GPUs that the node's workers will see, by CUDA_VISIBLE_DEVICES of the plan, else of the login."""
    planned = [variable.value for variable in plan.variables if variable.name == "CUDA_VISIBLE_DEVICES"]
    setting = planned[0] if planned else facts.cuda_visible
    if setting is None:
        return facts.gpus
    found: list[Gpu] = []
    for entry in (part.strip() for part in setting.split(",")):
        matching = [gpu for gpu in facts.gpus if entry == str(gpu.index) or _names(entry, gpu)]
        if len(matching) != 1:  # CUDA stops at the first that is none; slices of a GPU (MIG) are not told apart here
            break
        found += matching
    return tuple(found)


def _names(entry: str, gpu: Gpu) -> bool:
    return entry.startswith("GPU-") and gpu.uuid.startswith(entry)


def gpus_to_lock(plans: Sequence[NodePlan], facts: Sequence[NodeFacts]) -> dict[int, tuple[Gpu, ...]]:
    """The GPUs of each node that has any, by node_rank; each once, though several nodes may be on one machine."""
    taken: set[tuple[str, str]] = set()
    found: dict[int, tuple[Gpu, ...]] = {}
    for plan, fact in zip(plans, facts, strict=True):
        own = tuple(gpu for gpu in used_gpus(plan, fact) if gpu.uuid and (fact.machine, gpu.uuid) not in taken)
        taken |= {(fact.machine, gpu.uuid) for gpu in own}
        if own:
            found[plan.node_rank] = own
    return found


def crowded(plan: NodePlan, facts: NodeFacts) -> tuple[Problem, ...]:
    """Warnings before the start: who else is on the GPUs that the node will use, and a /dev/shm that is too small."""
    scarce = [problem for problem in shared_memory(Subject(plan.node, facts)) if problem.level == "warning"]
    return (*crowding(used_gpus(plan, facts), facts), *scarce)


def crowding(used: Sequence[Gpu], facts: NodeFacts) -> tuple[Problem, ...]:
    """Who else is on these GPUs."""
    gpus = {gpu.uuid: gpu for gpu in used if gpu.uuid}
    apps = [app for app in facts.gpu_processes if app.uuid in gpus]
    problems = [*_users(apps, gpus)]
    known = {app.uuid for app in apps}
    unseen = {gpu.index: gpu.used or 0 for gpu in gpus.values() if gpu.uuid not in known}
    full = {index: used for index, used in unseen.items() if used > IDLE_MEMORY}
    if full:
        message = f"{_memory(sum(full.values()))} of {_gpus(sorted(full))} in use; by whom can't be seen from there"
        problems.append(IN_USE.found(message, "nvidia-smi   (on that host, outside of any container)"))
    return tuple(problems)


def _users(apps: Sequence[GpuProcess], gpus: Mapping[str, Gpu]) -> Iterator[Problem]:
    """One warning for all GPUs that one user's command is on."""
    groups: dict[tuple[str, str, str], list[GpuProcess]] = {}
    for app in apps:
        groups.setdefault((app.user, app.command or app.name, app.run_id), []).append(app)
    for (user, command, run_id), group in groups.items():
        where = _gpus(sorted({gpus[app.uuid].index for app in group}))
        sizes = [app.memory for app in group if app.memory is not None]
        memory = f", {_memory(sum(sizes))}" if sizes else ""
        if not user:
            message = f"{where} in use by a process that can't be seen from there ({command}){memory}"
            yield IN_USE.found(message, "nvidia-smi   (on that host, outside of any container)")
            continue
        since = max((app.seconds for app in group if app.seconds is not None), default=None)
        who = f"your run {run_id}" if run_id else user
        message = f"{where} in use by {who}: {command}{_for(since)}{memory}"
        yield IN_USE.found(message, f"ncclrun stop {run_id}" if run_id else f"ask {user}, or take other GPUs")


def locked(holder: Mapping[str, Any]) -> Problem:
    """The refusal for one of the ``holders`` that `lock` tells."""
    run_id, where = holder["run_id"], _gpus(holder["gpus"])
    if not run_id:
        message = f"{where} held by somebody who does not say who they are"
        return LOCKED.found(message, f"try again, or:  {SHARE}", "error")
    other = f"give this one other GPUs (`gpus` in the cluster file), or let both use them:  {SHARE}"
    if holder["own"]:
        message = f"{where} held by your run {run_id}{_for(holder['seconds'])}"
        return LOCKED.found(message, f"ncclrun stop {run_id}\n{other}", "error")
    message = f"{where} held by {holder['user']}'s run {run_id}{_for(holder['seconds'])}"
    return LOCKED.found(message, f"ask {holder['user']}\n{other}", "error")


def left_over(left: Leftover) -> Problem:
    """The refusal where a dead run still has processes."""
    shown = [f"{one.command} (pid {one.pid})" for one in left.processes[:MOST_PROCESSES]]
    shown += [f"{left.count - len(shown)} more"] if left.count > len(shown) else []
    lives = "1 process of it lives" if left.count == 1 else f"{left.count} processes of it live"
    return LEFTOVER.found(
        f"your run {left.run_id} is dead there (its supervisor is gone), but {lives} on, the oldest"
        f"{_for(left.seconds)} now: {', '.join(shown)}",
        "start again with  --clean-leftovers   (ends exactly these)",
        "error",
    )


def survived(left: Leftover, alive: Sequence[Mapping[str, Any]]) -> Problem:
    """The warning where even SIGKILL did not end all of it."""
    names = ", ".join(f"{one['command']} (pid {one['pid']}, state {one['state']})" for one in alive[:MOST_PROCESSES])
    message = f"of the dead run {left.run_id} there still lives, whatever was sent to it: {names}"
    return LEFTOVER.found(message, "a process in state D hangs in the kernel: look at `dmesg` there")


def _gpus(indexes: Sequence[int]) -> str:
    return f"GPU {indexes[0]} is" if len(indexes) == 1 else f"GPUs {', '.join(map(str, indexes))} are"


def _for(seconds: float | None) -> str:
    return "" if seconds is None else f" for {lasting(seconds)}"


def _memory(mib: int) -> str:
    return f"{mib / 1024:.0f} GiB" if mib >= 10 << 10 else f"{mib} MiB"
