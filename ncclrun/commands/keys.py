"""`ncclrun keys`: the user's public key put into authorized_keys on all hosts, for calls without a password."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ncclrun.model.cluster import ClusterSpec, Node
from ncclrun.model.errors import NcclrunError, UsageError
from ncclrun.transport.base import Transport
from ncclrun.transport.fleet import connect_all, for_all
from ncclrun.transport.session import Session
from ncclrun.transport.target import DEFAULT_KEYS


@dataclass(frozen=True)
class Installed:
    """One node's outcome: ``added`` is False where the key was there already; ``error``: why nothing was done."""

    node: Node
    added: bool = False
    error: NcclrunError | None = None


def public_key(node: Node) -> str:
    """The line of authorized_keys that belongs to the node's identity: ``identity_file``'s, else the user's first key.

    Raises UsageError with the command that makes one when there is none, or when the file holds no public key.
    """
    if node.ssh.identity_file is not None:
        candidates = [Path(node.ssh.identity_file.removesuffix(".pub") + ".pub").expanduser()]
    else:
        candidates = [Path(key + ".pub").expanduser() for key in DEFAULT_KEYS]
    file = next((c for c in candidates if c.is_file()), None)
    if file is None:
        private = candidates[0].with_suffix("")
        missing = f"{candidates[0]} is missing" if len(candidates) == 1 else "there is no public key in ~/.ssh"
        raise UsageError(missing, fix=_how_to_make(private))
    return read_key(file)


def read_key(file: Path) -> str:
    """The one public key in a file, as a line of authorized_keys; raises UsageError when it holds none."""
    if not file.is_file():
        if file.is_dir():
            raise UsageError(f"{file} is a directory", fix="name the public key in it")
        raise UsageError(f"there is no {file}", fix=_how_to_make(file.with_suffix("")))
    lines = [line.strip() for line in file.read_text(encoding="utf-8", errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(lines) != 1 or not lines[0].startswith(("ssh-", "ecdsa-", "sk-")):
        raise UsageError(f"{file} is not one public key", fix=_how_to_make(file.with_suffix("")))
    return lines[0]


def _how_to_make(private: Path) -> str:
    """Makes the missing half where the private key is there, else both."""
    if private.is_file():
        return f"ssh-keygen -y -f {private} > {private}.pub"
    return f"ssh-keygen -t ed25519 -f {private}"


def install(
    cluster: ClusterSpec,
    transport: Transport,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    key: str | None = None,
) -> Iterator[Installed]:
    """Adds ``key`` (or each node's own, see ``public_key``) on every node and yields the outcomes as they come.

    The transport has the password. Raises UsageError before anything is contacted where there is no key to install.
    """
    keys = {node.name: key or public_key(node) for node in cluster.nodes}
    sessions: dict[str, Session] = {}
    try:
        for node, result, _ in connect_all(transport, cluster.nodes, _ignore, cancelled=cancelled):
            if isinstance(result, Session):
                sessions[node.name] = result
            else:
                yield Installed(node, error=result)

        def authorize(_name: str, session: Session) -> bool:
            return bool(session.call("authorize", public_key=keys[session.node.name])["added"])

        for name, answer in for_all(sessions, authorize):
            node = sessions[name].node
            yield Installed(node, error=answer) if isinstance(answer, NcclrunError) else Installed(node, added=answer)
    finally:
        for session in sessions.values():
            session.close()


def _ignore(_node: Node, _header: dict[str, Any], _body: bytes) -> None:
    """Nothing that a node says unasked matters here."""
