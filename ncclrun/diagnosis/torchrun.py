"""Reads the report that torchrun leaves on stderr when a worker failed."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BLOCK = re.compile(
    r"^\[\d+\]:\n"
    r"\s+time +: (?P<time>.*)\n"
    r"\s+host +: (?P<host>.*)\n"
    r"\s+rank +: (?P<rank>\d+) \(local_rank: (?P<local_rank>\d+)\)\n"
    r"\s+exitcode +: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)",
    re.MULTILINE,
)
_LOGGED = re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local_rank>\d+) \(pid: (?P<pid>\d+)\)")
_ROOT = "Root Cause (first observed failure)"


@dataclass(frozen=True)
class ReportedFailure:
    """One failed worker as torchrun tells it: an exit code or a signal, never both."""

    local_rank: int
    pid: int
    code: int | None
    signal: int | None
    root: bool
    """torchrun saw this one first on its node."""


def parse_torchrun_report(text: str) -> tuple[ReportedFailure, ...]:
    """The failed workers of one node, the root cause first; () when the text holds no report.

    The report's form has been the same since torch 1.13. Of several reports (restarts) the last counts. When the report
    was cut off, the line that torchrun logs for the first failure stands in.
    """
    text = text.replace("\r\n", "\n")
    start = max(text.rfind("ChildFailedError"), text.rfind("\nFailures:"), 0)
    root_at = text.find(_ROOT, start)
    found = [_failure(match, root=0 <= root_at < match.start()) for match in _BLOCK.finditer(text, start)]
    if not found:
        found = [_failure(match, root=True) for match in _LOGGED.finditer(text)][-1:]
    return tuple(sorted(found, key=lambda failure: not failure.root))


def _failure(match: re.Match[str], *, root: bool) -> ReportedFailure:
    code = int(match["code"])
    return ReportedFailure(
        local_rank=int(match["local_rank"]),
        pid=int(match["pid"]),
        code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        root=root,
    )
