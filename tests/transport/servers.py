"""SSH servers on 127.0.0.N to break at will: real sshds of this user, and a paramiko server for what needs PAM."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_PARTIALLY_SUCCESSFUL,
    AUTH_SUCCESSFUL,
    OPEN_SUCCEEDED,
)
from paramiko.server import InteractiveQuery

from ncclrun.model.cluster import Launch, Network, Node, Ssh

SSHD = "/usr/sbin/sshd"
PASSWORD = "secret"


def free_port(address: str = "127.0.0.1") -> int:
    """A TCP port that is free at this moment."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """A new key pair at ``path`` and ``path``.pub."""
    for old in (path, path.with_name(path.name + ".pub")):
        old.unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)]
    subprocess.run([*command, *(["-b", "2048"] if kind == "rsa" else [])], check=True)
    return path


class Sshd:
    """An sshd that lets in the key ``user_key`` of its directory's parent."""

    def __init__(
        self, home: Path, user_key: Path, *, options: Sequence[str] = (), kinds: Sequence[str] = ("ed25519",)
    ) -> None:
        self.home = home
        self.address = "127.0.0.1"
        self.port = free_port()
        self.kinds = kinds
        self._options = options
        self._user_key = user_key
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir()
        for kind in kinds:
            make_key(home / f"host_{kind}", kind)

    @property
    def known_name(self) -> str:
        """The name in known_hosts."""
        return f"[{self.address}]:{self.port}"

    def public_key(self, kind: str = "ed25519") -> str:
        """``ssh-ed25519 AAAA…``."""
        return " ".join((self.home / f"host_{kind}.pub").read_text().split()[:2])

    def start(self) -> None:
        """Starts it and waits until it listens."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        lines = [
            f"Port {self.port}",
            f"ListenAddress {self.address}",
            *(f"HostKey {self.home}/host_{kind}" for kind in self.kinds),
            f"AuthorizedKeysFile {self._user_key}.pub",
            "StrictModes no",
            "PidFile none",
            "UsePAM no",
            "LogLevel VERBOSE",
            "PermitRootLogin yes",
        ]
        # of two lines with one keyword sshd takes the first
        (self.home / "sshd_config").write_text("\n".join([*self._options, *lines]) + "\n")
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen([SSHD, "-D", "-e", "-f", self.home / "sshd_config"], stderr=log)
        for _ in range(600):
            with suppress(OSError), socket.create_connection((self.address, self.port), 1) as probe:
                if probe.recv(4) == b"SSH-":
                    return
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"sshd does not start:\n{self.log()}")

    def stop(self) -> None:
        """Ends it and its sessions."""
        if self._process is not None:
            for pid in (*self.sessions(), self._process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
            self._process.wait()
            self._process = None

    def swap_key(self) -> None:
        """Another host key, as after a new installation."""
        self.stop()
        make_key(self.home / "host_ed25519")
        self.start()

    def sessions(self) -> list[int]:
        """Process ids of the sshds that serve a connection."""
        assert self._process is not None
        found, todo = [], [self._process.pid]
        while todo:
            for pid in _children(todo.pop()):
                with suppress(FileNotFoundError, ProcessLookupError):  # it ended while we looked
                    if Path(f"/proc/{pid}/comm").read_text().startswith("sshd"):
                        found.append(pid)
                        todo.append(pid)
        return found

    def log(self) -> str:
        """What it said."""
        return (self.home / "log").read_text(errors="replace")


def _children(pid: int) -> list[int]:
    """Process ids of a process's children; [] of one that has ended."""
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended while we looked
            found += map(int, children.read_text().split())
    return found


class Lab:
    """A user's directory with a key and known_hosts, and the servers made in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.key = make_key(home / "id_ed25519")
        self.known_hosts = home / "known_hosts"
        self.known_hosts.write_text("")
        self.config = home / "ssh_config"
        self.config.write_text("")
        self.servers: list[Sshd] = []

    def server(self, *, known: bool = True, options: Sequence[str] = (), kinds: Sequence[str] = ("ed25519",)) -> Sshd:
        """A running sshd, in known_hosts unless told otherwise."""
        server = Sshd(self.home / f"sshd{len(self.servers)}", self.key, options=options, kinds=kinds)
        self.servers.append(server)
        server.start()
        if known:
            self.know(server.known_name, server.public_key(kinds[0]))
        return server

    def know(self, name: str, key: str, marker: str = "") -> None:
        """Adds a line to known_hosts."""
        with self.known_hosts.open("a") as file:
            file.write(f"{marker} {name} {key}\n".lstrip())

    def node(self, server: Sshd | None = None, *, name: str = "n", host: str = "127.0.0.1", **ssh: Any) -> Node:
        """A node of the cluster file that leads to ``server``."""
        given = {
            "user": getpass.getuser(),
            "identity_file": str(self.key),
            "known_hosts": str(self.known_hosts),
            "config": str(self.config),
            "connect_timeout": 10,
        }
        if server is not None:
            given["port"] = server.port
        settings = Ssh.model_validate({k: v for k, v in {**given, **ssh}.items() if v is not None})
        return Node(name=name, host=host, ssh=settings, network=Network(), launch=Launch())

    def stop(self) -> None:
        """Ends all servers."""
        for server in self.servers:
            server.stop()


class FakeServer(paramiko.ServerInterface):
    """A server that takes a password by whatever method the test wants."""

    def __init__(self, allowed: str, *, password: str = PASSWORD, prompts: Sequence[tuple[str, bool]] = ()) -> None:
        self.allowed = allowed
        self.password = password
        self.prompts = prompts
        self.asked: list[str] = []
        self.answers: list[list[str]] = []

    def get_allowed_auths(self, username: str) -> str:
        return self.allowed

    def check_auth_none(self, username: str) -> int:
        return AUTH_FAILED

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self.asked.append("publickey")
        if self.allowed == "publickey,second":
            self.allowed = "keyboard-interactive"
            return AUTH_PARTIALLY_SUCCESSFUL
        return AUTH_FAILED

    def check_auth_password(self, username: str, password: str) -> int:
        self.asked.append("password")
        return AUTH_SUCCESSFUL if password == self.password else AUTH_FAILED

    def check_auth_interactive(self, username: str, submethods: str) -> int | InteractiveQuery:
        self.asked.append("keyboard-interactive")
        return InteractiveQuery("", "", *self.prompts)

    def check_auth_interactive_response(self, responses: list[str]) -> int | InteractiveQuery:
        self.answers.append(responses)
        return AUTH_SUCCESSFUL if responses == [self.password] else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return command == b"exec /bin/sh -s"


@contextmanager
def fake_server(lab: Lab, interface: FakeServer) -> Iterator[int]:
    """Serves ``interface`` to every connection, with a host key that is known; yields the port."""
    key = paramiko.PKey.from_path(make_key(lab.home / "fake_host_key"))
    transports: list[paramiko.Transport] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        lab.know(f"[127.0.0.1]:{port}", f"{key.get_name()} {key.get_base64()}")

        def serve() -> None:
            with suppress(OSError):
                while True:
                    transport = paramiko.Transport(listener.accept()[0])
                    transports.append(transport)
                    transport.add_server_key(key)
                    transport.start_server(event=threading.Event(), server=interface)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield port
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    for transport in transports:
        transport.close()


@contextmanager
def raw_server(behaviour: str = "silent") -> Iterator[tuple[int, list[float]]]:
    """A listener that is no SSH server: ``silent``, ``closing`` or ``web``. Yields its port and when it was called."""
    times: list[float] = []
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    times.append(time.monotonic())
                    if behaviour == "web":
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n" * 101)
                    if behaviour == "silent":
                        held.append(connection)
                    else:
                        connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1]), times
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    for connection in held:
        connection.close()
