"""The requests that ask the node's name service and its NCCL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from . import names, ncclask, start
from .refusal import Refusal

if TYPE_CHECKING:
    from .serve import Server

Reply = Callable[["dict[str, Any]"], None]


def _names(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    addresses, limit = request.get("addresses", []), request.get("limit", 5.0)
    if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
        raise Refusal("bad_request", "addresses must be a list of addresses")
    if not isinstance(limit, (int, float)) or not 0 < limit <= names.MOST_SECONDS:
        raise Refusal("bad_request", f"limit must be seconds, at most {names.MOST_SECONDS:g}, not {limit!r}")
    names.ask(server.tasks, addresses, float(limit), reply)


def _nccl(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    python, env = str(request.get("python") or ""), start.environment(request)
    server.tasks.spawn(lambda: ncclask.ask(python, env), reply, ncclask.SECONDS + 5.0)


HANDLERS: dict[str, Callable[[Server, dict[str, Any], bytes, Reply], None]] = {"names": _names, "nccl": _nccl}
