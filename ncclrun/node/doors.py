"""What a node holds open while the network is proven: on each of its addresses TCP ports, and an echo for path MTUs."""

from __future__ import annotations

import os
import socket
from typing import Any, Callable, Iterable

from . import ports
from .addresses import endpoint
from .echo import Echo, open_echo
from .hello import Identity
from .listener import Callers, Listener, Sink, open_port
from .refusal import Refusal

MOST_ADDRESSES = 64
MOST_EXTRA = 8


class _Door:
    """One address."""

    def __init__(self, callers: Callers, address: str, extra: int, identity: Identity, sink: Sink) -> None:
        sockets: list[socket.socket] = []
        try:
            sockets.append(open_echo(address))
            sockets.append(open_port(address, 0))
            # NCCL listens where the kernel puts it, others where a person does: a firewall may tell them apart.
            sockets += (ports.open_high(address) if index % 2 else open_port(address, 0) for index in range(extra))
        except (OSError, Refusal):
            for sock in sockets:
                sock.close()
            raise
        self.echo = Echo(callers.selector, sockets[0], identity)
        self.listeners = [Listener(callers, sock, identity, sink) for sock in sockets[1:]]

    def as_json(self) -> dict[str, Any]:
        first, *extra = (listener.port for listener in self.listeners)
        return {"port": first, "extra": extra, "udp": self.echo.port}

    def close(self) -> None:
        self.echo.close()
        for listener in self.listeners:
            listener.close()


class Doors:
    """The doors of one `listen`."""

    def __init__(self, callers: Callers, addresses: Iterable[str], extra: int, identity: Identity, sink: Sink) -> None:
        self._doors: dict[str, _Door] = {}
        self.failed: dict[str, str] = {}
        for address in addresses:
            try:
                endpoint(address, 0)
                self._doors[address] = _Door(callers, address, extra, identity, sink)
            except Refusal as refusal:
                self.failed[address] = refusal.message
            except OSError as error:
                self.failed[address] = error.strerror or str(error)

    def as_json(self) -> dict[str, Any]:
        """The answer to `listen`."""
        listeners = {address: door.as_json() for address, door in self._doors.items()}
        return {"listeners": listeners, "failed": self.failed, "ssh_port": ssh_port(os.environ.get)}

    def close(self) -> None:
        """Closes all; safe to call twice."""
        for door in self._doors.values():
            door.close()
        self._doors.clear()


def ssh_port(variable: Callable[[str], str | None]) -> int | None:
    """Port of the sshd that our channel came through, by the variable that it sets; None if there was none."""
    words = (variable("SSH_CONNECTION") or "").split()
    return int(words[3]) if len(words) == 4 and words[3].isdigit() else None
