"""The table of all that a controller may ask for, and what is asked of no run: clock, facts, code, a key."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable

from . import (
    archive,
    authorize,
    confrequests,
    examine,
    facts,
    guardrequests,
    netrequests,
    partrequests,
    prepare,
    runrequests,
)

if TYPE_CHECKING:
    from .serve import Server

Reply = Callable[["dict[str, Any]"], None]
FACTS_SECONDS = 60.0


def _clock(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    reply({"ok": True, "time": time.time()})


def _facts(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    python = str(request.get("python") or "")
    server.tasks.spawn(lambda: facts.find(python), reply, FACTS_SECONDS)


def _examine(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    python = str(request.get("python") or "")
    environment = {str(name): str(value) for name, value in (request.get("environment") or {}).items()}
    server.tasks.spawn(lambda: examine.find(python, environment), reply, examine.SECONDS + FACTS_SECONDS)


def _has(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    cache = archive.Cache(server.state.need())
    reply({"ok": True, "has": cache.has(archive.check_sha256(request.get("sha256")))})


def _put(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    sha256 = archive.check_sha256(request.get("sha256"))
    cache = archive.Cache(server.state.need())
    if sha256 not in server.uploads:
        server.uploads[sha256] = archive.Upload(cache, sha256)
    upload = server.uploads[sha256]
    try:
        upload.add(body)
        if request.get("last"):
            del server.uploads[sha256]
            upload.finish()
    except OSError as error:
        server.uploads.pop(sha256, None)
        upload.abandon()
        if error.errno in prepare.NO_SPACE:
            raise prepare.disk_full(server.state.need()) from error
        raise
    if request.get("last"):
        cache.prune()
    reply({"ok": True})


def _authorize(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    reply({"ok": True, "added": authorize.authorize(str(request.get("public_key", "")))})


HANDLERS: dict[str, Callable[[Server, dict[str, Any], bytes, Reply], None]] = {
    "clock": _clock,
    "facts": _facts,
    "examine": _examine,
    "has": _has,
    "put": _put,
    "authorize": _authorize,
    **partrequests.HANDLERS,
    **netrequests.HANDLERS,
    **confrequests.HANDLERS,
    **guardrequests.HANDLERS,
    **runrequests.HANDLERS,
}
