"""Who is in the way: a node that nobody reaches, a pair, a firewall, a split, or a network that leads nowhere."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ncclrun.model.firewall import open_to
from ncclrun.model.network import Evidence, Link, LinkIndex
from ncclrun.model.words import listed
from ncclrun.planning.choice.candidates import Candidate
from ncclrun.planning.choice.wording import MOST_SHOWN, first_of, one_way


@dataclass(frozen=True)
class Blame:
    """What is said of it, a line each; the names of those that the others could go on without; what mends it."""

    lines: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    fix: str = ""
    others_work: bool = True
    """Whether all that were tried without those work together."""
    ends: tuple[str, ...] = ()
    """Names of those at the ends of single pairs that fail."""


@dataclass(frozen=True)
class _Failure:
    """A directed pair that does not work, by the attempt that shows it (None: it was not made)."""

    node_rank: int
    peer: int
    link: Link | None


def blame(picks: Sequence[Candidate], evidence: Evidence) -> Blame:
    """What keeps these candidates, one a node, from working together; nothing if nothing does."""
    case = _Case(picks, evidence)
    if not case.failures:
        return Blame()
    if len(picks) > 2 and len(case.failures) == len(case.tried):
        return case.wrong_network()
    groups = case.groups()
    if len(groups) > 1:
        return case.split(groups)
    nodes = case.bad_nodes()
    pairs = [f for f in case.failures if f.node_rank not in nodes and f.peer not in nodes]
    lines = (*case.about_nodes(nodes), *case.about_pairs(pairs))
    ends = tuple(case.names[at] for at in sorted({end for f in pairs for end in (f.node_rank, f.peer)}))
    if not nodes:
        return Blame(lines, (), case.fix(pairs[0]), others_work=False, ends=ends)
    bad = tuple(case.names[node] for node in nodes)
    return Blame(lines, bad, case.fix_node(nodes[0], nodes), others_work=not pairs, ends=ends)


def _telling(toward: Sequence[_Failure], away: Sequence[_Failure]) -> _Failure:
    """The failure that explains most: a node that has no route, or may not send, can't answer those who ask it."""
    mute = (f for f in away if f.link is not None and f.link.outcome in ("no_network", "forbidden"))
    return next(mute, (*toward, *away)[0])


class _Case:
    """The picks and all that failed between them."""

    def __init__(self, picks: Sequence[Candidate], evidence: Evidence) -> None:
        self.picks = picks
        self.names = [pick.node for pick in picks]
        self.tried = list(evidence.pairs())
        index = LinkIndex(evidence.links)
        found = (self._failure(index, a, b) for a, b in self.tried)
        self.failures = [failure for failure in found if failure is not None]
        self._failed = {(f.node_rank, f.peer) for f in self.failures}

    def _failure(self, index: LinkIndex, a: int, b: int) -> _Failure | None:
        address = self.picks[b].address
        routed = index.get(a, None, b, address)
        bound = index.get(a, self.picks[a].address, b, address)
        if routed is None or not routed.ok:
            return _Failure(a, b, routed or (bound if bound is not None and not bound.ok else None))
        if routed.local == self.picks[a].address or (bound is not None and bound.ok):
            return None
        return _Failure(a, b, bound)

    def groups(self) -> list[list[int]]:
        """Nodes that reach each other, by any way over others, largest first; those that are alone are none."""
        links: dict[int, set[int]] = defaultdict(set)
        for a, b in self.tried:
            if not self._failed & {(a, b), (b, a)}:
                links[a].add(b)
                links[b].add(a)
        found: list[list[int]] = []
        left = set(links)
        while left:
            group, waiting = set[int](), [min(left)]
            while waiting:
                node = waiting.pop()
                if node not in group:
                    group.add(node)
                    waiting += links[node]
            left -= group
            found.append(sorted(group))
        return sorted(found, key=lambda group: (-len(group), group))

    def split(self, groups: Sequence[Sequence[int]]) -> Blame:
        """Groups that see only themselves: two switches, a torn trunk, networks without a route between them."""
        place = {node: number for number, group in enumerate(groups) for node in group}
        lines = [f"the nodes fall into {len(groups)} groups, and none reaches another:"]
        for group in groups[:MOST_SHOWN]:
            networks = list(dict.fromkeys(str(self.picks[node].network) for node in group))
            lines.append(f"  {listed([self.names[node] for node in group], MOST_SHOWN)}  ({listed(networks)})")
        lines += [f"  and {len(groups) - MOST_SHOWN} more groups"] if len(groups) > MOST_SHOWN else []
        alone = [node for node in range(len(self.picks)) if node not in place]
        between = [f for f in self.failures if f.node_rank in place and f.peer in place]
        first = next((f for f in between if place[f.node_rank] != place[f.peer]), self.failures[0])
        lines.append(f"between them, {self._pair(first)}: {self._words(first)}{self._hint(first)}")
        lines += self.about_nodes(alone)
        within = [f for f in between if place[f.node_rank] == place[f.peer]]
        lines += self.about_pairs(within)
        largest = groups[0]
        outside = [node for node in range(len(self.picks)) if node not in largest]
        few = outside if 2 * len(outside) < len(self.picks) else []
        works = bool(few) and all(place[f.node_rank] != 0 for f in within)
        return Blame(tuple(lines), tuple(self.names[node] for node in few), self._fix_split(first), works)

    def _fix_split(self, failure: _Failure) -> str:
        link = failure.link
        if link is None or link.outcome != "timeout" or link.open_ports:
            return self.fix(failure, everywhere=True)
        opened = open_to("each node", str(self.picks[failure.node_rank].network))
        return f"look at what joins the groups (the cable between their switches, the VLAN, the router)\nor {opened}"

    def bad_nodes(self) -> list[int]:
        """Those that fail with all others that are left, one way at least; never half of the nodes or more."""
        left = set(range(len(self.picks)))
        bad: list[int] = []
        while len(left) > 2 and 2 * (len(bad) + 1) < len(self.picks):
            tried, failed = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
            for pair in self.tried:
                if left.issuperset(pair):
                    ends = [(pair[0], 0), (pair[1], 1)]
                    tried.update(ends)
                    failed.update(ends if pair in self._failed else ())
            scores = {
                node: failed[node, 0] + failed[node, 1]
                for node in left
                if any(0 < tried[node, end] == failed[node, end] for end in (0, 1))
            }
            if not scores:
                break
            worst = max(scores, key=lambda node: (scores[node], -node))
            left.discard(worst)
            bad.append(worst)
        return sorted(bad)

    def _ways(self, node: int, bad: Sequence[int]) -> tuple[list[_Failure], list[_Failure]]:
        """Failures toward and away from a bad node, each only if that way fails with all good nodes.

        One that tried bad nodes alone (of many, each tries a few) has nothing else to show than how that failed.
        """
        toward = [f for f in self.failures if f.peer == node and f.node_rank not in bad]
        away = [f for f in self.failures if f.node_rank == node and f.peer not in bad]
        others = [a for a, b in self.tried if b == node and a not in bad]
        targets = [b for a, b in self.tried if a == node and b not in bad]
        toward, away = toward if len(toward) == len(others) else [], away if len(away) == len(targets) else []
        return toward or ([] if away else [f for f in self.failures if node in (f.node_rank, f.peer)]), away

    def about_nodes(self, nodes: Sequence[int]) -> list[str]:
        """A line for each bad node: which way it fails, and how."""
        lines = []
        for node in nodes:
            toward, away = self._ways(node, nodes)
            what = " and ".join([*(["nobody reaches it"] if toward else []), *(["it reaches nobody"] if away else [])])
            sample, pick = _telling(toward, away), self.picks[node]
            words = f"{self._words(sample)}{self._hint(sample)}"
            lines.append(f"{pick.node} ({pick.interface} {pick.address}): {what}: {words}")
        return first_of(lines, "nodes")

    def fix_node(self, node: int, bad: Sequence[int]) -> str:
        """What mends a bad node."""
        toward, away = self._ways(node, bad)
        sample = _telling(toward, away)
        if sample in toward:
            return self.fix(sample, dead=True)
        link, pick = sample.link, self.picks[node]
        if link is None or link.outcome != "timeout":
            return self.fix(sample)
        route = f"ip route get {link.address} from {pick.address}; sudo nft list ruleset"
        return f"see what {pick.node} does with what it sends:  {route}"

    def about_pairs(self, failures: Sequence[_Failure]) -> list[str]:
        """A line for each failing pair; of many the first, and how many more."""
        by_pair = {(failure.node_rank, failure.peer): failure for failure in failures}
        lines = []
        for (a, b), failure in by_pair.items():
            back = by_pair.get((b, a))
            if back is not None and b < a:  # it was told with the other way
                continue
            if back is not None and self._words(back) == self._words(failure):
                text = f"{self._pair(failure, '<->')}: {self._words(failure)}{self._hint(failure)}"
            elif back is not None:
                text = f"{self._pair(failure)}: {self._words(failure)}; the other way: {self._words(back)}"
            else:
                text = f"{self._pair(failure)}: {self._words(failure)}; the other way works"
                text += self._hint(failure) or f": something on {self.names[b]} or between them is in the way"
            lines.append(text)
        return first_of(lines, "pairs")

    def wrong_network(self) -> Blame:
        """No pair works at all."""
        first = self.failures[0]
        networks = list(dict.fromkeys(str(pick.network) for pick in self.picks))
        where = f"in {networks[0]}" if len(networks) == 1 else f"over {listed(networks)}"
        among = f"no node reaches any other {where} ({listed(self.names, MOST_SHOWN)})"
        line = f"{among}; {self._pair(first)}: {self._words(first)}{self._hint(first)}"
        return Blame((line,), (), self.fix(first, everywhere=True), others_work=False)

    def _pair(self, failure: _Failure, arrow: str = "->") -> str:
        a, b = self.picks[failure.node_rank], self.picks[failure.peer]
        return f"{a.node} {arrow} {b.node} ({a.interface} {a.address}, {b.interface} {b.address})"

    def _words(self, failure: _Failure) -> str:
        if failure.link is None:
            return "was not tried"
        bound = f"from {failure.link.source}: " if failure.link.source is not None else ""
        return bound + one_way(failure.link, self.names)

    def _one_subnet(self, failure: _Failure) -> bool:
        return self.picks[failure.peer].ip in self.picks[failure.node_rank].network

    def _hint(self, failure: _Failure) -> str:
        """What it means; "" where the words say it all."""
        link = failure.link
        if link is None:
            return ""
        if link.open_ports:
            ports = listed([str(port) for port in link.open_ports])
            return (
                f"; port {ports} of it answers, port {link.port} does not: a firewall lets only some ports through,"
                " but NCCL needs all TCP ports between the nodes: those that the kernel picks"
                " (net.ipv4.ip_local_port_range, mostly 32768-60999) and the master's port"
            )
        if link.outcome == "no_route" and self._one_subnet(failure):
            return ": in one subnet that is a firewall's REJECT, or a host that is off this wire"
        if link.outcome == "refused":
            return ", though it listens there: a firewall rejects it, or another machine has this address"
        if link.outcome == "timeout":
            return ": a firewall drops it, or an interface, VLAN or cable is dead"
        return ": another machine or network has this address, too" if link.outcome in ("other", "stranger") else ""

    def fix(self, failure: _Failure, *, dead: bool = False, everywhere: bool = False) -> str:
        """The command or line that mends it; ``dead``: nobody reaches the peer, ``everywhere``: nobody anybody."""
        link, peer, asker = failure.link, self.picks[failure.peer], self.picks[failure.node_rank]
        if link is None:
            return f"look at {asker.node}: it did not say how its attempts ended"
        if link.outcome in ("other", "stranger"):
            who = f"who has it now?  ip neigh show {peer.address}   (on {asker.node})"
            return f"give {peer.node} an address of its own on {peer.interface};  {who}"
        if link.outcome == "forbidden":
            return f"on {asker.node} itself a rule forbids it:  sudo nft list ruleset; sudo iptables -S OUTPUT"
        if link.outcome == "no_network" or (link.outcome == "no_route" and not self._one_subnet(failure)):
            return f"give {asker.node} a route:  sudo ip route add {peer.network} via GATEWAY dev {asker.interface}"
        if link.outcome == "bad_source":
            return f"try again: the addresses of {asker.node} changed meanwhile"
        opened = open_to("each node" if everywhere else peer.node, str(asker.network))
        if link.outcome == "timeout" and not link.open_ports:
            if everywhere:
                return f"look whether these interfaces are on one wire (switch, VLAN, cables)\nor {opened}"
            if dead:
                check = f"ip -s link show {peer.interface}; sudo ethtool {peer.interface}"
                return f"look at the wire on {peer.node}:  {check}\nor {opened}"
        return opened
