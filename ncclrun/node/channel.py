"""stdin and stdout of the serving process as frames that never make it wait."""

from __future__ import annotations

import collections
import os
import time
from typing import Any

from . import wire

ROOM = 1 << 20
PIECE = 1 << 16


class Channel:
    """A decoder for what comes in and a queue for what goes out, over two descriptors."""

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.sink = sink
        self._decoder = wire.Decoder()
        self._queue: collections.deque[memoryview] = collections.deque()
        self._queued = 0
        self.said = time.monotonic()
        os.set_blocking(source, False)
        os.set_blocking(sink, False)

    @property
    def queued(self) -> int:
        """Bytes that the controller has not taken yet."""
        return self._queued

    @property
    def room(self) -> int:
        """Bytes that may be queued before followers must wait; answers are queued regardless."""
        return max(0, ROOM - self._queued)

    def receive(self) -> list[wire.Frame] | None:
        """The frames that arrived; None at the end of the stream. Raises wire.WireError on nonsense."""
        try:
            data = os.read(self.source, PIECE)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            return None
        return self._decoder.feed(data) if data else None

    def raw(self, data: bytes) -> None:
        """Queues bytes as they are (the line before the first frame)."""
        self.said = time.monotonic()
        self._queue.append(memoryview(data))
        self._queued += len(data)

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Queues one frame."""
        self.raw(wire.encode(header, body))

    def flush(self) -> bool:
        """Writes what the controller takes now; False when it has closed its end."""
        while self._queue:
            try:
                count = os.write(self.sink, self._queue[0])
            except BlockingIOError:
                return True
            except (BrokenPipeError, ConnectionResetError):
                return False
            self._queued -= count
            if count == len(self._queue[0]):
                self._queue.popleft()
            else:
                self._queue[0] = self._queue[0][count:]
        return True
