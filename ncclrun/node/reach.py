"""Whether another node can be reached from one of our addresses, and whether it is the one that is meant."""

from __future__ import annotations

import errno
import hmac
import os
import socket
import time
from typing import Any

from . import ports
from .refusal import Refusal

WORDS = {
    errno.ECONNREFUSED: ("refused", "the connection was refused: nothing listens there, or a firewall rejects it"),
    errno.EHOSTUNREACH: ("no_route", "there is no route to that host"),
    errno.ENETUNREACH: ("no_route", "there is no route to that network"),
    errno.EACCES: ("no_route", "a firewall on that host forbids the connection"),
    errno.EPERM: ("no_route", "a firewall on that host forbids the connection"),
    errno.ETIMEDOUT: ("timeout", "no answer came: a firewall drops the packets, or the address lies elsewhere"),
    errno.ECONNRESET: ("refused", "the connection was reset"),
}


def _refusal(where: str, error: OSError) -> Refusal:
    if isinstance(error, socket.timeout):
        code, words = WORDS[errno.ETIMEDOUT]
    else:
        code, words = WORDS.get(error.errno or 0, ("unreachable", str(error.strerror or error)))
    return Refusal(code, f"{where}: {words}")


def _answer(sock: socket.socket, deadline: float) -> bytes:
    text = b""
    while not text.endswith(b"\n") and len(text) < ports.LONGEST_HELLO:
        left = deadline - time.monotonic()
        if left <= 0:
            raise socket.timeout
        sock.settimeout(left)
        data = sock.recv(ports.LONGEST_HELLO)
        if not data:
            break
        text += data
    return text.rstrip(b"\n")


def reach(address: str, port: int, token: str, source: str | None, timeout: float) -> dict[str, Any]:
    """Connects and checks the answer to a challenge; ``seconds`` is what the whole took.

    Refuses with `refused`, `timeout`, `no_route`, `unreachable`, `bad_address` (a source that is not ours) or
    `wrong_machine` (somebody answered who does not know the run's token).
    """
    family, target = ports.endpoint(address, port)
    where = f"{address} port {port}" + (f" from {source}" if source else "")
    begin = time.monotonic()
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        if source:
            try:
                sock.bind(ports.endpoint(source, 0)[1])
            except OSError as error:
                raise Refusal("bad_address", f"{where}: {source} is no address of this machine") from error
        try:
            sock.settimeout(timeout)
            sock.connect(target)
            challenge = os.urandom(16).hex().encode("ascii")
            sock.sendall(challenge + b"\n")
            answer = _answer(sock, begin + timeout)
        except OSError as error:
            raise _refusal(where, error) from error
    if not hmac.compare_digest(answer, ports.proof(token, challenge)):
        raise Refusal("wrong_machine", f"{where}: something answers there, but it is not the master of this run")
    return {"seconds": time.monotonic() - begin}
