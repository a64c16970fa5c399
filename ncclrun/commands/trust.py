"""`ncclrun trust`: the keys that hosts and gateways show, held against known_hosts, written there when accepted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ncclrun.model.cluster import ClusterSpec
from ncclrun.model.errors import HostError, NcclrunError
from ncclrun.transport.fleet import for_all
from ncclrun.transport.hostkeys import HostKey, Verdict, refusal
from ncclrun.transport.ssh import SshTransport
from ncclrun.transport.target import Target


@dataclass(frozen=True)
class Shown:
    """A key that a host showed and what known_hosts says of it."""

    target: Target
    key: HostKey
    verdict: Verdict

    @property
    def host(self) -> str:
        """The host as the user named it."""
        return self.target.label


@dataclass(frozen=True)
class NotSeen:
    """A host whose keys could not be looked at, and why."""

    target: Target
    error: NcclrunError

    @property
    def host(self) -> str:
        """The host as the user named it."""
        return self.target.label


@dataclass(frozen=True)
class Accepted:
    """What was written to known_hosts, and the errors for keys that never are."""

    written: tuple[Shown, ...]
    refused: tuple[HostError, ...]


def scan(cluster: ClusterSpec, transport: SshTransport) -> Iterator[Shown | NotSeen]:
    """Yields, gateways first, every key that the hosts and their hops show; nobody is logged in to but known gateways.

    What stands behind a gateway whose key is not known yet is a NotSeen: accept that key and scan again.
    """
    trusted: set[Target] = set()
    for wave in _waves(cluster, transport):
        ready = {t: t for t in wave if t.gateway is None or t.gateway in trusted}
        for target in wave:
            if target not in ready and target.gateway is not None:
                gateway = target.gateway.label
                message = f"{target.label}: stands behind the gateway {gateway}, whose key is not trusted yet"
                yield NotSeen(target, HostError("gateway", message, fix=f"accept the key of {gateway}, then again"))
        answers = dict(for_all(ready, lambda _, each: transport.scan(each)))
        for target in ready:  # in the file's order, whoever answered first
            keys = answers[target]
            if isinstance(keys, NcclrunError):
                yield NotSeen(target, keys)
                continue
            shown = _judge(target, keys, transport)
            if any(s.verdict.status == "known" for s in shown):
                trusted.add(target)
            yield from shown


def accept(entries: Iterable[Shown], transport: SshTransport, *, cluster: str = "CLUSTER") -> Accepted:
    """Writes the keys that are new to the user's known_hosts; one that changed or is revoked is refused and named."""
    written, refused = [], []
    for entry in entries:
        target = entry.target
        if entry.verdict.status == "unknown":
            transport.known_hosts(target).remember(target.known_as, entry.key)
            written.append(entry)
        elif entry.verdict.status != "known":
            refused.append(refusal(target.label, target.known_as, entry.key, entry.verdict, cluster))
    return Accepted(tuple(written), tuple(refused))


def _waves(cluster: ClusterSpec, transport: SshTransport) -> Iterator[list[Target]]:
    """All targets by the number of gateways before them; each name in known_hosts once."""
    depths: dict[Target, int] = {}
    for node in cluster.nodes:
        if transport.is_local(node):
            continue
        chain: list[Target] = []
        step: Target | None = transport.resolve(node)
        while step is not None:
            chain.append(step)
            step = step.gateway
        for depth, target in enumerate(reversed(chain)):
            depths[target] = depth
    for depth in range(max(depths.values(), default=-1) + 1):
        named = {(t.known_as, t.known_hosts): t for t, d in reversed(depths.items()) if d == depth}
        yield list(reversed(named.values()))


def _judge(target: Target, keys: tuple[HostKey, ...], transport: SshTransport) -> list[Shown]:
    """What known_hosts says of a host's keys, taken together: by a host that showed one known key others are new."""
    known = transport.known_hosts(target)
    shown = [Shown(target, key, known.judge(target.known_as, key)) for key in keys]
    if not any(s.verdict.status == "known" for s in shown):
        return shown
    return [
        replace(s, verdict=Verdict("unknown"))
        if s.verdict.status == "changed" and s.verdict.entry is not None and s.verdict.entry.key.kind != s.key.kind
        else s
        for s in shown
    ]
