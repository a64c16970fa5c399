"""What is found wrong with nodes or the ways between them, and how it is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ncclrun.diagnosis.checks.registry import KINDS
from ncclrun.diagnosis.explain.catalogue import BY_ID
from ncclrun.diagnosis.ncclsays import repeats
from ncclrun.model.cluster import Node
from ncclrun.model.errors import HostError, NcclrunError, NodeRefused
from ncclrun.model.events import Event, Refused, Warn
from ncclrun.model.netevents import Problem


@dataclass(frozen=True)
class Finding:
    """A problem of one node, or of its way to others."""

    node_rank: int
    problem: Problem


def problem_of(error: NcclrunError) -> Problem:
    """What a node failed with, as a problem of its row."""
    code = "refused"
    if isinstance(error, HostError):
        code = error.reason
    elif isinstance(error, NodeRefused):
        code = error.code
    return Problem(code=code, message=error.message, fix=error.fix)


def with_against(findings: Sequence[Finding], node_rank: int, against: Problem) -> list[Finding]:
    """The findings with what leads NCCL elsewhere on a node, and without warnings that say the same of it."""
    kept = [one for one in findings if one.node_rank != node_rank or not repeats(one.problem, against)]
    return [*kept, Finding(node_rank, against)]


def findings_told(nodes: Sequence[Node], findings: Sequence[Finding]) -> Iterator[Event]:
    """Errors as refusals, the rest as warnings."""
    for finding in findings:
        problem, name = finding.problem, nodes[finding.node_rank].name
        if problem.level == "error":
            yield Refused(
                node=name,
                node_rank=finding.node_rank,
                code=problem.code,
                message=problem.message,
                fix=problem.fix,
                id=page_of(problem.code),
            )
        else:
            yield Warn(node=name, text=problem.message, fix=problem.fix, id=page_of(problem.code))


def page_of(code: str) -> str:
    """The page in docs/findings of a problem with that code, "" where there is none."""
    return code if code in KINDS or code in BY_ID else ""
