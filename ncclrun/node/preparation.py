"""A `prepare` request, checked for its form."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from . import archive, machine, rundir, start
from .refusal import Refusal

TOKEN = re.compile(r"[A-Za-z0-9_-]{8,128}\Z")
MOST_WORKERS = 1024
LONGEST_BY = 200
LARGEST_ABOUT = 256 << 10


class Order(NamedTuple):
    """What is to be prepared."""

    run_id: str
    token: str
    node_rank: int
    nproc: int
    launcher: str
    code: str | None
    workdir: str | None
    script: str | None
    python: str
    program: str | None
    search: str | None
    conf: str | None
    by: str
    about: dict[str, Any]
    checkpoint_dir: str | None = None

    @property
    def directory(self) -> str:
        """Name of this node's part of the run."""
        return f"{self.node_rank}-{machine.machine_id()}"


def check_token(token: object) -> str:
    """The run's token, or a refusal."""
    if not isinstance(token, str) or not TOKEN.match(token):
        raise Refusal("bad_request", "the token must be 8 to 128 letters, digits, '_' or '-'")
    return token


def _whole(request: dict[str, Any], name: str, low: int, high: int) -> int:
    value = request.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise Refusal("bad_request", f"{name} must be a number from {low} to {high}, not {value!r}")
    return value


def _text(request: dict[str, Any], name: str) -> str | None:
    value = request.get(name)
    if value is not None and (not isinstance(value, str) or "\0" in value):
        raise Refusal("bad_request", f"{name} must be text without NUL, not {value!r}")
    return value or None


def _about(request: dict[str, Any]) -> dict[str, Any]:
    """What the controller leaves here about the run: kept as it is, and never read by us."""
    value = request.get("about") or {}
    if not isinstance(value, dict) or len(json.dumps(value)) > LARGEST_ABOUT:
        raise Refusal("bad_request", f"about must be an object of at most {LARGEST_ABOUT >> 10} KiB")
    return value


def check(request: dict[str, Any]) -> Order:
    """The order in a request, or a refusal."""
    launcher = request.get("launcher")
    if launcher not in ("torchrun", "exec"):
        raise Refusal("bad_request", f"launcher must be torchrun or exec, not {launcher!r}")
    code = _text(request, "code")
    return Order(
        rundir.check_run_id(request.get("run_id")),
        check_token(request.get("token")),
        _whole(request, "node_rank", 0, 1 << 20),
        _whole(request, "nproc", 1, MOST_WORKERS),
        launcher,
        archive.check_sha256(code) if code else None,
        _text(request, "workdir"),
        _text(request, "script"),
        _text(request, "python") or "python3",
        _text(request, "program"),
        _text(request, "search"),
        start.conf_text(request),
        (_text(request, "by") or "")[:LONGEST_BY],
        _about(request),
        _text(request, "checkpoint_dir"),
    )
