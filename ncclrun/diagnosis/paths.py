"""Does what NCCL sends fit through, and do its ports pass? Findings of the proven paths between the nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ncclrun.model.firewall import open_to
from ncclrun.model.netevents import Problem
from ncclrun.model.network import Path
from ncclrun.model.words import listed

REFINED = 4
"""Bytes to which the search of a path's MTU is exact."""
LARGEST = 65535
"""Largest IP packet; loopback announces one byte more."""


@dataclass(frozen=True)
class End:
    """A node as the end of paths: its chosen interface with address, MTU and subnet."""

    name: str
    interface: str
    address: str
    mtu: int
    network: str
    """Subnet of the address."""
    placed: frozenset[int] = frozenset()
    """Those of the tried ports which the kernel would not have picked by itself, as it does for NCCL."""
    finds_port: bool = False
    """Whether it is the master, and has a free port found for the rendezvous: that is none of the kernel's."""

    def __str__(self) -> str:
        return f"{self.interface} {self.address}"


def path_problems(ends: Sequence[End], paths: Sequence[Path]) -> tuple[tuple[int, Problem], ...]:
    """Findings with the node_rank of the node that each is told of.

    What is the same with several peers is told once; what is the same at several nodes is the same problem of each.
    """
    case = _Case(ends)
    found: list[tuple[int, Problem]] = []
    kinds: dict[tuple[object, ...], list[Path]] = defaultdict(list)
    for path in sorted(paths, key=lambda path: (path.node_rank, path.peer)):
        for kind in case.kinds(path):
            kinds[kind].append(path)
    for kind, group in kinds.items():
        problem = case.problem(str(kind[0]), group)
        found += [(at, problem) for at in case.whose(str(kind[0]), group)]
    found += case.different_ends(paths)
    return tuple(sorted(found, key=lambda one: one[0]))


class _Case:
    """The nodes that the paths lie between."""

    def __init__(self, ends: Sequence[End]) -> None:
        self._ends = ends

    @staticmethod
    def whose(kind: str, group: Sequence[Path]) -> list[int]:
        """The firewall is most likely the peer's; so is what has gone."""
        askers, peers = _both_ends(group)
        if kind == "udp":
            return askers if len(askers) <= len(peers) else peers
        return peers if kind in ("ports", "placed", "gone") else askers

    def kinds(self, path: Path) -> Iterator[tuple[object, ...]]:
        """What is wrong with a path, with all that makes it the same finding as another's."""
        wanted = min(self._ends[path.node_rank].mtu, self._ends[path.peer].mtu, LARGEST)
        if path.mtu == 0 and path.blocked and not path.passed:
            yield "gone", path.peer
            return
        if path.mtu == 0:
            yield ("udp",)
        elif path.mtu + REFINED <= wanted:
            yield ("told" if path.told else "silent"), path.node_rank, path.mtu
        if path.blocked:
            peer, network = self._ends[path.peer], self._ends[path.node_rank].network
            yield ("placed", network, peer.finds_port) if peer.placed.issuperset(path.blocked) else ("ports", network)

    def problem(self, kind: str, group: Sequence[Path]) -> Problem:
        """The finding of paths that have it in common."""
        if kind in ("ports", "placed"):
            return self._ports(kind, group)
        if kind == "gone":
            return self._gone(group)
        return self._no_udp(group) if kind == "udp" else self._too_large(kind, group)

    def _no_udp(self, group: Sequence[Path]) -> Problem:
        first = group[0]
        return Problem(
            code="udp_blocked",
            level="warning",
            message=f"no UDP comes through {self._between(group)}, so the size of packets could not be proven",
            fix=f"NCCL itself needs no UDP;  to know it, on {self._ends[first.node_rank].name}:"
            f"  ping -M do -s {self._ends[first.node_rank].mtu - 28} {first.address}",
        )

    def _between(self, group: Sequence[Path]) -> str:
        """``from a (eth0 10.0.0.1) to b (eth0 10.0.0.2)``, ``from a to b, c``, ``between a, b``, ``a -> b, c -> d``."""
        pairs = dict.fromkeys((path.node_rank, path.peer) for path in group)
        askers, peers = _both_ends(group)
        if len(pairs) == 1:
            return f"from {self._full(askers[0])} to {self._full(peers[0])}"
        if len(pairs) < sum(asker != peer for asker in askers for peer in peers):
            return listed([f"{self._ends[asker].name} -> {self._ends[peer].name}" for asker, peer in pairs])
        if set(askers) == set(peers):
            return f"between {self._names(sorted(askers))}"
        return f"from {self._names(askers)} to {self._names(peers)}"

    def _too_large(self, kind: str, group: Sequence[Path]) -> Problem:
        first = group[0]
        here, there = self._ends[first.node_rank], self._ends[first.peer]
        fix = (
            f"make the network carry {here.mtu} bytes, or\n"
            f"  on {here.name}:  sudo ip link set dev {here.interface} mtu {first.mtu}\n"
            f"  on {there.name}:  sudo ip link set dev {there.interface} mtu {first.mtu}"
        )
        peers = listed([self._full(path.peer) for path in group])
        fits = f"only packets of up to {first.mtu} bytes come through from {self._full(first.node_rank)} to {peers}"
        if kind == "told":
            return Problem(
                code="path_mtu",
                level="warning",
                message=f"{fits}; a router says so, and TCP learns it at each connection anew",
                fix=fix,
            )
        return Problem(
            code="path_mtu",
            message=f"{fits}; larger ones vanish: NCCL would connect, and hang at the first large message",
            fix=fix,
        )

    def _ports(self, kind: str, group: Sequence[Path]) -> Problem:
        """Of ports that the kernel picks, or of others alone: those are nothing to NCCL, but to the rendezvous."""
        ranks = sorted({path.peer for path in group})
        peers, first = [self._ends[rank] for rank in ranks], [path for path in group if path.peer == ranks[0]]
        blocked = sorted({port for path in first for port in path.blocked})
        passed = sorted({port for path in first for port in path.passed} - set(blocked))
        shut = f"TCP {_ports(blocked)} of {peers[0]} {'do' if len(blocked) > 1 else 'does'} not answer"
        askers = self._names([path.node_rank for path in first])
        through = f", though {_ports(passed)} {'pass' if len(passed) > 1 else 'passes'}" if passed else ""
        names = listed([peer.name for peer in peers])
        others = f"; others of {listed([peer.name for peer in peers[1:]])} neither" if len(peers) > 1 else ""
        said = f"{shut} {askers}{through}{others}: a firewall lets only some ports through"
        opened = open_to(f"each of {names}" if len(peers) > 1 else names, self._ends[first[0].node_rank].network)
        if kind == "ports":
            picked = _ports([port for port in blocked if port not in peers[0].placed])
            which = f", as {picked}" if len(blocked) > 1 else ""
            message = f"{said}, and NCCL listens on ports that the kernel picks{which}"
            return Problem(code="ports_blocked", message=message, fix=opened)
        said += ". NCCL is well with that, since the kernel picks its ports among those that pass"
        master = next((peer for peer in peers if peer.finds_port), None)
        if master is None:
            return Problem(code="ports_blocked", level="warning", message=said, fix=opened)
        free = next((port for path in first for port in path.passed if port > 1023), None)
        named = f'\nor write a port that passes under "launch":  master_port: {free}' if free is not None else ""
        message = f"{said}; the master's port, which is found automatically, is none of those"
        return Problem(code="ports_blocked", message=message, fix=opened + named)

    def _gone(self, group: Sequence[Path]) -> Problem:
        """Its proof was an answer of another such port, a moment before."""
        peer = self._ends[group[0].peer]
        askers = self._names([path.node_rank for path in group])
        return Problem(
            code="path_gone",
            message=f"nothing at {peer} answers {askers} any more, no TCP port and no UDP, though a port did"
            " a moment ago: an address, an interface or a cable has gone meanwhile",
            fix=f"see on {peer.name}, and on those whom it does not answer, whether address and carrier are"
            f" there:  ip address show dev {peer.interface};  then ask again",
        )

    def different_ends(self, paths: Sequence[Path]) -> Iterator[tuple[int, Problem]]:
        """Interfaces that let larger packets out than the others' take: told of those that are not like most."""
        by_mtu: dict[int, list[int]] = defaultdict(list)
        for node_rank in sorted({node_rank for path in paths for node_rank in (path.node_rank, path.peer)}):
            by_mtu[self._ends[node_rank].mtu].append(node_rank)
        usual = max(by_mtu, key=lambda mtu: (len(by_mtu[mtu]), mtu), default=0)
        for mtu, node_ranks in sorted(by_mtu.items()):
            for node_rank in node_ranks if mtu != usual else ():
                yield node_rank, self._different(self._ends[node_rank], self._ends[by_mtu[usual][0]])

    def _different(self, odd: End, sample: End) -> Problem:
        low, most = min(odd, sample, key=lambda end: end.mtu), max(odd.mtu, sample.mtu)
        return Problem(
            code="mtu_differs",
            level="warning",
            message=f"MTU {odd.mtu} at {odd}, {sample.mtu} at {sample} of {sample.name}:"
            " between them the smaller one counts",
            fix=f"if all switches take {most} bytes, on {low.name}:  sudo ip link set dev {low.interface} mtu {most}",
        )

    def _full(self, node_rank: int) -> str:
        return f"{self._ends[node_rank].name} ({self._ends[node_rank]})"

    def _names(self, node_ranks: Sequence[int]) -> str:
        return listed([self._ends[node_rank].name for node_rank in node_ranks])


def _both_ends(group: Sequence[Path]) -> tuple[list[int], list[int]]:
    """Those who ask, and those who are asked."""
    return list(dict.fromkeys(path.node_rank for path in group)), list(dict.fromkeys(path.peer for path in group))


def _ports(numbers: Sequence[int]) -> str:
    return f"port{'s' * (len(numbers) > 1)} {listed([str(number) for number in numbers])}"
