"""The requests that guard a start: a lock for each GPU, and the end of what a dead run left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from . import gpulocks, leftovers, rundir
from .refusal import Refusal

if TYPE_CHECKING:
    from .serve import Server

Reply = Callable[["dict[str, Any]"], None]
CLEAR_SECONDS = 30.0


def name_of(request: dict[str, Any]) -> str:
    """The part of a run that a request is about, as the server's tables name it."""
    rank = request.get("node_rank")
    if not isinstance(rank, int):
        raise Refusal("bad_request", "node_rank must be a number")
    return f"{rundir.check_run_id(request.get('run_id'))}/{rank}"


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
    name, gpus = name_of(request), _gpus(request)
    if name in server.gpu_locks:
        raise Refusal("bad_request", "this connection holds locks for that part already")
    locks = gpulocks.Locks()
    held = locks.take(gpus, str(request["run_id"]))
    if not held:
        server.gpu_locks[name] = locks
    reply({"ok": True, "holders": held})


def _clear(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    name_of(request)
    part = rundir.find(server.state.need(), request["run_id"], request["node_rank"])
    server.tasks.spawn(lambda: {"alive": leftovers.clear(part)}, reply, CLEAR_SECONDS)


HANDLERS: dict[str, Callable[[Server, dict[str, Any], bytes, Reply], None]] = {"lock": _lock, "clear": _clear}
