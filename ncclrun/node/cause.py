"""Why a part of a run ends: by a failure of its own, or by an order, whose first reason is kept."""

from __future__ import annotations

import time
from typing import Any

from . import lifeline


class Cause:
    """What is known of it until now; neither means that all goes well, or went well."""

    def __init__(self) -> None:
        self.failed = False
        self.why = ""
        """In words; the first one counts."""
        self.stop: dict[str, Any] | None = None
        """The end record's `stop` (docs/node-protocol.md)."""
        self._grace: float | None = None

    def fail(self, why: str) -> None:
        """Something of ours ended badly."""
        self.failed = True
        self.why = self.why or why

    def order(self, how: str, grace: float, why: str, origin: int | None, *, lost: bool) -> None:
        """It is to stop, as of ``lifeline.Stop``; of several orders the first tells why, and a kill remains one."""
        if self.stop is None:
            self.stop = {"asked_at": time.time(), "how": how, "reason": why, "origin": origin, "lost": lost}
            self.why = self.why or why
        self.stop["how"] = "kill" if "kill" in (how, self.stop["how"]) else "term"
        self._grace = grace

    @property
    def reason(self) -> str:
        """The end record's `reason`."""
        if self.failed:
            return "failed"
        return "stopped" if self.stop is not None else "finished"

    @property
    def origin(self) -> int | None:
        """The node on whose account this one was told to stop."""
        return None if self.stop is None else self.stop["origin"]

    def account(self, node_rank: int, *, ended: bool) -> lifeline.Account:
        """What the other nodes' supervisors are to know of this one, which is ``node_rank``."""
        if not self.failed and self.stop is None:
            return lifeline.Account("ended" if ended else "running", False, self.why)
        asked = self.stop or {"how": "term", "origin": node_rank, "lost": False}
        order = lifeline.Stop(asked["how"], self._grace, self.why, asked["origin"], asked["lost"])
        return lifeline.Account("ended" if ended else "stopping", self.failed, self.why, order)

    def from_elsewhere(self, hosts: list[str]) -> str:
        """Why another node had this one stop, for people."""
        if self.stop is None or self.stop["origin"] is None:
            return ""
        return f"{lifeline.named(hosts, self.stop['origin'])}: {self.stop['reason']}"
