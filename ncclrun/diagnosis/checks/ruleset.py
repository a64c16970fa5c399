"""What a host's rules, as nft and iptables list them, do with a connection from a peer to a port of the kernel's."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network

_Network = IPv4Network | IPv6Network

_HARMLESS = "|".join(
    (
        r'counter(?: packets \d+ bytes \d+)?|comment "[^"]*"|log(?: prefix "[^"]*"| level \w+| group \d+| flags all)*',
        r"(?:ip protocol|meta l4proto|ip6 nexthdr) (?:tcp|\{[^}]*tcp[^}]*\})|meta nfproto ipv[46]",
        r'ct state (?:\{[^}]*\bnew\b[^}]*\}|[\w,]*\bnew\b[\w,]*)|iif(?:name)? != "?lo"?|fib daddr type local',
        r"-p tcp|-m (?:tcp|state|conntrack|comment|multiport|addrtype)|--dst-type LOCAL|--syn|--tcp-flags \S+ SYN",
        r'! -i lo|--comment (?:"[^"]*"|\S+)|--(?:ct)?state [\w,]*NEW[\w,]*',
    )
)
"""Of a rule that it takes away nothing, as far as a connection from another node is concerned."""
_SOURCE = re.compile(r"(?:ip6? saddr (?P<nft>!= )?|(?P<old>! )?-s )(?P<what>\{[^}]*\}|[0-9a-f.:/]+)")
_PORTS = re.compile(
    r"(?:tcp|th) dport (?P<nft>!= )?(?P<of_nft>\{[^}]*\}|[\w-]+)|(?P<old>! )?--dports? (?P<of_old>[\w:,]+)"
)
_VERDICT = re.compile(
    r"(?:-j )?(?P<what>drop|reject|accept|return)(?: .*)?|(?P<how>jump|goto|-j|-g) (?P<chain>\S+)", re.IGNORECASE
)
_LET_IN = ""


@dataclass(frozen=True)
class Refusal:
    """``place`` is the chain by which it comes in (``inet filter input``, of iptables ``INPUT``), ``rule`` its text."""

    place: str
    rule: str


@dataclass
class _Rules:
    """By table and chain; ``first`` are the chains that see what comes in, each with the policy if it refuses."""

    chains: dict[str, list[str]] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Call:
    """A connection: by which interface it comes, from which network, to one of which ports."""

    interface: str
    peers: _Network | None
    ports: tuple[int, int]


def refusing(
    rules: str, interface: str = "", peers: _Network | None = None, ports: tuple[int, int] = (32768, 60999)
) -> list[Refusal]:
    """Of each chain that sees what comes in the rule, or policy, that refuses the peers; what is unclear does not."""
    read, call = _read(rules, peers), _Call(interface, peers, ports)
    found = ((place, _end(read.chains, place, call, set()), policy) for place, policy in read.first.items())
    return [Refusal(place, told) for place, end, policy in found if (told := policy if end is None else end)]


def _end(chains: dict[str, list[str]], place: str, call: _Call, seen: set[str]) -> str | None:
    """The rule that refuses, _LET_IN, or None where the chain comes to its end."""
    if place in seen:
        return None
    for rule in chains.get(place, ()):
        verdict = _verdict(rule, call)
        if verdict is None:
            continue
        what = (verdict["what"] or "").lower()
        if what == "return":
            return None
        if what:
            return _LET_IN if what == "accept" else rule
        table = place.rpartition(" ")[0]
        end = _end(chains, f"{table} {verdict['chain']}".strip(), call, {*seen, place})
        if end is not None or verdict["how"] in ("goto", "-g"):
            return end
    return None


def _verdict(rule: str, call: _Call) -> re.Match[str] | None:
    """What becomes of the connection by this rule; None where it does not apply, or for a part of its ports alone."""
    text, part = rule, False
    if source := _SOURCE.search(text):
        if call.peers is None or _holds(source["what"], call.peers) is bool(source["nft"] or source["old"]):
            return None
        text = text.replace(source[0], "", 1)
    if wanted := _PORTS.search(text):
        covered = _covered(wanted["of_nft"] or wanted["of_old"], call.ports)
        covered = 1 - covered if wanted["nft"] or wanted["old"] else covered
        if covered < 0.5:
            return None
        part = covered < 0.99
        text = text.replace(wanted[0], "", 1)
    verdict = _VERDICT.fullmatch(_bare(text, call.interface))
    refuses = verdict is not None and (verdict["what"] or "").lower() in ("drop", "reject")
    return verdict if refuses or not part else None


def _covered(words: str, ports: tuple[int, int]) -> float:
    """Which part of the ports stands in a list of some, or of ranges; names of services are none of them."""
    low, high = ports
    total = 0
    for first, last in re.findall(r"\b(\d+)(?:[-:](\d+))?\b", words):
        total += max(0, min(high, int(last or first)) - max(low, int(first)) + 1)
    return total / max(1, high - low + 1)


def _read(rules: str, peers: _Network | None) -> _Rules:
    """Tables of the peers' kind of address; those of iptables are for IPv4."""
    version = peers.version if peers is not None else 4
    read = _Rules()
    old = {"INPUT": ""}
    table = chain = ""
    for line in (line.strip() for line in rules.splitlines()):
        if line.startswith("table "):
            table = line.partition(" {")[0].removeprefix("table ")
        elif line.startswith("chain "):
            chain = f"{table} {line.split()[1]}"
        elif "type filter hook input" in line:
            if table.split()[:1] in (["inet"], ["ip" if version == 4 else "ip6"]):
                read.first[chain] = "policy drop" if "policy drop" in line else ""
        elif re.match(r"-P INPUT (?:DROP|REJECT)", line):
            old["INPUT"] = line
        elif line.startswith("-A "):
            name, _, rule = line[3:].partition(" ")
            read.chains.setdefault(name, []).append(rule)
        else:
            read.chains.setdefault(chain, []).append(line)
    read.first.update(old if version == 4 else {})
    return read


def _bare(rule: str, interface: str) -> str:
    """What is left of it without what takes nothing away; ``interface`` is where the peers come in."""
    name = re.escape(interface)
    own = rf'|iif(?:name)? (?:"?{name}"?|\{{[^}}]*"?\b{name}\b"?[^}}]*\}})|-i {name}(?= )' if interface else ""
    return " ".join(re.sub(rf"(?<!\S)(?:{_HARMLESS}{own})(?!\S)", " ", rule).split())


def _holds(source: str, peers: _Network) -> bool:
    """Whether the peers' network lies within one of those that a rule names."""
    for word in source.strip("{}").split(","):
        try:
            net = ip_network(word.strip().partition("-")[0], strict=False)
        except ValueError:  # an address with a port beside it, or the cut end of a list: it names nobody for sure
            continue
        if net.version == peers.version and net.supernet_of(peers):  # type: ignore[arg-type]  # of one version
            return True
    return False
