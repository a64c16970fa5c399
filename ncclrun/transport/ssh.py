"""Nodes over SSH: Fabric's connections with strict host keys on every hop and one deadline for all phases."""

from __future__ import annotations

import contextlib
import logging
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from fabric import Config, Connection
from paramiko import ChannelException, SSHException
from paramiko.config import SSHConfig

from ncclrun.model.cluster import Node, Ssh
from ncclrun.model.errors import HostError, UsageError
from ncclrun.transport.attempt import Attempt, Dropped, StrictPolicy, host_key
from ncclrun.transport.auth import Keys, Login, Password
from ncclrun.transport.dial import Deadline, Proxy, dial
from ncclrun.transport.hostkeys import HostKey, KnownHosts
from ncclrun.transport.local import is_this_machine
from ncclrun.transport.sshchannel import Passage, SshChannel
from ncclrun.transport.sshconfig import local_user
from ncclrun.transport.target import Resolver, Target

REMOTE_COMMAND = "exec /bin/sh -s"
IDLE_TICK = 1.0
RETRIES = 8
LEAST_SECONDS = 0.5  # a try that gets less would end as a time-out and hide why
FAILURE_SECONDS = 30.0
SCANNED_KINDS = (
    ("ssh-ed25519",),
    ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    ("rsa-sha2-512", "rsa-sha2-256"),
)
_OWN_REASONS = frozenset({"unknown_key", "changed_key", "revoked_key", "auth"})

# paramiko tells of every failed connection on stderr, through logging's last resort, unless somebody listens
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_T = TypeVar("_T")


class _Link:
    """A connection and what it stands on."""

    def __init__(self, connection: Connection, base: Any, proxy: Proxy | None) -> None:
        self.connection = connection
        self._base = base
        self._proxy = proxy

    @property
    def alive(self) -> bool:
        """Whether it can still be used."""
        return bool(self.connection.is_connected)

    def close(self) -> None:
        """Closes all of it at once; safe to call twice and from any thread."""
        # first the stream under it, which wakes paramiko's thread: else each close would wait for its next look
        with contextlib.suppress(OSError, EOFError):  # it may be closed already
            self._base.shutdown(socket.SHUT_RDWR)
        self.connection.close()
        self.connection.client.close()  # Connection.close does nothing for a connection that never came to be
        if self._proxy is not None:
            self._proxy.close()
        else:
            self._base.close()


@dataclass
class _Gateway:
    """A hop's connection, shared by all nodes behind it: they wait for one login and share its failure for a while."""

    outcome: Future[_Link] = field(default_factory=Future)
    failed_at: float | None = None

    def usable(self) -> bool:
        """Whether its outcome, present or to come, still counts."""
        if self.failed_at is not None:
            return time.monotonic() - self.failed_at < FAILURE_SECONDS
        return not self.outcome.done() or self.outcome.result().alive


class SshTransport:
    """Implements Transport over SSH. Thread-safe.

    ``password`` is a value or a function that returns one; it is used only where the server takes no key. ``cluster``
    is what the fixes in messages name as the cluster (a file, or ``--hosts …``).
    """

    def __init__(self, password: Password = None, *, cluster: str = "CLUSTER") -> None:
        _need_home()
        self._password = password
        self._cluster = cluster
        self._resolver = Resolver()
        self._keys = Keys()
        self._known: dict[tuple[str, ...], KnownHosts] = {}
        self._gateways: dict[Target, _Gateway] = {}
        self._gates: dict[tuple[str, int], threading.Lock] = {}
        self._local: dict[tuple[str, Ssh], bool] = {}
        self._links: dict[_Link, None] = {}  # in order of their making: gateways before what goes through them
        self._closed = False
        self._lock = threading.Lock()

    def resolve(self, node: Node) -> Target:
        """Where the node's connection goes, ssh_config applied."""
        return self._resolver.resolve(node.ssh, node.host)

    def is_local(self, node: Node) -> bool:
        """Whether the node is this machine: one of our addresses, port 22, no gateway and no other user."""
        key = (node.host, node.ssh)
        if key not in self._local:
            target = self.resolve(node)
            plain = target.gateway is None and target.proxy_command is None and target.port == 22
            self._local[key] = plain and target.user == local_user() and is_this_machine(target.hostname)
        return self._local[key]

    def open(self, node: Node) -> SshChannel:
        """Connects, logs in and starts the remote shell, all within the node's time-out; raises HostError."""
        target = self.resolve(node)
        attempt = self._attempt(target, Deadline(target.timeout))
        link = self._retry(attempt, self._log_in)
        with self._or_hang_up(link), attempt.translate(), _limit(link, attempt.deadline):
            channel = link.connection.create_session()
            channel.exec_command(REMOTE_COMMAND)
        if attempt.transport is not None:
            # paramiko looks up from each read ten times a second; once is enough for a connection that is quiet
            attempt.transport.sock.settimeout(IDLE_TICK)
        return SshChannel(target.label, channel, lambda: self._hang_up(link))

    def scan(self, target: Target) -> tuple[HostKey, ...]:
        """The keys that a server shows, one of each kind that it has, without logging in there. Raises HostError."""
        keys: list[HostKey] = []
        failure: HostError | None = None
        for kinds in SCANNED_KINDS:
            attempt = self._attempt(target, Deadline(target.timeout), kinds)
            try:
                keys.append(self._retry(attempt, self._look_at_key))
            except HostError as error:
                if error.reason != "protocol":  # that it has no key of this kind is no reason to stop
                    raise
                failure = error
        if not keys and failure is not None:
            raise failure
        return tuple(keys)

    def known_hosts(self, target: Target) -> KnownHosts:
        """The known_hosts files that count for a target, read once."""
        with self._lock:
            if target.known_hosts not in self._known:
                self._known[target.known_hosts] = KnownHosts(target.known_hosts)
            return self._known[target.known_hosts]

    def close(self) -> None:
        """Closes every connection, gateways too; what is being opened fails with ``lost``."""
        with self._lock:
            self._closed = True
            links = list(reversed(self._links))
        for link in links:
            self._hang_up(link)

    # --- connecting

    def _attempt(self, target: Target, deadline: Deadline, kinds: tuple[str, ...] = ()) -> Attempt:
        return Attempt(target, deadline, self.known_hosts(target), kinds)

    def _retry(self, attempt: Attempt, action: Callable[[Attempt], _T]) -> _T:
        """Tries again when the server drops us before its key: jittered, growing pauses, one at a time a server."""
        target, deadline = attempt.target, attempt.deadline
        gate: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        for count in range(RETRIES):
            try:
                with gate:
                    return action(attempt)
            except Dropped as dropped:
                pause = random.uniform(0.5, 1.5) * 0.1 * 2**count  # noqa: S311  # jitter, not a secret
                if count + 1 == RETRIES or pause + LEAST_SECONDS > deadline.left() or self._closed:
                    raise dropped.error from dropped
            time.sleep(pause)
            with self._lock:
                gate = self._gates.setdefault((target.hostname, target.port), threading.Lock())
            attempt.restart()
        raise AssertionError("the last round returns or raises")

    def _log_in(self, attempt: Attempt) -> _Link:
        """One connection, host key judged and logged in."""
        target = attempt.target
        base = self._base(attempt)
        options = {
            "sock": base,
            "transport_factory": attempt.make_transport,
            "auth_strategy": Login(target, self._password, self._keys, attempt.deadline, self._cluster),
        }
        connection = Connection(
            target.hostname,
            user=target.user,
            port=target.port,
            # Lazy: no ~/.fabric.py runs. No ssh_config: Resolver has applied it. One each: while a Connection is made,
            # another one's look into the same Config fails, and one costs a tenth of a millisecond
            config=Config(lazy=True, ssh_config=SSHConfig()),
            gateway=False,
            forward_agent=target.forward_agent,
            connect_kwargs=options,
        )
        link = _Link(connection, base, attempt.proxy)
        with self._lock:
            self._links[link] = None
            closed = self._closed
        connection.client.set_missing_host_key_policy(StrictPolicy(attempt, self._cluster))
        with self._or_hang_up(link), attempt.translate(), _limit(link, attempt.deadline):
            if closed:
                raise HostError("lost", f"{target.label}: given up")
            connection.connect_timeout = attempt.deadline.left()
            connection.open()
        return link

    def _look_at_key(self, attempt: Attempt) -> HostKey:
        """The host key that the server shows for the attempt's kinds."""
        base = self._base(attempt)
        try:
            with attempt.translate():
                transport = attempt.make_transport(base)
                transport.start_client(timeout=attempt.deadline.left())
                return host_key(transport.get_remote_server_key())
        finally:
            if attempt.transport is not None:
                attempt.transport.close()
            if attempt.proxy is not None:
                attempt.proxy.close()
            base.close()

    def _base(self, attempt: Attempt) -> Any:
        """The stream under the connection, a socket or like one: TCP, a ProxyCommand, a channel through the gateway."""
        target, deadline = attempt.target, attempt.deadline
        if target.proxy_command is not None:
            attempt.proxy = Proxy(target.proxy_command)
            return attempt.proxy.socket
        if target.gateway is None:
            return dial(target.label, target.hostname, target.port, target.family, deadline)
        try:
            link = self._gateway(target.gateway, deadline)
        except HostError as error:
            reason = error.reason if error.reason in _OWN_REASONS else "gateway"
            message = f"{target.label}: on the way, at the gateway {error.message}"
            raise HostError(reason, message, fix=error.fix) from error
        try:
            channel = link.connection.transport.open_channel(
                "direct-tcpip", (target.hostname, target.port), ("", 0), timeout=deadline.left()
            )
            return Passage(channel)
        except (ChannelException, SSHException, EOFError, OSError) as error:
            why = error.text if isinstance(error, ChannelException) else str(error) or "the connection to it broke"
            there = f"{target.hostname} port {target.port}"
            message = f"{target.label}: the gateway {target.gateway.label} can't reach {there}: {why}"
            raise HostError("gateway", message, fix="is the name right as the gateway sees it?") from error

    def _gateway(self, hop: Target, deadline: Deadline) -> _Link:
        """The one connection to a hop, opened by whoever comes first."""
        with self._lock:
            entry = self._gateways.get(hop)
            first = entry is None or not entry.usable()
            if first:
                entry = self._gateways[hop] = _Gateway()
        if entry is None:
            raise AssertionError("made above")
        if first:
            try:
                link = self._retry(self._attempt(hop, deadline), self._log_in)
            except BaseException as error:  # noqa: BLE001  # raised by result() below, to all who wait
                entry.failed_at = time.monotonic()
                entry.outcome.set_exception(error)
            else:
                entry.outcome.set_result(link)
        try:
            return entry.outcome.result(timeout=deadline.left())
        except FutureTimeoutError:
            raise HostError("timeout", f"{hop.label}: no login within {deadline.seconds:g} s") from None

    @contextlib.contextmanager
    def _or_hang_up(self, link: _Link) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._hang_up(link)
            raise

    def _hang_up(self, link: _Link) -> None:
        with self._lock:
            self._links.pop(link, None)
        link.close()


def _need_home() -> None:
    """Keys, known_hosts and ssh_config lie there; raises UsageError for a user without one."""
    try:
        Path.home()
    except RuntimeError as error:
        raise UsageError("this user has no home directory", fix="export HOME=DIR, with your .ssh in it") from error


@contextlib.contextmanager
def _limit(link: _Link, deadline: Deadline) -> Iterator[None]:
    """Closes the connection when the time is up: not every wait inside paramiko takes a time-out."""
    timer = threading.Timer(deadline.left(), link.close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
