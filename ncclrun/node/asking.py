"""The requests that ask the node's name service and its NCCL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from . import names, ncclask, start
from .refusal import Refusal

if TYPE_CHECKING:
    from .serve import Server

Reply = Callable[["dict[str, Any]"], None]


def _names(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    addresses = request.get("addresses", [])
    if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
        raise Refusal("bad_request", "addresses must be a list of addresses")
    names.ask(server.tasks, addresses, min(float(request.get("timeout", 5.0)), names.MOST_SECONDS), reply)


def _nccl(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    python, env = str(request.get("python") or ""), start.environment(request)
    server.tasks.spawn(lambda: ncclask.ask(python, env), reply, ncclask.SECONDS + 5.0)


HANDLERS: dict[str, Callable[[Server, dict[str, Any], bytes, Reply], None]] = {"names": _names, "nccl": _nccl}
