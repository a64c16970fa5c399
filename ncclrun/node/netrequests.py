"""The requests by which a controller has the network proven and confirmed."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from . import dial, doors, names, ncclask, pathmtu, probe, start, throughput
from .addresses import family_of
from .hello import Hello, Identity
from .listener import Sink
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


def _seconds(request: dict[str, Any], name: str, most: float) -> float:
    seconds = request.get(name)
    if not isinstance(seconds, (int, float)) or not 0 < seconds <= most:
        raise Refusal("bad_request", f"{name} must be seconds, at most {most:g}, not {seconds!r}")
    return float(seconds)


def _identity(request: dict[str, Any]) -> Identity:
    return Identity(_get(request, "token", str), _get(request, "node_rank", int))


def _address(request: dict[str, Any], name: str) -> str:
    """An address, whatever zone it has."""
    address = _get(request, name, str)
    family_of(address)
    return address


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
    server.close_doors()
    server.doors = doors.Doors(server.callers, addresses, extra, identity, _receiver(server, identity))
    reply({"ok": True, **server.doors.as_json()})


def _receiver(server: Server, identity: Identity) -> Sink:
    """Counts what callers send, in a child for each."""
    children = 0

    def sink(caller: socket.socket, greeting: Hello, rest: bytes) -> None:
        nonlocal children
        if children >= throughput.MOST_RECEIVERS:
            return
        children += 1

        def done(_answer: dict[str, Any]) -> None:
            # The sender was told; it is the one that reports.
            nonlocal children
            children -= 1

        server.tasks.spawn(
            lambda: throughput.receive(caller, greeting.challenge, len(rest), identity),
            done,
            throughput.MOST_SECONDS + 2 * throughput.SILENCE_SECONDS,
            frozenset([caller.fileno()]),
        )

    return sink


def _unlisten(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    server.close_doors()
    reply({"ok": True})


# --- probe


def _target(part: dict[str, Any]) -> probe.Target:
    sources = part.get("sources")
    if not isinstance(sources, list) or not all(source is None or isinstance(source, str) for source in sources):
        raise Refusal("bad_request", "sources must be a list of addresses and null")
    for source in filter(None, sources):
        family_of(source)
    others = tuple(_port(port) for port in _list(part, "other_ports", int))
    return probe.Target(
        _get(part, "peer", int), _address(part, "address"), _port(_get(part, "port", int)), tuple(sources), others
    )


def _probe(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    token, node_rank = _identity(request)
    limit = _seconds(request, "limit", MOST_LIMIT)
    targets = [_target(part) for part in _list(request, "targets", dict)]
    attempts = sum(len(target.sources) for target in targets)
    others = sum(len(target.sources) * len(target.other_ports) for target in targets)
    waves = (attempts // dial.MOST_AT_ONCE + 1) * limit + (others // dial.MOST_AT_ONCE + 1) * probe.OTHER_SECONDS
    server.tasks.spawn(lambda: probe.probe(token, node_rank, targets, limit), reply, waves + SPARE_SECONDS)


# --- paths, throughput


def _path_target(part: dict[str, Any]) -> pathmtu.Target:
    ports = tuple(_port(port) for port in _list(part, "ports", int))
    return pathmtu.Target(_get(part, "peer", int), _address(part, "address"), _port(_get(part, "udp", int)), ports)


def _paths(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    token, node_rank = _identity(request)
    limit, source = _seconds(request, "limit", MOST_LIMIT), _address(request, "source")
    mtu = _get(request, "mtu", int)
    if mtu < pathmtu.SMALLEST:
        raise Refusal("bad_request", f"an interface's MTU is at least {pathmtu.SMALLEST}, not {mtu}")
    targets = [_path_target(part) for part in _list(request, "targets", dict)]
    waves = sum(len(target.ports) for target in targets) // dial.MOST_AT_ONCE + 1
    seconds = (1 + waves) * limit + SPARE_SECONDS
    server.tasks.spawn(lambda: pathmtu.paths(token, node_rank, source, mtu, targets, limit), reply, seconds)


def _throughput(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    token = _get(request, "token", str)
    streams = _get(request, "streams", int)
    if not 0 < streams <= throughput.MOST_STREAMS:
        raise Refusal("bad_request", f"streams must be 1 to {throughput.MOST_STREAMS}, not {streams}")
    order = throughput.Order(
        peer=_get(request, "peer", int),
        address=_address(request, "address"),
        port=_port(_get(request, "port", int)),
        source=None if request.get("source") is None else _address(request, "source"),
        seconds=_seconds(request, "seconds", throughput.MOST_SECONDS),
        streams=streams,
    )
    # To connect, to send, to hear the result.
    longest = order.seconds + 2 * throughput.SILENCE_SECONDS + SPARE_SECONDS
    server.tasks.spawn(lambda: throughput.send(token, order), reply, longest)


# --- names, nccl


def _names(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    addresses = _list(request, "addresses", str)
    names.ask(server.tasks, addresses, _seconds(request, "limit", names.MOST_SECONDS), reply)


def _nccl(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    python, env = str(request.get("python") or ""), start.environment(request)
    conf = start.conf_text(request)
    directory = None if server.state.path is None else str(server.state.path)

    def ask() -> dict[str, Any]:
        return ncclask.ask(python, env) if conf is None else ncclask.ask_with(python, env, conf, directory)

    server.tasks.spawn(ask, reply, ncclask.SECONDS + 5.0)


HANDLERS: dict[str, Callable[[Server, dict[str, Any], bytes, Reply], None]] = {
    "listen": _listen,
    "unlisten": _unlisten,
    "probe": _probe,
    "paths": _paths,
    "throughput": _throughput,
    "names": _names,
    "nccl": _nccl,
}
