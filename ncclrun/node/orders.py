"""A supervisor's ear for orders: the lines of JSON that others on this machine write into the run's FIFO."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import sys
from pathlib import Path
from typing import Any, Callable

PIECE = 1 << 16


class Orders:
    """Hands each order to ``obey``; what is none is told in supervisor.log and left alone."""

    def __init__(self, selector: selectors.BaseSelector, fifo: Path, obey: Callable[[dict[str, Any]], None]) -> None:
        self._selector = selector
        self._path = fifo
        self._obey = obey
        self._fd = -1
        self._rest = b""

    def listen(self) -> None:
        """Opens the FIFO, or the one that lies in its place by now. Raises OSError."""
        # For both directions: it has no end when a writer goes.
        fd = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd >= 0:
            self._selector.unregister(self._fd)
            os.close(self._fd)
        self._fd = fd
        self._selector.register(fd, selectors.EVENT_READ, self._hear)

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._rest += os.read(self._fd, PIECE)
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            order = parse(line)
            if order is None:
                sys.stderr.write(f"not an order, and left alone: {line[:200]!r}\n")
            else:
                self._obey(order)


def parse(line: bytes) -> dict[str, Any] | None:
    """``{how, grace, reason, lost}``, ``{release}`` or ``{alive}`` (docs/node-protocol.md); None for anything else."""
    try:
        order = json.loads(line)
    except ValueError:
        return None
    if not isinstance(order, dict):
        return None
    if "how" in order and not (
        order["how"] in ("term", "kill")
        and isinstance(order.get("grace"), (int, float))
        and isinstance(order.get("lost"), (int, type(None)))
    ):
        return None
    return order
