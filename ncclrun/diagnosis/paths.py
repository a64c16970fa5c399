"""Does what NCCL sends fit through, and do its ports pass? Findings of the proven paths between the nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ncclrun.model.events import Problem
from ncclrun.model.firewall import open_to
from ncclrun.model.network import Path
from ncclrun.model.plan import Endpoint
from ncclrun.model.words import listed

REFINED = 4
"""Bytes to which the search of a path's MTU is exact."""
LARGEST = 65535
"""Largest IP packet; loopback announces one byte more."""


def path_problems(
    names: Sequence[str], endpoints: Sequence[Endpoint], mtus: Sequence[int], paths: Sequence[Path]
) -> tuple[tuple[int, Problem], ...]:
    """Findings with the node_rank of the node that each is told of; ``mtus`` are those of its endpoint's interface.

    What is the same with several peers is told once.
    """
    case = _Case(names, endpoints, mtus)
    found: list[tuple[int, Problem]] = []
    kinds: dict[tuple[object, ...], list[Path]] = defaultdict(list)
    for path in sorted(paths, key=lambda path: (path.node_rank, path.peer)):
        for kind in case.kinds(path):
            kinds[kind].append(path)
    for kind, group in kinds.items():
        # The firewall is most likely the peer's; so is what has gone.
        at = group[0].peer if kind[0] in ("ports", "gone") else group[0].node_rank
        found.append((at, case.problem(str(kind[0]), group)))
    found += case.different_ends(paths)
    return tuple(sorted(found, key=lambda one: one[0]))


class _Case:
    """The nodes that the paths lie between."""

    def __init__(self, names: Sequence[str], endpoints: Sequence[Endpoint], mtus: Sequence[int]) -> None:
        self._names, self._endpoints, self._mtus = names, endpoints, mtus

    def kinds(self, path: Path) -> Iterator[tuple[object, ...]]:
        """What is wrong with a path, with all that makes it the same finding as another's."""
        wanted = min(self._mtus[path.node_rank], self._mtus[path.peer], LARGEST)
        if path.nothing:
            yield "gone", path.peer
            return
        if path.mtu == 0:
            yield "udp", path.node_rank
        elif path.mtu + REFINED <= wanted:
            yield ("told" if path.told else "silent"), path.node_rank, path.mtu
        if path.blocked:
            yield "ports", path.peer

    def problem(self, kind: str, group: Sequence[Path]) -> Problem:
        """The finding of paths that have it in common."""
        if kind == "ports":
            return self._ports(group)
        if kind == "gone":
            return self._gone(group)
        first = group[0]
        here = f"{self._names[first.node_rank]} ({self._end(first.node_rank)})"
        peers = [f"{self._names[path.peer]} ({self._end(path.peer)})" for path in group]
        there = listed(peers)
        if kind == "udp":
            return Problem(
                code="udp_blocked",
                level="warning",
                message=f"no UDP comes through from {here} to {there}, so the size of packets could not be proven",
                fix=f"NCCL itself needs no UDP;  to know it, on {self._names[first.node_rank]}:"
                f"  ping -M do -s {self._mtus[first.node_rank] - 28} {first.address}",
            )
        mtu = f"ip link set dev {self._interface(first.node_rank)} mtu {first.mtu}"
        fix = (
            f"make the network carry {self._mtus[first.node_rank]} bytes, or on {self._names[first.node_rank]}:  {mtu}"
        )
        fix += f"   and on {self._names[first.peer]}:  ip link set dev {self._interface(first.peer)} mtu {first.mtu}"
        fits = f"only packets of up to {first.mtu} bytes come through from {here} to {there}"
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

    def _ports(self, group: Sequence[Path]) -> Problem:
        peer = group[0].peer
        blocked = sorted({port for path in group for port in path.blocked})
        passed = sorted({port for path in group for port in path.passed} - set(blocked))
        some = f", though port {listed([str(port) for port in passed])} passes" if passed else ""
        askers = listed([self._names[path.node_rank] for path in group])
        ports = listed([str(port) for port in blocked])
        return Problem(
            code="ports_blocked",
            message=f"TCP port {ports} of {self._end(peer)} does not answer {askers}{some}: a firewall lets only some"
            " ports through, and NCCL listens on ports that the kernel picks",
            fix=open_to(self._names[peer], self._endpoints[group[0].node_rank].address)
            + (" - and so for each of them" if len(group) > 1 else ""),
        )

    def _gone(self, group: Sequence[Path]) -> Problem:
        """Its proof was an answer of another such port, a moment before."""
        peer = group[0].peer
        askers = listed([self._names[path.node_rank] for path in group])
        return Problem(
            code="path_gone",
            message=f"nothing at {self._end(peer)} answers {askers} any more, no TCP port and no UDP, though a port did"
            " a moment ago: an address, an interface or a cable has gone meanwhile",
            fix=f"see on {self._names[peer]}, and on those whom it does not answer, whether address and carrier are"
            f" there:  ip address show dev {self._interface(peer)};  then ask again",
        )

    def different_ends(self, paths: Sequence[Path]) -> Iterator[tuple[int, Problem]]:
        """Interfaces that let larger packets out than the others' take: told of those that are not like most."""
        by_mtu: dict[int, list[int]] = defaultdict(list)
        for node_rank in sorted({node_rank for path in paths for node_rank in (path.node_rank, path.peer)}):
            by_mtu[self._mtus[node_rank]].append(node_rank)
        usual = max(by_mtu, key=lambda mtu: (len(by_mtu[mtu]), mtu), default=0)
        for mtu, node_ranks in sorted(by_mtu.items()):
            for node_rank in node_ranks if mtu != usual else ():
                yield node_rank, self._different(node_rank, by_mtu[usual][0])

    def _different(self, node_rank: int, sample: int) -> Problem:
        own, usual = self._mtus[node_rank], self._mtus[sample]
        low = node_rank if own < usual else sample
        return Problem(
            code="mtu_differs",
            level="warning",
            message=f"MTU {own} at {self._end(node_rank)}, {usual} at {self._end(sample)} of {self._names[sample]}:"
            " between them the smaller one counts",
            fix=f"if all switches take {max(own, usual)} bytes, on {self._names[low]}:"
            f"  ip link set dev {self._interface(low)} mtu {max(own, usual)}",
        )

    def _interface(self, node_rank: int) -> str:
        return self._endpoints[node_rank].interface

    def _end(self, node_rank: int) -> str:
        endpoint = self._endpoints[node_rank]
        return f"{endpoint.interface} {endpoint.address}"
