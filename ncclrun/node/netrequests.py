"""The requests by which a controller has the network proven."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from . import dial, doors, probe
from .addresses import endpoint
from .hello import Hello, Identity
from .refusal import Refusal

if TYPE_CHECKING:
    from .serve import Server

Reply = Callable[["dict[str, Any]"], None]
T = TypeVar("T")
MOST_LIMIT = 60.0
SPARE_SECONDS = 10.0
"""What a child may take beyond the attempts themselves: many nodes of a test share two cores."""


def _get(request: dict[str, Any], name: str, kind: type[T]) -> T:
    """A field of a request, or of a part of one."""
    value = request.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Refusal("bad_request", f"{name} must be {kind.__name__}, not {value!r}")
    return value


def _list(request: dict[str, Any], name: str, kind: type[T]) -> list[T]:
    values = request.get(name, [])
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise Refusal("bad_request", f"{name} must be a list of {kind.__name__}")
    return values


def _limit(request: dict[str, Any]) -> float:
    limit = request.get("limit")
    if not isinstance(limit, (int, float)) or not 0 < limit <= MOST_LIMIT:
        raise Refusal("bad_request", f"limit must be seconds, at most {MOST_LIMIT:.0f}, not {limit!r}")
    return float(limit)


def _identity(request: dict[str, Any]) -> Identity:
    return Identity(_get(request, "token", str), _get(request, "node_rank", int))


def _port(value: int) -> int:
    if not 0 < value < 65536:
        raise Refusal("bad_request", f"{value!r} is no port")
    return value


# --- listen, unlisten


def _listen(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    identity = _identity(request)
    extra = _get(request, "extra", int)
    addresses = _list(request, "addresses", str)
    if not 0 <= extra <= doors.MOST_EXTRA or len(addresses) > doors.MOST_ADDRESSES:
        raise Refusal("bad_request", f"at most {doors.MOST_EXTRA} extra ports and {doors.MOST_ADDRESSES} addresses")
    close_doors(server)

    def sink(caller: socket.socket, greeting: Hello, rest: bytes) -> None:
        """Nobody sends yet."""

    server.doors = doors.Doors(server.callers, addresses, extra, identity, sink)
    reply({"ok": True, **server.doors.as_json()})


def close_doors(server: Server) -> None:
    """Ends what `listen` opened, if it did."""
    if server.doors is not None:
        server.doors.close()
        server.doors = None


def _unlisten(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    close_doors(server)
    reply({"ok": True})


# --- probe


def _target(part: dict[str, Any]) -> probe.Target:
    sources = part.get("sources")
    if not isinstance(sources, list) or not all(source is None or isinstance(source, str) for source in sources):
        raise Refusal("bad_request", "sources must be a list of addresses and null")
    address = _get(part, "address", str)
    for one in [address, *filter(None, sources)]:
        endpoint(one.split("%", 1)[0], 0)
    others = tuple(_port(port) for port in _list(part, "other_ports", int))
    return probe.Target(_get(part, "peer", int), address, _port(_get(part, "port", int)), tuple(sources), others)


def _probe(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    token, node_rank = _identity(request)
    limit = _limit(request)
    targets = [_target(part) for part in _list(request, "targets", dict)]
    attempts = sum(len(target.sources) for target in targets)
    others = sum(len(target.sources) * len(target.other_ports) for target in targets)
    waves = (attempts // dial.MOST_AT_ONCE + 1) * limit + (others // dial.MOST_AT_ONCE + 1) * probe.OTHER_SECONDS
    server.tasks.spawn(lambda: probe.probe(token, node_rank, targets, limit), reply, waves + SPARE_SECONDS)


HANDLERS: dict[str, Callable[[Server, dict[str, Any], bytes, Reply], None]] = {
    "listen": _listen,
    "unlisten": _unlisten,
    "probe": _probe,
}
