"""The requests by which a controller looks at a conf file of this node and has it replaced."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from importlib.abc import InspectLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from . import boot, commands, confedit, conffiles, confkept, conflock, confprogram, machine, refusal
from .refusal import Refusal

if TYPE_CHECKING:
    from .serve import Server

Reply = Callable[["dict[str, Any]"], None]
SECONDS = 30.0
END_SECONDS = 5.0
PUSH_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
MODULES = (boot, confedit, conffiles, confkept, conflock, confprogram, refusal)
# Short: with sudo it stands in the system's log. The sources follow on stdin.
PROGRAM = """import json, sys
sources = json.loads(sys.stdin.buffer.readline())
scope = {"__name__": "ncclrun_node_boot"}
exec(compile(sources["boot"], "<ncclrun_node.boot>", "exec"), scope)
scope["load"](sources, "confprogram").main()
"""


def _sources() -> dict[str, str]:
    found = {}
    for module in MODULES:
        loader = module.__spec__.loader if module.__spec__ is not None else None
        assert isinstance(loader, InspectLoader)
        found[module.__name__.rpartition(".")[2]] = loader.get_source(module.__name__) or ""
    return found


class Child:
    """The program that changes one file, by `sudo -n` if ``root``; its end by any way puts the file back.

    Refuses with `no_sudo`. Raises OSError.
    """

    def __init__(self, path: Path, *, root: bool) -> None:
        self._path = path
        self._root = root
        self.busy = False
        self.then: Callable[[], None] | None = None
        """A rollback that came while it was at work."""
        sudo = commands.locate("sudo") if root else ""
        if sudo is None:
            raise _no_sudo(path, "there is no sudo")
        self._process = subprocess.Popen(
            [*([sudo, "-n", "--"] if root else []), sys.executable, "-I", "-S", "-X", "utf8", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # what sudo says, or a traceback: told where there is no answer
            cwd="/",
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._into, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._first = json.dumps(_sources()).encode("ascii") + b"\n" + json.dumps(str(path)).encode("ascii") + b"\n"

    @property
    def descriptors(self) -> frozenset[int]:
        """What `ask` needs."""
        return frozenset((self._into, self._out))

    def ask(self, request: dict[str, Any], *, first: bool) -> dict[str, Any]:
        """One request and its answer; waits, so it is for a forked child of ours."""
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        data = (self._first if first else b"") + json.dumps(request).encode("ascii") + b"\n"
        received = b""
        try:
            while data:
                data = data[os.write(self._into, data) :]
        except BrokenPipeError:
            pass  # it has ended, and maybe says why
        while True:
            piece = os.read(self._out, 1 << 16)
            received += piece
            for line in received.splitlines(keepends=True):
                if line.startswith(b'{"ok": ') and line.endswith(b"\n"):
                    answer: dict[str, Any] = json.loads(line.decode("ascii"))
                    return answer
            if not piece:
                raise self._silent(received.decode("utf-8", "replace").strip().splitlines()[-1:], first)

    def _silent(self, said: list[str], first: bool) -> Refusal:
        words = said[0] if said else "it said nothing"
        if self._root and first:
            return _no_sudo(self._path, words)
        fix = "run this again; if it comes again, see whether the kernel kills it:  dmesg | tail"
        return Refusal("internal", f"the program that changes {self._path} ended: {words}", fix)

    def close(self) -> None:
        """Ends its stdin: what is not finished is put back."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()

    def ended(self, seconds: float = 0.0) -> bool:
        """Whether it has gone, after waiting so long."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


def _no_sudo(path: Path, words: str) -> Refusal:
    user = machine.user()
    fix = f"let {user} run commands by sudo without a password, connect as root, or use deliver: user"
    return Refusal("no_sudo", f"{path} can't be changed by {user}: {words}", fix)


class Children:
    """The programs at work for one channel, by their files."""

    def __init__(self) -> None:
        self._at_work: dict[Path, Child] = {}
        self._leaving: list[Child] = []

    def get(self, path: Path) -> Child | None:
        """The one that has this file staged."""
        return self._at_work.get(path)

    def add(self, path: Path, child: Child) -> None:
        """From now on it has this file."""
        self._leaving = [one for one in self._leaving if not one.ended()]
        self._at_work[path] = child

    def drop(self, path: Path) -> None:
        """Ends the one that has this file."""
        child = self._at_work.pop(path)
        child.close()
        self._leaving.append(child)

    def close(self) -> None:
        """Ends all, and waits until they have put back what was not finished."""
        for path in list(self._at_work):
            self.drop(path)
        for child in self._leaving:
            child.ended(END_SECONDS)


# --- which file


def _which(request: dict[str, Any]) -> tuple[Path, list[str], bool]:
    """The file that is meant, the ways by which NCCL comes to it, and whether root alone may change it."""
    deliver, home = request.get("deliver"), request.get("home")
    if deliver == "system":
        return conffiles.SYSTEM, ["system"], os.geteuid() != 0
    if deliver != "user" or home not in ("home", "passwd_home"):
        message = f"deliver must be user or system, and home be home or passwd_home, not {deliver!r} and {home!r}"
        raise Refusal("bad_request", message)
    homes = {"home": os.environ.get("HOME", ""), "passwd_home": conffiles.passwd_home()}
    found = {role: conffiles.in_home(directory) for role, directory in homes.items()}
    places = {role: path for role, path in found.items() if path is not None and path.is_absolute()}
    if not places:
        raise Refusal("no_home", f"{machine.user()} has no home directory there", "use deliver: env or file")
    path = places.get(home) or next(iter(places.values()))
    return path, sorted(role for role, place in places.items() if place == path), False


# --- the requests


def _look(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
    path, roles, root = _which(request)

    def work() -> dict[str, Any]:
        if not root:
            return confedit.look(path, roles)
        try:
            child = Child(path, root=True)
            try:
                return child.ask({"do": "look", "roles": roles}, first=True)
            finally:
                child.close()
        except Refusal as refusal:
            if refusal.code != "no_sudo":
                raise
            # Who can't change the file may look at it all the same, and learns now what a change would meet.
            answer = confedit.look(path, roles, 0)
            return {**answer, "refused": answer["refused"] or refusal.as_json()}

    server.tasks.spawn(work, reply, SECONDS)


def _make_ready(do: str) -> Callable[[Server, dict[str, Any], bytes, Reply], None]:
    def handler(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
        path, _roles, root = _which(request)
        push_id, node_rank = request.get("push_id"), request.get("node_rank")
        if not isinstance(push_id, str) or not PUSH_ID.match(push_id) or not isinstance(node_rank, int):
            raise Refusal("bad_request", f"push_id and node_rank must say who asks, not {push_id!r} and {node_rank!r}")
        if server.conf_children.get(path) is not None:
            raise Refusal("bad_request", f"{path} is staged by this very connection already")
        server.conf_children.add(path, Child(path, root=root))
        _forward(server, path, {**request, "do": do, "user": machine.user()}, reply, first=True)

    return handler


def _go_on(do: str) -> Callable[[Server, dict[str, Any], bytes, Reply], None]:
    def handler(server: Server, request: dict[str, Any], body: bytes, reply: Reply) -> None:
        path = _which(request)[0]
        child = server.conf_children.get(path)
        if child is None:
            if do == "rollback":
                reply({"ok": True, "path": str(path), "rolled_back": False})
                return
            raise Refusal("not_staged", f"nothing is staged for {path} (any more)", "run the command again")
        if child.busy and do == "rollback":
            child.then = lambda: handler(server, request, body, reply)
            return
        if child.busy:
            raise Refusal("bad_request", f"{path} is being worked on: wait for the answer")
        _forward(server, path, {"do": do}, reply, last=do != "commit")

    return handler


def _forward(
    server: Server, path: Path, request: dict[str, Any], reply: Reply, *, first: bool = False, last: bool = False
) -> None:
    child = server.conf_children.get(path)
    assert child is not None
    child.busy = True

    def done(answer: dict[str, Any]) -> None:
        child.busy = False
        # What it refuses it has put back, and what takes too long it will: its stdin ends.
        if last or not answer["ok"]:
            server.conf_children.drop(path)
        reply(answer)
        then, child.then = child.then, None
        if then is not None:
            then()

    server.tasks.spawn(lambda: child.ask(request, first=first), done, SECONDS, child.descriptors)


HANDLERS: dict[str, Callable[[Server, dict[str, Any], bytes, Reply], None]] = {
    "conf_look": _look,
    "conf_stage": _make_ready("stage"),
    "conf_restore": _make_ready("restore"),
    "conf_commit": _go_on("commit"),
    "conf_rollback": _go_on("rollback"),
    "conf_finish": _go_on("finish"),
}
