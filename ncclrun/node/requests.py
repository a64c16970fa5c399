"""What a controller may ask for: one function a request, and the table that names them."""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from . import (
    archive,
    authorize,
    confrequests,
    facts,
    follow,
    lost,
    netrequests,
    ports,
    prepare,
    processes,
    rundir,
    start,
    supervisor,
)
from .hello import Identity
from .listener import Listener
from .refusal import Refusal

if TYPE_CHECKING:
    from .serve import Server

Reply = Callable[["dict[str, Any]"], None]
FACTS_SECONDS = 60.0
PREPARE_SECONDS = 600.0
SLOW_SECONDS = 30.0


def _name(run_id: str, node_rank: object) -> str:
    return f"{run_id}/{node_rank}"


def _find(server: Server, request: dict[str, Any]) -> rundir.RunDir:
    """The run's part that a request names."""
    rank = request.get("node_rank")
    if not isinstance(rank, int):
        raise Refusal("bad_request", "node_rank must be a number")
    return rundir.find(server.state.need(), rundir.check_run_id(request.get("run_id")), rank)


def _clock(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    reply({"ok": True, "time": time.time()})


def _facts(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    python = str(request.get("python") or "")
    server.tasks.spawn(lambda: facts.find(python), reply, FACTS_SECONDS)


# --- code


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


# --- prepare, discard


def _listener(server: Server, request: dict[str, Any], identity: Identity) -> Listener | None:
    wanted = request.get("listen")
    if wanted is None:
        return None
    if not isinstance(wanted, dict) or not isinstance(wanted.get("address"), str):
        raise Refusal("bad_request", "listen must be {address, port}")
    port = wanted.get("port", 0)
    if not isinstance(port, int) or not 0 <= port <= 65535:  # the largest port
        raise Refusal("bad_request", f"{port!r} is no port")
    return Listener(server.callers, ports.open_master(wanted["address"], port), identity)


def release(server: Server, name: str) -> None:
    """Frees a prepared run's port, if it holds one."""
    listener = server.listeners.pop(name, None)
    if listener is not None:
        listener.close()


def _prepare(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    state = server.state.need()
    order = prepare.check(request)
    name = _name(order.run_id, order.node_rank)
    if name in server.drafts or name in server.prepared:
        raise Refusal("run_exists", f"run {order.run_id} is being prepared by this very connection")
    listener = _listener(server, request, Identity(order.token, order.node_rank))
    if listener is not None:
        server.listeners[name] = listener
    draft = server.drafts[name] = prepare.draft(state, order)

    def done(answer: dict[str, Any]) -> None:
        del server.drafts[name]
        if answer["ok"]:
            server.prepared[name] = rundir.RunDir(Path(answer["dir"]))
            answer["port"] = listener.port if listener is not None else 0
        else:
            release(server, name)
            prepare.scrap(draft)  # a child that was killed could not
        reply(answer)

    cache = archive.Cache(state)
    server.tasks.spawn(lambda: prepare.build(state, order, draft, cache), done, PREPARE_SECONDS)


def remove_unstarted(run: rundir.RunDir) -> None:
    """Removes a prepared run unless it was started meanwhile; the rename decides between the two."""
    if run.control.exists() or not run.path.exists():
        return
    aside = run.path.with_name(f".{run.path.name}.{os.getpid()}.gone")
    run.path.rename(aside)
    prepare.scrap(aside)


def _discard(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    run = _find(server, request)
    if run.run()["token"] != request.get("token"):
        raise Refusal("wrong_token", f"run {run.run_id} here is another's")
    if run.control.exists():
        raise Refusal("started", f"run {run.run_id} was started", "stop it")
    name = _name(run.run_id, run.node_rank)
    release(server, name)
    server.prepared.pop(name, None)
    remove_unstarted(run)
    reply({"ok": True})


# --- start, follow, stop, sweep


def _start(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    run = _find(server, request)
    run_facts = run.run()
    if run_facts["token"] != request.get("token"):
        raise Refusal("wrong_token", f"run {run.run_id} here is another's")
    programs = start.programs(request, run, run_facts, server.login_umask)
    try:
        os.mkfifo(run.control, 0o600)  # exclusive: of two starts one wins
    except FileExistsError:
        raise Refusal("started", f"run {run.run_id} was started already") from None
    name = _name(run.run_id, run.node_rank)
    release(server, name)
    server.prepared.pop(name, None)
    fd = supervisor.launch(run, programs, start.terms(request))
    received = bytearray()

    def readable() -> None:
        data = os.read(fd, 1 << 16)
        received.extend(data)
        if data and not received.endswith(b"\n"):
            return
        server.selector.unregister(fd)
        os.close(fd)
        reply(json.loads(received.decode("ascii")) if received else _dead(run))

    server.selector.register(fd, selectors.EVENT_READ, readable)


def _dead(run: rundir.RunDir) -> dict[str, Any]:
    try:
        complaint = run.complaints.read_text("utf-8", "replace").strip().splitlines()[-1:]
    except OSError:
        complaint = []
    message = "the supervisor died at the start" + (f": {complaint[0]}" if complaint else "")
    return {"ok": False, "error": {"code": "internal", "message": message, "fix": f"see {run.complaints}"}}


def _follow(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    run = _find(server, request)
    tail = request.get("tail")
    if tail is not None and (not isinstance(tail, int) or tail < 0):
        raise Refusal("bad_request", "tail must be a number of lines")
    name = _name(run.run_id, run.node_rank)
    if not run.control.exists():
        raise Refusal("not_started", f"run {run.run_id} was prepared here and never started", "discard it")
    new = follow.Follow(run, request.get("offsets"), tail)
    if name in server.follows:
        server.follows[name].close()
    server.follows[name] = new
    reply({"ok": True})


def _stop(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    run = _find(server, request)
    how, grace = request.get("how"), float(request.get("grace", 30.0))
    if how not in ("term", "kill"):
        raise Refusal("bad_request", f"how must be term or kill, not {how!r}")
    lives = run.end() is None and run.state() is not None
    owner = run.supervisor()
    if owner is not None:
        # Somebody's SIGSTOP, also one that is only on its way: it would hear nothing.
        processes.send(owner, signal.SIGCONT)
    asked = lives and owner is not None and _order(run, {"how": how, "grace": grace})
    if lives and not asked:
        server.settle(run)
    reply({"ok": True, "asked": asked})


def _order(run: rundir.RunDir, order: dict[str, Any]) -> bool:
    """Gives the supervisor an order; False when none reads."""
    try:
        fd = os.open(run.control, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False  # ENXIO: it has just gone
    try:
        os.write(fd, json.dumps(order).encode("ascii") + b"\n")
    finally:
        os.close(fd)
    return True


def _sweep(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    run_id = rundir.check_run_id(request.get("run_id"))
    token = request.get("token")
    kill = bool(request.get("kill"))
    checked = None if token is None else prepare.check_token(token)
    server.tasks.spawn(lambda: {"alive": lost.sweep(run_id, checked, kill)}, reply, SLOW_SECONDS)


def _authorize(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    reply({"ok": True, "added": authorize.authorize(str(request.get("public_key", "")))})


HANDLERS: dict[str, Callable[[Server, dict[str, Any], bytes, Reply], None]] = {
    "clock": _clock,
    "facts": _facts,
    "has": _has,
    "put": _put,
    "prepare": _prepare,
    "discard": _discard,
    "start": _start,
    "follow": _follow,
    "stop": _stop,
    "sweep": _sweep,
    "authorize": _authorize,
    **netrequests.HANDLERS,
    **confrequests.HANDLERS,
}
