"""One try to connect to an SSH server: what is asked for first, which host key is let in, and what a failure means."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from paramiko import ChannelException, MissingHostKeyPolicy, PKey, SSHClient, SSHException, Transport
from paramiko.ssh_exception import IncompatiblePeer

from ncclrun.model.errors import HostError
from ncclrun.transport.dial import Deadline, Proxy
from ncclrun.transport.hostkeys import HostKey, KnownHosts, refusal
from ncclrun.transport.target import Target

WINDOW = 2 << 20  # larger ones made sshd burn CPU
_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")  # a fraction of the CPU of paramiko's first choice
_NEARLY = 0.05


class Dropped(Exception):
    """The server closed the connection before it showed its key (sshd's MaxStartups does): worth another try."""

    def __init__(self, error: HostError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass
class Attempt:
    """Where a connection goes and how far it has got, so that an error can say so."""

    target: Target
    deadline: Deadline
    known: KnownHosts
    kinds: tuple[str, ...] = ()
    """Only these key algorithms, for a scan."""
    proxy: Proxy | None = None
    transport: Transport | None = None
    key_accepted: bool = False

    def restart(self) -> None:
        """Forgets how far it had got."""
        self.proxy, self.transport, self.key_accepted = None, None, False

    def make_transport(self, sock: socket.socket, **options: Any) -> Transport:
        """paramiko's transport with our time-outs, fast ciphers first, and the key types that are known first."""
        transport = Transport(sock, default_window_size=WINDOW, **options)
        self.transport = transport
        left = self.deadline.left()
        transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = left
        transport.channel_timeout = left
        choice = transport.get_security_options()
        choice.ciphers = _with_first(_CIPHERS, choice.ciphers)
        if self.kinds:
            choice.key_types = tuple(k for k in self.kinds if k in choice.key_types)
        else:
            choice.key_types = _with_first(self.known.algorithms(self.target.known_as), choice.key_types)
        return transport

    @contextlib.contextmanager
    def translate(self) -> Iterator[None]:
        """Foreign exceptions end here: HostError comes out, or Dropped."""
        try:
            yield
        except HostError:
            raise
        except (TimeoutError, SSHException, EOFError, OSError) as error:
            raise self._meaning(error) from error

    def _meaning(self, error: Exception) -> HostError | Dropped:
        target = self.target
        where = f"{target.label}: {target.hostname} port {target.port}"
        status = self.proxy.exit_status() if self.proxy else None
        if self.proxy is not None:
            where = f"{target.label}: through the ProxyCommand `{self.proxy.command}`"
        if self.proxy is not None and status is not None and not self.deadline.passed():  # else it was we who ended it
            ended = f"the ProxyCommand `{self.proxy.command}` ended with status {status}"
            return HostError(
                "gateway",
                ": ".join(filter(None, (target.label, ended, self.proxy.errors()))),
                fix="try the command by hand; it stands in ssh_config",
            )
        if self.deadline.left() < _NEARLY or isinstance(error, TimeoutError):
            return HostError(
                "timeout",
                f"{where}: timed out: {self._phase()} within {self.deadline.seconds:g} s",
                fix="is that the SSH port, and is the host overloaded? A longer `connect_timeout` gives it more time",
            )
        if isinstance(error, ChannelException):
            return HostError("protocol", f"{where}: no session was opened: {error.text}", fix="see sshd's MaxSessions")
        if isinstance(error, IncompatiblePeer):
            return HostError(
                "protocol", f"{where}: no common algorithms: {error}", fix="the server is too old or too strict"
            )
        if self.key_accepted:
            return HostError("lost", f"{where}: the connection broke: {self._phase()} ({error or 'closed'})")
        if "Indecipherable" in str(error) or "Invalid SSH banner" in str(error):
            return HostError("protocol", f"{where}: what answers there is no SSH server", fix="is the port right?")
        return Dropped(
            HostError(
                "protocol",
                f"{where}: the connection was closed: {self._phase()}",
                fix="is it an SSH server? A busy one drops connections: see its MaxStartups",
            )
        )

    def _phase(self) -> str:
        """What was being waited for."""
        if self.transport is None or not self.transport.remote_version:
            return "no SSH banner came"
        if not self.key_accepted:
            return "the key exchange did not end"
        if not self.transport.is_authenticated():
            return "the login did not end"
        return "the session did not open"


def _with_first(first: Sequence[str], all_of_them: Sequence[str]) -> tuple[str, ...]:
    return (*(a for a in first if a in all_of_them), *(a for a in all_of_them if a not in first))


def host_key(key: PKey) -> HostKey:
    """paramiko's key as ours."""
    return HostKey(key.get_name(), key.asbytes())


class StrictPolicy(MissingHostKeyPolicy):
    """Judges every host key: the client is given no known keys of its own, so all of them come here."""

    def __init__(self, attempt: Attempt, cluster: str) -> None:
        self._attempt = attempt
        self._cluster = cluster

    def missing_host_key(self, client: SSHClient, hostname: str, key: PKey) -> None:
        """Returns when the key is let in; raises HostError."""
        attempt, target = self._attempt, self._attempt.target
        shown = host_key(key)
        verdict = attempt.known.judge(target.known_as, shown)
        if verdict.status == "unknown" and target.host_keys == "accept-new":
            attempt.known.remember(target.known_as, shown)
        elif verdict.status != "known":
            raise refusal(target.label, target.known_as, shown, verdict, self._cluster)
        attempt.key_accepted = True
