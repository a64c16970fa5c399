"""Where a connection goes and by what rules: the cluster file, then ssh_config, then defaults; for hosts and hops."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ncclrun.model.cluster import Ssh
from ncclrun.model.errors import HostError, UsageError
from ncclrun.transport.hostkeys import SYSTEM_FILE, KnownName
from ncclrun.transport.sshconfig import HostSettings, SshConfig, local_user

MAX_HOPS = 8
DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")

_HOP = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@\s]+)@)?"
    r"(?:\[(?P<six>[^]\s]+)]|(?P<host>[^:@\s/[\]]+|[0-9a-fA-F]*:[0-9a-fA-F.]*:[0-9a-fA-F:.]*(?:%\w+)?))"
    r"(?::(?P<port>\d+))?/?"
)


@dataclass(frozen=True)
class Target:
    """One SSH server to log in to, with everything settled."""

    label: str
    """As the user wrote it, for messages."""
    hostname: str
    port: int
    user: str
    known_as: KnownName
    known_hosts: tuple[str, ...]
    host_keys: Literal["strict", "accept-new"]
    identity_files: tuple[str, ...]
    """Key files that were asked for; none: OpenSSH's default names."""
    identities_only: bool
    agent: str | None
    """Socket of the SSH agent, None without one."""
    timeout: float
    """Seconds for TCP, key exchange and login together."""
    forward_agent: bool = False
    family: Literal["any", "inet", "inet6"] = "any"
    gateway: Target | None = None
    proxy_command: str | None = None

    @property
    def address(self) -> str:
        """``user@host:port`` for messages, as ssh would be told it."""
        return f"{self.user}@{self.hostname}" + (f":{self.port}" if self.port != 22 else "")


class Resolver:
    """Turns nodes' settings into targets; every ssh_config is read once. Thread-safe."""

    def __init__(self) -> None:
        self._configs: dict[str, SshConfig] = {}
        self._lock = threading.Lock()

    def resolve(self, ssh: Ssh, host: str) -> Target:
        """The target for ``host``; raises HostError ``gateway`` for a chain of hops without an end, UsageError."""
        settings = self._config(ssh.config).lookup(host, user=ssh.user, port=ssh.port)
        return self._target(ssh, settings, ssh.gateway, ssh.identity_file, 0)

    def _config(self, path: str) -> SshConfig:
        with self._lock:
            if path not in self._configs:
                self._configs[path] = SshConfig.read(path)
            return self._configs[path]

    def _target(self, ssh: Ssh, said: HostSettings, jump: str | None, identity: str | None, depth: int) -> Target:
        if depth > MAX_HOPS:
            message = f"{said.host}: more than {MAX_HOPS} gateways in a row"
            raise HostError("gateway", message, fix="see ProxyJump in ssh_config")
        port = _port(said)
        gateway, command = self._way(ssh, said, jump, depth)
        files = tuple(dict.fromkeys([*([identity] if identity else []), *said.values.get("identityfile", ())]))
        agent = said.first("identityagent") or "SSH_AUTH_SOCK"
        family = (said.first("addressfamily") or "any").lower()
        return Target(
            label=said.host,
            hostname=said.hostname,
            port=port,
            user=said.first("user") or local_user(),
            known_as=KnownName.of(said.hostname, port, said.first("hostkeyalias")),
            known_hosts=_known_hosts(ssh, said),
            host_keys=ssh.host_keys,
            identity_files=tuple(said.expand(f) for f in files if f.lower() != "none"),
            identities_only=said.yes("identitiesonly"),
            agent=None if agent.lower() == "none" else _agent(said.expand(agent)),
            timeout=_timeout(ssh, said),
            # the agent is lent to the last host alone, and only where the cluster file asks for it
            forward_agent=ssh.forward_agent and depth == 0,
            family="inet" if family == "inet" else "inet6" if family == "inet6" else "any",
            gateway=gateway,
            proxy_command=command,
        )

    def _way(self, ssh: Ssh, said: HostSettings, jump: str | None, depth: int) -> tuple[Target | None, str | None]:
        """The gateway or the ProxyCommand: the cluster file's, else whichever stands first in ssh_config."""
        if jump is None:
            first = next((k for k in said.values if k in {"proxyjump", "proxycommand"}), None)
            value = said.first(first) if first else None
            if value is None or value.lower() == "none":
                return None, None
            if first == "proxycommand":
                return None, said.expand(value)
            jump = said.expand(value)
        elif jump.lower() == "none":
            return None, None
        before, _, last = jump.rpartition(",")
        user, host, port = parse_hop(last)
        hop = self._config(ssh.config).lookup(host, user=user, port=port)
        if (hop.hostname, _port(hop)) == (said.hostname, _port(said)):
            return None, None  # `Host *` with a ProxyJump matches the gateway too: it is reached directly
        identity = None if hop.first("identityfile") else ssh.identity_file
        return self._target(ssh, hop, before or None, identity, depth + 1), None


def parse_hop(text: str) -> tuple[str | None, str, int | None]:
    """``[user@]host[:port]``, also as ``ssh://…`` and with an IPv6 address in brackets; raises UsageError."""
    match = _HOP.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"gateway {text!r}: [user@]host[:port] is wanted")
    return match["user"], match["six"] or match["host"], int(match["port"]) if match["port"] else None


def _port(said: HostSettings) -> int:
    value = said.first("port") or "22"
    if not value.isdigit():
        raise UsageError(f"ssh_config has `Port {value}` for {said.host}: a number is wanted")
    return int(value)


def _known_hosts(ssh: Ssh, said: HostSettings) -> tuple[str, ...]:
    """The user's file first. ssh_config's UserKnownHostsFile counts where the cluster file left its default."""
    own: tuple[str, ...] = (ssh.known_hosts,)
    if ssh.known_hosts == Ssh.model_fields["known_hosts"].default:
        words = said.values.get("userknownhostsfile", ())
        own = tuple(said.expand(w) for w in words if w.lower() != "none") or own
    system = said.values.get("globalknownhostsfile", (SYSTEM_FILE,))
    return (*own, *(s for s in system if s.lower() != "none"))


def _timeout(ssh: Ssh, said: HostSettings) -> float:
    """ssh_config's ConnectTimeout (seconds) counts where the cluster file left its default."""
    value = said.first("connecttimeout")
    if ssh.connect_timeout == Ssh.model_fields["connect_timeout"].default and value and value.isdigit() and int(value):
        return float(value)
    return float(ssh.connect_timeout)


def _agent(value: str) -> str | None:
    """The socket that IdentityAgent names: a path, ``$NAME`` or ``SSH_AUTH_SOCK``."""
    if value == "SSH_AUTH_SOCK":
        value = "$SSH_AUTH_SOCK"
    if value.startswith("$"):
        return os.environ.get(value[1:].strip("{}")) or None
    return str(Path(value).expanduser())
