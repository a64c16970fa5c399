"""What is asked of one part of a run: prepare, discard, claim, start, follow, stop, release, sweep, stacks."""

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
    birth,
    follow,
    gpulocks,
    lost,
    ports,
    preparation,
    prepare,
    processes,
    rundir,
    stacks,
    start,
)
from .hello import Identity
from .listener import Listener
from .refusal import Refusal

if TYPE_CHECKING:
    from .serve import Server

Reply = Callable[["dict[str, Any]"], None]
PREPARE_SECONDS = 600.0
SLOW_SECONDS = 30.0
STACKS_SECONDS = 120.0
# One that is not released leaves by itself within seconds (lifeline.LINGER_SECONDS), but for node 0's while others run.
RELEASE_SECONDS = 10.0
GONE_SECONDS = 0.01
LONGEST_REASON = 300
"""Characters: as JSON of one order it is written to the FIFO at once, whatever they are (PIPE_BUF is 4096)."""


def name_of(run_id: str, node_rank: int) -> str:
    """The part as the server's tables name it."""
    return f"{run_id}/{node_rank}"


def named(request: dict[str, Any]) -> tuple[str, int]:
    """The run id and node_rank in a request, or a refusal."""
    rank = request.get("node_rank")
    if not isinstance(rank, int):
        raise Refusal("bad_request", "node_rank must be a number")
    return rundir.check_run_id(request.get("run_id")), rank


def find(server: Server, request: dict[str, Any]) -> rundir.RunDir:
    """The part that a request names, or a refusal."""
    return rundir.find(server.state.need(), *named(request))


def _own(server: Server, request: dict[str, Any]) -> rundir.RunDir:
    """The same, of a controller that has the run's token."""
    run = find(server, request)
    if run.run()["token"] != request.get("token"):
        raise Refusal("wrong_token", f"run {run.run_id} here is another's")
    return run


# --- prepare, discard


def _listener(server: Server, request: dict[str, Any], what: str, identity: Identity) -> Listener | None:
    """The port that a request asks for by ``what`` (`listen`, `lifeline`)."""
    wanted = request.get(what)
    if wanted is None:
        return None
    if not isinstance(wanted, dict) or not isinstance(wanted.get("address"), str):
        raise Refusal("bad_request", f"{what} must be {{address, port}}")
    port = wanted.get("port", 0)
    if not isinstance(port, int) or not 0 <= port <= 65535:  # the largest port
        raise Refusal("bad_request", f"{port!r} is no port")
    return Listener(server.callers, ports.open_master(wanted["address"], port), identity)


def release(server: Server, name: str) -> None:
    """Frees a prepared run's port and GPUs, if it holds any."""
    listener = server.listeners.pop(name, None)
    if listener is not None:
        listener.close()
    lifeline = server.lifelines.pop(name, None)
    if lifeline is not None:
        lifeline.close()
    server.gpu_locks.pop(name, gpulocks.Locks()).close()


def _prepare(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    state = server.state.need()
    order = preparation.check(request)
    name = name_of(order.run_id, order.node_rank)
    if name in server.drafts or name in server.prepared:
        raise Refusal("run_exists", f"run {order.run_id} is being prepared by this very connection")
    identity = Identity(order.token, order.node_rank)
    try:
        listener = _listener(server, request, "listen", identity)
        if listener is not None:
            server.listeners[name] = listener
        lifeline = _listener(server, request, "lifeline", identity)
        if lifeline is not None:
            server.lifelines[name] = lifeline
        draft = server.drafts[name] = prepare.draft(state, order)
    except Refusal:
        release(server, name)
        raise

    def done(answer: dict[str, Any]) -> None:
        del server.drafts[name]
        if answer["ok"]:
            server.prepared[name] = rundir.RunDir(Path(answer["dir"]))
            answer["port"] = listener.port if listener is not None else 0
            answer["lifeline_port"] = lifeline.port if lifeline is not None else 0
        else:
            release(server, name)
            prepare.scrap(draft)  # a child that was killed could not
        reply(answer)

    cache = archive.Cache(state)
    server.tasks.spawn(lambda: prepare.build(state, order, draft, cache), done, PREPARE_SECONDS)


def remove_unstarted(run: rundir.RunDir) -> bool:
    """Removes a prepared run; False where it was started meanwhile."""
    if not run.path.exists() or not run.take():
        return False
    aside = run.path.with_name(f".{run.path.name}.{os.urandom(4).hex()}.gone")
    run.path.rename(aside)
    prepare.scrap(aside)
    return True


def _discard(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    run = _own(server, request)
    if not remove_unstarted(run):
        raise Refusal("started", f"run {run.run_id} was started", "stop it")
    name = name_of(run.run_id, run.node_rank)
    release(server, name)
    server.prepared.pop(name, None)
    reply({"ok": True})


# --- claim, start, follow, stop, release, sweep


def _superseded(run: rundir.RunDir, epoch: int, claim: dict[str, Any]) -> Refusal:
    who = f"{claim.get('by', '?')}@{claim.get('host', '?')}"
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(float(claim.get("since", 0))))
    return Refusal(
        "superseded",
        f"{who} has taken over run {run.run_id} since {since}",
        f"to take it back: ncclrun attach {run.run_id}",
        {"epoch": epoch, **claim},
    )


def _check_epoch(run: rundir.RunDir, request: dict[str, Any]) -> None:
    """Refuses an order of a controller that another one has taken the run from."""
    last, claim = run.last_claim()
    if int(request.get("epoch") or 0) < last:
        raise _superseded(run, last, claim)


def _claim(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    run = _own(server, request)
    wanted = request.get("epoch")
    if wanted is not None and (not isinstance(wanted, int) or wanted < 1):
        raise Refusal("bad_request", f"epoch must be a number from 1 on, not {wanted!r}")
    who = {"by": str(request.get("by", "")), "host": str(request.get("host", "")), "since": time.time()}
    epoch = run.claim(wanted, who)
    if epoch is None:
        raise _superseded(run, *run.last_claim())
    server.epochs[name_of(run.run_id, run.node_rank)] = epoch
    reply({"ok": True, "epoch": epoch})


def _start(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    run = _own(server, request)
    _check_epoch(run, request)
    terms = start.terms(request)
    programs = start.programs(request, run, run.run(), server.login_umask)
    if not run.take():
        raise Refusal("started", f"run {run.run_id} was started already")
    name = name_of(run.run_id, run.node_rank)
    locks = server.gpu_locks.pop(name, gpulocks.Locks())
    lifeline = server.lifelines.pop(name, None)
    port = None if lifeline is None else lifeline.let_go()
    release(server, name)
    server.prepared.pop(name, None)
    try:
        fd = birth.launch(run, programs, terms, birth.Held(locks.descriptors, port))
    finally:
        locks.close()
        if port is not None:
            port.close()
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
    run = find(server, request)
    tail = request.get("tail")
    if tail is not None and (not isinstance(tail, int) or tail < 0):
        raise Refusal("bad_request", "tail must be a number of lines")
    name = name_of(run.run_id, run.node_rank)
    if not run.control.exists():
        raise Refusal("not_started", f"run {run.run_id} was prepared here and never started", "discard it")
    new = follow.Follow(run, request.get("offsets"), tail)
    if request.get("epoch") is not None:
        server.epochs[name] = int(request["epoch"])
    if name in server.follows:
        server.follows[name].close()
    server.follows[name] = new
    reply({"ok": True, "ends": new.ends()})


def _stop(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    run = find(server, request)
    how, grace = request.get("how"), float(request.get("grace", 30.0))
    if how not in ("term", "kill"):
        raise Refusal("bad_request", f"how must be term or kill, not {how!r}")
    lost = request.get("lost")
    if lost is not None and not isinstance(lost, int):
        raise Refusal("bad_request", f"lost must be a node_rank or null, not {lost!r}")
    _check_epoch(run, request)
    lives = run.end() is None and run.state() is not None
    owner = run.supervisor()
    if owner is not None:
        # Somebody's SIGSTOP, also one that is only on its way: it would hear nothing.
        processes.send(owner, signal.SIGCONT)
    reason = str(request.get("reason") or "")[:LONGEST_REASON]
    order = {"how": how, "grace": grace, "reason": reason, "lost": lost}
    # Also to one whose run has ended here: on node 0 it stays for the others.
    asked = run.order(order)
    if lives and not asked:
        server.settle(run)
    reply({"ok": True, "asked": asked})


def _release(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    run = _own(server, request)
    if run.end() is None:
        raise Refusal("running", f"run {run.run_id} has not ended there", "stop it")
    keepers = run.keepers()
    processes.send_all(keepers, signal.SIGCONT)
    if keepers:
        run.order({"release": True})

    def gone() -> dict[str, Any]:
        until = time.monotonic() + RELEASE_SECONDS
        while any(map(processes.lives, keepers)) and time.monotonic() < until:
            time.sleep(GONE_SECONDS)
        return {"gone": not any(map(processes.lives, keepers))}

    server.tasks.spawn(gone, reply, RELEASE_SECONDS + SLOW_SECONDS)


def _sweep(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    run_id = rundir.check_run_id(request.get("run_id"))
    token = request.get("token")
    kill = bool(request.get("kill"))
    checked = None if token is None else preparation.check_token(token)
    server.tasks.spawn(lambda: {"alive": lost.sweep(run_id, checked, kill)}, reply, SLOW_SECONDS)


def _stacks(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    run = find(server, request)
    seconds = request.get("seconds", SLOW_SECONDS)
    if not isinstance(seconds, (int, float)) or not 0 <= seconds <= STACKS_SECONDS:
        raise Refusal("bad_request", f"seconds must be a number from 0 to {STACKS_SECONDS:g}, not {seconds!r}")
    server.tasks.spawn(lambda: stacks.find(run, seconds), reply, seconds + SLOW_SECONDS)


HANDLERS: dict[str, Callable[[Server, dict[str, Any], bytes, Reply], None]] = {
    "prepare": _prepare,
    "discard": _discard,
    "claim": _claim,
    "start": _start,
    "follow": _follow,
    "stop": _stop,
    "release": _release,
    "sweep": _sweep,
    "stacks": _stacks,
}
