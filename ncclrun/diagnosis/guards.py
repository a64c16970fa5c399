"""Is anybody in the way of a run that is to start? Pure: what a node said becomes problems, each with what mends it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ncclrun.model.facts import Gpu, GpuProcess, Leftover, NodeFacts
from ncclrun.model.netevents import Problem
from ncclrun.model.plan import NodePlan
from ncclrun.model.words import lasting

IDLE_MEMORY = 1024
"""MiB that a GPU without a known process may have in use before it is told: a driver takes some, a desktop more."""
SMALL_SHARED_MEMORY = 64 << 20
"""Bytes free in /dev/shm, and less, that data loaders and NCCL fill at once; it is what Docker gives."""
MOST_PROCESSES = 4
SHARE = "--share-gpus"


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
    return crowding(used_gpus(plan, facts), plan.nproc, facts)


def crowding(used: Sequence[Gpu], nproc: int, facts: NodeFacts) -> tuple[Problem, ...]:
    """The same for these GPUs, and so many workers."""
    gpus = {gpu.uuid: gpu for gpu in used if gpu.uuid}
    apps = [app for app in facts.gpu_processes if app.uuid in gpus]
    problems = [*_users(apps, gpus)]
    known = {app.uuid for app in apps}
    unseen = {gpu.index: gpu.used or 0 for gpu in gpus.values() if gpu.uuid not in known}
    full = {index: used for index, used in unseen.items() if used > IDLE_MEMORY}
    if full:
        message = f"{_memory(sum(full.values()))} of {_gpus(sorted(full))} in use; by whom can't be seen from there"
        problems.append(_warning("gpu_in_use", message, "nvidia-smi   on that host, outside of any container"))
    small = facts.shared_memory is not None and facts.shared_memory <= SMALL_SHARED_MEMORY
    if small and nproc > 1:
        problems.append(
            _warning(
                "shared_memory",
                f"only {(facts.shared_memory or 0) >> 20} MiB free in /dev/shm, for {nproc} workers",
                "docker run --shm-size=8g …   or, as root on the host:  mount -o remount,size=8G /dev/shm",
            )
        )
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
            yield _warning("gpu_in_use", message, "nvidia-smi   on that host, outside of any container")
            continue
        since = max((app.seconds for app in group if app.seconds is not None), default=None)
        who = f"your run {run_id}" if run_id else user
        message = f"{where} in use by {who}: {command}{_for(since)}{memory}"
        yield _warning("gpu_in_use", message, f"ncclrun stop {run_id}" if run_id else f"ask {user}, or take other GPUs")


def locked(holder: Mapping[str, Any]) -> Problem:
    """The refusal for one of the ``holders`` that `lock` tells."""
    run_id, where = holder["run_id"], _gpus(holder["gpus"])
    if not run_id:
        message = f"{where} held by somebody who does not say who they are"
        return Problem(code="gpu_locked", message=message, fix=f"try again, or:  {SHARE}")
    other = f"give this one other GPUs (gpus: […] in the cluster file), or let both use them:  {SHARE}"
    if holder["own"]:
        message = f"{where} held by your run {run_id}{_for(holder['seconds'])}"
        return Problem(code="gpu_locked", message=message, fix=f"ncclrun stop {run_id}\n{other}")
    message = f"{where} held by {holder['user']}'s run {run_id}{_for(holder['seconds'])}"
    return Problem(code="gpu_locked", message=message, fix=f"ask {holder['user']}\n{other}")


def left_over(left: Leftover) -> Problem:
    """The refusal where a dead run still has processes."""
    shown = [f"{one.command} (pid {one.pid})" for one in left.processes[:MOST_PROCESSES]]
    shown += [f"{left.count - len(shown)} more"] if left.count > len(shown) else []
    lives = "1 process of it lives" if left.count == 1 else f"{left.count} processes of it live"
    return Problem(
        code="leftover",
        message=f"your run {left.run_id} is dead there (its supervisor is gone), but {lives} on, the oldest"
        f"{_for(left.seconds)} now: {', '.join(shown)}",
        fix="end exactly these and go on: the same command with --clean-leftovers",
    )


def survived(left: Leftover, alive: Sequence[Mapping[str, Any]]) -> Problem:
    """The warning where even SIGKILL did not end all of it."""
    names = ", ".join(f"{one['command']} (pid {one['pid']}, state {one['state']})" for one in alive[:MOST_PROCESSES])
    message = f"of the dead run {left.run_id} there still lives, whatever was sent to it: {names}"
    return _warning("leftover", message, "a process in state D hangs in the kernel: look at `dmesg` there")


def _warning(code: str, message: str, fix: str) -> Problem:
    return Problem(code=code, level="warning", message=message, fix=fix)


def _gpus(indexes: Sequence[int]) -> str:
    return f"GPU {indexes[0]} is" if len(indexes) == 1 else f"GPUs {', '.join(map(str, indexes))} are"


def _for(seconds: float | None) -> str:
    return "" if seconds is None else f" for {lasting(seconds)}"


def _memory(mib: int) -> str:
    return f"{mib / 1024:.0f} GiB" if mib >= 10 << 10 else f"{mib} MiB"
