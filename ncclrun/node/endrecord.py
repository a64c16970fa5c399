"""The end record of a part of a run: the same fields whoever writes it."""

from __future__ import annotations

import time
from typing import Any

SHORT_TAIL = 512
SHORT_LAUNCHER_TAIL = 4096


def record(
    *,
    reason: str,
    detail: str,
    started_at: float,
    ranks: list[dict[str, Any]],
    survivors: list[dict[str, object]],
    launcher: dict[str, Any] | None = None,
    launcher_tail: str = "",
    stop: dict[str, Any] | None = None,
    lost_bytes: dict[str, int] | None = None,
    lost_why: str = "",
    dropped_bytes: dict[str, int] | None = None,
    oom_kills: int = 0,
) -> dict[str, Any]:
    """The record of a part that has ended now; its fields are told in docs/node-protocol.md."""
    return {
        "reason": reason,
        "detail": detail,
        "started_at": started_at,
        "ended_at": time.time(),
        "launcher": launcher,
        "ranks": ranks,
        "launcher_tail": launcher_tail,
        "stop": stop,
        "survivors": survivors,
        "lost_bytes": lost_bytes or {},
        "lost_why": lost_why,
        "dropped_bytes": dropped_bytes or {},
        "oom_kills": oom_kills,
    }


def shortened(whole: dict[str, Any]) -> dict[str, Any]:
    """For a disk or a frame that the whole one does not fit."""
    ranks = [{**rank, "error": None, "tail": rank["tail"][-SHORT_TAIL:]} for rank in whole["ranks"]]
    return {**whole, "ranks": ranks, "launcher_tail": whole["launcher_tail"][-SHORT_LAUNCHER_TAIL:]}
