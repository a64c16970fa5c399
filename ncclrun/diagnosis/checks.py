"""Is a node fit for a run? Pure checks over facts, each with the command or line that mends it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from ncclrun.model.cluster import Node
from ncclrun.model.facts import NodeFacts
from ncclrun.model.netevents import Problem

CLOCK_LIMIT = 5.0
"""Seconds of clock difference from which log times and certificate checks begin to mislead."""
LOW_DISK = 1 << 30
"""Bytes free below which a node is warned about."""


def node_problems(node: Node, facts: NodeFacts, *, torch_needed: bool = True) -> tuple[Problem, ...]:
    """What is wrong with one node by itself."""
    problems: list[Problem] = [*_python_problems(facts, torch_needed)]
    if facts.free_bytes < LOW_DISK:
        problems.append(
            Problem(
                code="disk_low",
                level="warning",
                message=f"only {facts.free_bytes >> 20} MiB free in {facts.state_dir}, where logs and code go",
                fix=f"free some space:  du -xh {shlex.quote(facts.state_dir)} | sort -h | tail",
            )
        )
    problems += stale_variables(facts)
    if abs(facts.clock_offset) > CLOCK_LIMIT:
        ahead = "ahead of" if facts.clock_offset > 0 else "behind"
        problems.append(
            Problem(
                code="clock",
                level="warning",
                message=f"its clock is {abs(facts.clock_offset):.0f} s {ahead} this machine's",
                fix="timedatectl set-ntp true   (on that host)",
            )
        )
    if node.gpus is not None:
        known = {gpu.index for gpu in facts.gpus}
        missing = [index for index in node.gpus if index not in known]
        if missing:
            problems.append(
                Problem(
                    code="no_such_gpu",
                    message=f"the cluster file wants GPU {', '.join(map(str, missing))}, the host has "
                    + (", ".join(str(i) for i in sorted(known)) or "none"),
                    fix=f"correct `gpus` of node {node.name}",
                )
            )
    wanted = node.launch.nproc_per_node
    there = facts.visible_gpus if node.gpus is None else len(node.gpus)
    if wanted != "auto" and 0 < there < wanted:
        problems.append(
            Problem(
                code="few_gpus",
                level="warning",
                message=f"{wanted} workers for {_gpus(there)}: NCCL refuses two ranks on one GPU",
                fix="set nproc_per_node: auto",
            )
        )
    return tuple(problems)


def stale_variables(facts: NodeFacts) -> tuple[Problem, ...]:
    """Leftovers of another launcher in the login environment, where the workers would take them for their own."""
    if not facts.stale:
        return ()
    return (
        Problem(
            code="stale",
            level="warning",
            message=f"its login environment sets {', '.join(facts.stale)}: taken away for a run",
            fix="remove them from the shell's start-up files there",
        ),
    )


def _python_problems(facts: NodeFacts, torch_needed: bool) -> list[Problem]:
    python = facts.python
    if not python.version or (torch_needed and python.error and not python.torch):
        return [
            Problem(
                code="no_python",
                message=f"the training Python {python.executable!r} is of no use: {python.error}",
                fix="set launch.python (or the node's python) to one that is there; on that host:  command -v python3",
            )
        ]
    if torch_needed and not python.torch:
        return [
            Problem(
                code="no_torch",
                message=f"torch is not installed in {python.executable} (Python {python.version})",
                fix="set launch.python to the Python that has torch, or install it:  "
                f"{shlex.quote(python.executable)} -m pip install torch",
            )
        ]
    return []


def cluster_problems(nodes: Sequence[Node], facts: Sequence[NodeFacts]) -> tuple[tuple[Problem, ...], ...]:
    """What differs between nodes and should not, one tuple a node, told on the nodes that are in the minority."""
    found: list[list[Problem]] = [[] for _ in nodes]
    versions = {
        "torch": [fact.python.torch.split("+")[0] for fact in facts],
        "NCCL": [fact.python.nccl for fact in facts],
        "Python": [".".join(fact.python.version.split(".")[:2]) for fact in facts],
        "GPU count": [str(fact.visible_gpus) for fact in facts],
    }
    for what, values in versions.items():
        counts = Counter(value for value in values if value)
        if len(counts) < 2:
            continue
        usual, _ = counts.most_common(1)[0]
        holder = nodes[values.index(usual)].name
        for row, value in zip(found, values, strict=True):
            if value and value != usual:
                row.append(
                    Problem(
                        code="differs",
                        level="warning",
                        message=f"{what} {value} here, {usual} on {holder}",
                        fix="give all nodes the same one"
                        if what != "GPU count"
                        else "nothing, if that is meant: ranks are numbered through",
                    )
                )
    for row, problem in zip(found, _shared_gpus(nodes, facts), strict=True):
        row.extend(problem)
    return tuple(tuple(row) for row in found)


def _shared_gpus(nodes: Sequence[Node], facts: Sequence[NodeFacts]) -> Iterator[list[Problem]]:
    """For each node what it says of GPUs that an earlier node on the same machine takes too."""
    taken: dict[tuple[str, int], str] = {}
    for node, fact in zip(nodes, facts, strict=True):
        own = range(fact.visible_gpus) if node.gpus is None else node.gpus
        twice = [index for index in own if (fact.machine, index) in taken]
        taken.update({(fact.machine, index): node.name for index in own if index not in twice})
        yield (
            [
                Problem(
                    code="shared_gpus",
                    level="warning",
                    message=f"it is on one machine with {taken[fact.machine, twice[0]]} and takes the same GPUs"
                    f" ({', '.join(map(str, twice))}): NCCL refuses two ranks on one GPU",
                    fix="give each of these nodes its own:  gpus: [0]",
                )
            ]
            if twice
            else []
        )


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
