"""Requests about all runs of this user on this machine: what is there, what may go, a record for who takes one over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from . import cleaning, inventory, partrequests
from .refusal import Refusal

if TYPE_CHECKING:
    from .serve import Server

Reply = Callable[["dict[str, Any]"], None]
RUNS_SECONDS = 45.0
CLEAN_SECONDS = 600.0


def _runs(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    limit = request.get("limit")
    if not isinstance(limit, int) or limit < 0:
        raise Refusal("bad_request", "limit must be a number of runs")
    state = server.state.need()
    server.tasks.spawn(lambda: inventory.runs(state, limit), reply, RUNS_SECONDS)


def _run_record(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    reply({"ok": True, "record": partrequests.find(server, request).run()})


def _clean(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    wanted = cleaning.wish(request)
    state = server.state.need()
    server.tasks.spawn(lambda: cleaning.clean(state, wanted), reply, CLEAN_SECONDS)


HANDLERS: dict[str, Callable[[Server, dict[str, Any], bytes, Reply], None]] = {
    "runs": _runs,
    "run_record": _run_record,
    "clean": _clean,
}
