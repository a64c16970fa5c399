"""A program of its own that changes one conf file, as a user who may: requests and answers are lines of JSON.

It lives from `stage` to `finish`. When its stdin ends before that, or it is told to leave, the file is put back.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, Callable

from . import conffiles
from .confedit import Edit, Order, look
from .refusal import Refusal

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Leave(Exception):
    """Somebody wants us to end."""


def _bytes(request: dict[str, Any], name: str) -> bytes | None:
    text = request.get(name)
    if text is None:
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise Refusal("bad_request", f"{name} is no base64: {error}") from error
    if len(data) > conffiles.MOST_BYTES:
        raise Refusal("too_long", f"a conf file has at most {conffiles.MOST_BYTES >> 10} KiB", "write fewer lines")
    return data


def order(request: dict[str, Any]) -> Order:
    """What a request wants of the file."""
    who = {name: request.get(name) for name in ("push_id", "node_rank", "user")}
    mode = request.get("mode")
    if mode is not None and (not isinstance(mode, int) or not 0 <= mode <= 0o777):
        raise Refusal("bad_request", f"mode must be permission bits, not {mode!r}")
    return Order(
        who={**who, "host": socket.gethostname(), "pid": os.getpid(), "at": time.time()},
        expect=request.get("expect"),
        data=_bytes(request, "data"),
        original=_bytes(request, "original"),
        mode=mode,
        keep_edits=bool(request.get("keep_edits")),
        aside=bool(request.get("aside")),
    )


def _answer(edit: Edit, path: Path, line: bytes) -> dict[str, Any]:
    request = json.loads(line.decode("ascii"))
    handlers: dict[str, Callable[[], dict[str, Any]]] = {
        "look": lambda: look(path, request["roles"]),
        "stage": lambda: edit.stage(order(request)),
        "restore": lambda: edit.restore(order(request)),
        "commit": edit.commit,
        "rollback": edit.rollback,
        "finish": edit.finish,
    }
    try:
        return {"ok": True, **handlers[request["do"]]()}
    except Refusal as refusal:
        return {"ok": False, "error": refusal.as_json()}


def _leave(*_: object) -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # once is enough, and putting back must not be cut short
    raise Leave


def main() -> None:
    """Serves the one who started us; the first line names the file."""
    for number in SIGNALS:
        signal.signal(number, _leave)
    # They are heard only between requests: nothing is left half-way.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    path = Path(json.loads(sys.stdin.buffer.readline().decode("ascii")))
    edit = Edit(path)
    try:
        while True:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            line = sys.stdin.buffer.readline()
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            if not line:
                return
            sys.stdout.buffer.write(json.dumps(_answer(edit, path, line)).encode("ascii") + b"\n")
            sys.stdout.buffer.flush()
    except (Leave, BrokenPipeError):
        return
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        edit.rollback()
