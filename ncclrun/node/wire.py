"""Frames between controller and node: a JSON header and raw bytes, both ways over one byte stream."""

from __future__ import annotations

import json
import struct
from typing import Any, Dict, Tuple

PROTOCOL = 1
HEAD = struct.Struct(">II")
MAX_HEADER = 8 << 20
MAX_BODY = 8 << 20

Frame = Tuple[Dict[str, Any], bytes]


class WireError(ValueError):
    """The other side sent what is not a frame."""


def encode(header: dict[str, Any], body: bytes = b"") -> bytes:
    """One frame: two big-endian 32-bit lengths, the header as ASCII JSON (lone surrogates survive), the body."""
    head = json.dumps(header, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    if len(head) > MAX_HEADER or len(body) > MAX_BODY:
        raise WireError(f"a frame of {len(head)} + {len(body)} bytes is too large")
    return HEAD.pack(len(head), len(body)) + head + body


class Decoder:
    """Takes bytes in any pieces and gives whole frames back, in order."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """All frames that ``data`` completes. Raises WireError on nonsense; the stream is then lost."""
        self._buffer += data
        frames: list[Frame] = []
        start = 0
        while len(self._buffer) - start >= HEAD.size:
            head_size, body_size = HEAD.unpack_from(self._buffer, start)
            if head_size > MAX_HEADER or body_size > MAX_BODY:
                raise WireError(f"a frame header announces {head_size} + {body_size} bytes")
            end = start + HEAD.size + head_size + body_size
            if len(self._buffer) < end:
                break
            middle = start + HEAD.size + head_size
            try:
                header = json.loads(bytes(self._buffer[start + HEAD.size : middle]).decode("ascii"))
            except ValueError as error:
                raise WireError(f"a frame header is not JSON: {error}") from error
            if not isinstance(header, dict):
                raise WireError("a frame header is not a mapping")
            frames.append((header, bytes(self._buffer[middle:end])))
            start = end
        if start:
            del self._buffer[:start]
        return frames
