"""Every error that a user may see: what happened, where, and the one step that mends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EXIT_USAGE = 2
"""The cluster file or the command line is wrong; nothing was contacted."""
EXIT_NOT_STARTED = 3
"""Nothing was started: the plan or a node's preparation failed."""
EXIT_STALLED = 123
"""The run was stopped because no rank had printed anything for too long (`--stall-action stop`)."""
EXIT_TIMEOUT = 124
"""The run was stopped because its time was up (timeout(1)'s own code for it)."""
EXIT_INTERRUPTED = 130
"""Ctrl-C."""
EXIT_UNREACHABLE = 255
"""A host could not be reached (ssh's own code for it)."""


class NcclrunError(Exception):
    """A failure with an exit code and, where there is one, the step that mends it.

    ``str(error)`` is the message alone; ``fix`` is a sentence or command for the reader, of several a line each.
    """

    exit_code = 1

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class UsageError(NcclrunError):
    """A wrong option or argument."""

    exit_code = EXIT_USAGE


@dataclass(frozen=True)
class SpecProblem:
    """One fault in a cluster file: where it stands (1-based line and column), at which field, and what is wanted."""

    line: int
    column: int
    path: str
    message: str


class SpecError(NcclrunError):
    """All faults of one cluster file at once."""

    exit_code = EXIT_USAGE

    def __init__(self, source: str, problems: tuple[SpecProblem, ...]) -> None:
        self.source = source
        self.problems = problems
        lines = [f"{source}:{p.line}:{p.column}: {p.path + ': ' if p.path else ''}{p.message}" for p in problems]
        super().__init__("\n".join(lines))


class PlanError(NcclrunError):
    """No plan can be made from what the nodes said (network, ranks, versions); nothing was started.

    ``nodes`` names those whose trouble it is, not all; () where it can't be laid at anybody's door.
    """

    exit_code = EXIT_NOT_STARTED

    def __init__(self, message: str, *, fix: str = "", nodes: tuple[str, ...] = ()) -> None:
        super().__init__(message, fix=fix)
        self.nodes = nodes


class HostError(NcclrunError):
    """One host could not be reached or talked to.

    ``reason`` is a fixed word for programs: ``refused``, ``timeout``, ``no_route``, ``name``, ``unknown_key``,
    ``changed_key``, ``revoked_key``, ``auth``, ``gateway``, ``protocol``, ``shell``, ``no_python``, ``lost``.
    """

    exit_code = EXIT_UNREACHABLE

    def __init__(self, reason: str, message: str, *, fix: str = "") -> None:
        super().__init__(message, fix=fix)
        self.reason = reason


class NodeRefused(NcclrunError):
    """A node answered a request with a refusal; ``code`` is the node's fixed word for it.

    ``details`` is what else a program can use of it (docs/node-protocol.md says what for each code).
    """

    exit_code = EXIT_NOT_STARTED

    def __init__(self, code: str, message: str, *, fix: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, fix=fix)
        self.code = code
        self.details: Mapping[str, Any] = details or {}
