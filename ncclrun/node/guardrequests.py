"""The requests that guard a start: a lock for each GPU, and the end of what a dead run left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from . import gpulocks, leftovers, partrequests
from .refusal import Refusal

if TYPE_CHECKING:
    from .serve import Server

Reply = Callable[["dict[str, Any]"], None]
CLEAR_SECONDS = 30.0


def _gpus(request: dict[str, Any]) -> list[gpulocks.Gpu]:
    wanted = request.get("gpus")
    if not isinstance(wanted, list) or len(wanted) > gpulocks.MOST_GPUS:
        raise Refusal("bad_request", f"gpus must be a list of at most {gpulocks.MOST_GPUS}")
    gpus = []
    for one in wanted:
        index, uuid = (one.get("index"), one.get("uuid")) if isinstance(one, dict) else (None, None)
        if not isinstance(index, int) or not isinstance(uuid, str):
            raise Refusal("bad_request", "each of gpus must be {index, uuid}")
        gpus.append(gpulocks.Gpu(index, uuid))
    return gpus


def _lock(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    name, gpus = partrequests.name_of(*partrequests.named(request)), _gpus(request)
    if name in server.gpu_locks:
        raise Refusal("bad_request", "this connection holds locks for that part already")
    locks = gpulocks.Locks()
    held = locks.take(gpus, str(request["run_id"]))
    if not held:
        server.gpu_locks[name] = locks
    reply({"ok": True, "holders": held})


def _clear(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    part = partrequests.find(server, request)
    server.tasks.spawn(lambda: {"alive": leftovers.clear(part)}, reply, CLEAR_SECONDS)


HANDLERS: dict[str, Callable[[Server, dict[str, Any], bytes, Reply], None]] = {"lock": _lock, "clear": _clear}
