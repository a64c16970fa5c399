"""The byte stream under an SSH connection: names and TCP within a deadline, or a ProxyCommand's process."""

from __future__ import annotations

import errno
import ipaddress
import os
import queue
import signal
import socket
import subprocess
import tempfile
import threading
import time
from typing import IO, Literal

from ncclrun.model.errors import HostError

Family = Literal["any", "inet", "inet6"]
Address = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]

PROXY_TAIL = 2048
PRIVATE = ("NCCLRUN_SSH_PASSWORD",)
_FAMILIES = {"any": socket.AF_UNSPEC, "inet": socket.AF_INET, "inet6": socket.AF_INET6}
_NO_ROUTE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL})


class Deadline:
    """A moment on the monotonic clock, and the seconds until then."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds left, never below a millisecond, so that it can stand as a time-out."""
        return max(self._end - time.monotonic(), 0.001)

    def passed(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._end


def is_literal(host: str) -> bool:
    """Whether ``host`` is an address rather than a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def look_up(host: str, port: int, family: Family, seconds: float) -> list[Address]:
    """The addresses of a name, in the system's order. Raises OSError: gaierror, or TimeoutError after ``seconds``.

    getaddrinfo can't be interrupted, so it runs in a thread that is left behind when the name servers are dead.
    """
    answers: queue.SimpleQueue[list[Address] | OSError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, _FAMILIES[family], socket.SOCK_STREAM)
            answers.put([(f, address) for f, _, _, _, address in found if f in (socket.AF_INET, socket.AF_INET6)])  # type: ignore[misc]
        except UnicodeError:
            answers.put(socket.gaierror(socket.EAI_NONAME, "not a host name"))
        except OSError as error:
            answers.put(error)

    if is_literal(host):
        ask()
    else:
        threading.Thread(target=ask, name="ncclrun-dns", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer from the name servers within {seconds:.0f} s") from None
    if isinstance(answer, OSError):
        raise answer
    return answer


def dial(label: str, host: str, port: int, family: Family, deadline: Deadline) -> socket.socket:
    """A connected TCP socket with TCP_NODELAY, from the first address that answers.

    Raises HostError: ``name``, ``refused``, ``no_route``, ``timeout``.
    """
    try:
        addresses = look_up(host, port, family, deadline.left())
    except TimeoutError as error:
        raise HostError("name", f"{label}: looking up {host}: {error}", fix="see /etc/resolv.conf") from error
    except OSError as error:
        raise HostError(
            "name",
            f"{label}: the name {host} can't be resolved: {error.strerror or error}",
            fix=f"mend the name, or give {label} a HostName in ssh_config",
        ) from error
    last: OSError = OSError(errno.EADDRNOTAVAIL, "no address of the wanted family")
    for position, (kind, address) in enumerate(addresses):
        connection = socket.socket(kind, socket.SOCK_STREAM)
        try:
            # what is left is shared, so that one dead address does not use up the time of the others
            connection.settimeout(deadline.left() / (len(addresses) - position))
            connection.connect(address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            connection.close()
            last = error
        else:
            return connection
    raise tcp_error(label, host, port, last, deadline) from last


def tcp_error(label: str, host: str, port: int, error: OSError, deadline: Deadline) -> HostError:
    """The error for a TCP connection that failed, with the word for its kind."""
    where = f"{label}: {host} port {port}"
    if isinstance(error, ConnectionRefusedError):
        return HostError("refused", f"{where}: connection refused", fix="is sshd running there, and is the port right?")
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return HostError(
            "timeout",
            f"{where}: timed out: no TCP connection within {deadline.seconds:g} s",
            fix="is the host up, and does a firewall drop the packets?",
        )
    if error.errno in _NO_ROUTE:
        return HostError("no_route", f"{where}: {error.strerror}", fix="is the host up, and the network or VPN to it?")
    return HostError("no_route", f"{where}: {error.strerror or error}")


def child_environment() -> dict[str, str]:
    """Our environment for the processes that we start, without what is ours alone."""
    return {name: value for name, value in os.environ.items() if name not in PRIVATE}


class Proxy:
    """A ProxyCommand's process, spoken to through ``socket``, a real socket: its death is an end of stream.

    It runs in a session of its own, so that Ctrl-C here does not end it.
    """

    def __init__(self, command: str) -> None:
        self.command = command
        ours, theirs = socket.socketpair()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by close()
        try:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(  # the user's own ssh_config says what to run
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._errors,
                env=child_environment(),
                start_new_session=True,
            )
        except OSError:
            ours.close()
            self._errors.close()
            raise
        finally:
            theirs.close()
        self.socket = ours
        self._lock = threading.Lock()

    def exit_status(self) -> int | None:
        """Exit status, None while it runs; waits a moment for a process that is just ending."""
        try:
            return self._process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            return None

    def errors(self) -> str:
        """The end of what it wrote to stderr."""
        with self._lock:
            if self._errors.closed:
                return ""
            size = os.fstat(self._errors.fileno()).st_size
            raw = os.pread(self._errors.fileno(), PROXY_TAIL, max(0, size - PROXY_TAIL))
        return raw.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Ends the process and its children; safe to call twice."""
        self.socket.close()
        with self._lock:
            if self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGTERM)
                try:
                    self._process.wait(timeout=0.5)
                except subprocess.TimeoutExpired:
                    os.killpg(self._process.pid, signal.SIGKILL)
                    self._process.wait()
            self._errors.close()
