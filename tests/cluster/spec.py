"""The cluster file and the client's files that go with a set of test hosts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml


class Reachable(Protocol):
    """What a host file needs to know of a host."""

    name: str
    address: str

    @property
    def port(self) -> int:
        """TCP port of its sshd."""

    def public_host_key(self) -> str:
        """``ssh-ed25519 AAAA…``."""


def cluster_yaml(name: str, hosts: Sequence[Reachable], home: Path, user: str, extra: Mapping[str, Any]) -> str:
    """Text of a cluster file for these hosts.

    ``extra`` holds blocks to add: mappings are merged into those that are there (``launch={"grace": 1}``), and
    ``nodes`` maps an index to what to add to that node. ``launch.python`` is this Python unless ``extra`` has another.
    """
    data: dict[str, Any] = {
        "name": name,
        "ssh": {"user": user, "identity_file": str(home / "id_ed25519"), "known_hosts": str(home / "known_hosts")},
        "launch": {"python": sys.executable},
    }
    # A file of our own, so that the ~/.ssh/config of whoever runs the tests has no say.
    data["ssh"]["config"] = str(home / "ssh_config")
    for key, value in extra.items():
        if key != "nodes":
            data[key] = {**data.get(key, {}), **value} if isinstance(value, Mapping) else value
    own = extra.get("nodes", {})
    data["nodes"] = [
        {
            "host": host.address,
            "name": host.name,
            **({"port": host.port} if host.port != 22 else {}),
            **own.get(index, {}),
        }
        for index, host in enumerate(hosts)
    ]
    return yaml.safe_dump(data, sort_keys=False)


def write_client_files(home: Path, hosts: Sequence[Reachable], user: str) -> None:
    """Writes known_hosts and an ssh_config in which the hosts have their names: ``ssh -F ssh_config node0``."""
    known, config = [], []
    for host in hosts:
        address = host.address if host.port == 22 else f"[{host.address}]:{host.port}"
        known.append(f"{address} {host.public_host_key()}\n")
        config.append(
            f"Host {host.name}\n  HostName {host.address}\n  Port {host.port}\n  User {user}\n"
            f"  IdentityFile {home / 'id_ed25519'}\n  IdentitiesOnly yes\n  UserKnownHostsFile {home / 'known_hosts'}\n"
        )
    (home / "known_hosts").write_text("".join(known))
    (home / "ssh_config").write_text("".join(config))
