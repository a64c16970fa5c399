"""Does a firewall of a host refuse the other nodes?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network

from ncclrun.diagnosis.checks.kind import Kind
from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.model.firewall import open_to
from ncclrun.model.netevents import Problem
from ncclrun.model.words import listed

FIREWALL = Kind(
    id="firewall",
    title="a firewall refuses what comes in",
    symptom="Ranks hang in init_process_group; NCCL: `connect … timed out` or `Connection refused`; ping works.",
    cause="NCCL, Gloo and the rendezvous listen on ports that the kernel chooses: opening one port is not enough.",
    cure="Open all ports between the nodes, by the firewall that is there. `ncclrun ping` proves what passes.",
)
FIREWALL_HIDDEN = Kind(
    id="firewall_on",
    title="a firewall is on, and its rules can't be read",
    symptom="As of firewall, or nothing at all.",
    cause="Rules are shown to root alone.",
    cure="`ncclrun ping CLUSTER` tries every connection, and says which are kept out.",
)
KINDS = (FIREWALL, FIREWALL_HIDDEN)

_Network = IPv4Network | IPv6Network

_HARMLESS = "|".join(
    (
        r'counter(?: packets \d+ bytes \d+)?|comment "[^"]*"|log(?: prefix "[^"]*"| level \w+| group \d+| flags all)*',
        r"(?:ip protocol|meta l4proto|ip6 nexthdr) (?:tcp|\{[^}]*tcp[^}]*\})|meta nfproto ipv[46]",
        r'ct state (?:new|\{ ?new ?\})|iif(?:name)? != "?lo"?|(?:tcp|th) dport (?:!= (?:\{[^}]*\}|\S+)|\d+-\d+)',
        r'-p tcp|-m (?:tcp|state|conntrack|comment|multiport)|--comment (?:"[^"]*"|\S+)|--(?:ct)?state NEW|--syn',
        r"--tcp-flags \S+ SYN|! --dports? \S+|--dports? \d+:\d+|! -i lo",
    )
)
"""Of a rule that it takes away nothing, as far as a connection from another node is concerned."""
_SOURCE = re.compile(r"(?:ip6? saddr|-s) (\{[^}]*\}|[0-9a-f.:/]+)")
_VERDICT = re.compile(r"(?:-j )?(?P<what>drop|reject|accept)(?: .*)?|(?:jump|goto|-j|-g) (?P<chain>\S+)", re.IGNORECASE)


def firewall(subject: Subject) -> Iterator[Problem]:
    """Rules that refuse whatever is not let in by others."""
    told = subject.exam.firewall if subject.exam is not None else None
    if told is None:
        return
    interface = subject.interface
    at = interface.addresses[0] if interface is not None and interface.addresses else None
    net = ip_network(f"{at.address}/{at.prefix}", strict=False) if at else None
    rules = refusing(told.rules, interface.name if interface is not None else "", net)
    if rules:
        message = f"{told.by} shows for what comes in: {'; '.join(rules[:3])}"
        yield FIREWALL.found(message, open_to(subject.name, str(net or "NETWORK-OF-THE-NODES")))
    elif told.services and told.closed:
        message = f"{listed(told.services)} is on, and its rules can't be read ({told.closed})"
        yield FIREWALL_HIDDEN.found(message, "ncclrun ping   tries every connection", "info")


def refusing(rules: str, interface: str = "", peers: _Network | None = None) -> list[str]:
    """The rules, and policies, that refuse incoming connections in general, unless the peers are let in before."""
    chains, first, policies = _chains(rules)
    found: list[str] = []
    for rule in (rule for place in first for rule in _in_order(chains, place, set())):
        source = _SOURCE.search(rule)
        verdict = _VERDICT.fullmatch(_bare(_SOURCE.sub("", rule), interface))
        if verdict is None:
            continue
        what = (verdict["what"] or "").lower()
        if what == "accept" or (verdict["chain"] and "trusted" in verdict["chain"]):  # firewalld's name
            if source is None or (peers is not None and _holds(source[1], peers)):
                return found
        elif what and source is None:
            found.append(rule)
    return [*policies, *found]


def _in_order(chains: dict[str, list[str]], place: str, seen: set[str]) -> Iterator[str]:
    """The rules of a chain, and where it leads without a condition those of that one."""
    seen.add(place)
    for rule in chains.get(place, ()):
        yield rule
        verdict = _VERDICT.fullmatch(_bare(rule, ""))
        target = f"{place.rpartition(' ')[0]} {verdict['chain']}" if verdict is not None else ""
        if target not in seen:
            yield from _in_order(chains, target, seen)


def _chains(rules: str) -> tuple[dict[str, list[str]], list[str], list[str]]:
    """Rules by table and chain, the chains that see what comes in, and the policies of these that refuse."""
    chains: dict[str, list[str]] = {}
    first, policies = ["-A INPUT"], []
    table = chain = ""
    for line in (line.strip() for line in rules.splitlines()):
        if line.startswith("table "):
            table = line.partition(" {")[0]
        elif line.startswith("chain "):
            chain = f"{table} {line.split()[1]}"
        elif "hook input" in line:
            first.append(chain)
            policies += ["policy drop"] if "policy drop" in line else []
        elif re.match(r"-P INPUT (?:DROP|REJECT)", line):
            policies.append(line)
        elif line.startswith("-A "):
            name, _, rule = line[3:].partition(" ")
            chains.setdefault(f"-A {name}", []).append(rule)
        else:
            chains.setdefault(chain, []).append(line)
    return chains, first, policies


def _bare(rule: str, interface: str) -> str:
    """What is left of it without what takes nothing away; ``interface`` is where the peers come in."""
    own = rf'|iif(?:name)? "?{re.escape(interface)}"?|-i {re.escape(interface)}(?= )' if interface else ""
    return " ".join(re.sub(rf"(?<!\S)(?:{_HARMLESS}{own})(?!\S)", " ", rule).split())


def _holds(source: str, peers: _Network) -> bool:
    """Whether the peers' network lies within one of those that a rule names."""
    for word in source.strip("{}").split(","):
        try:
            net = ip_network(word.strip().partition("-")[0], strict=False)
        except (
            ValueError
        ):  # an address with a port beside it, or the cut end of a long list: it lets nobody in for sure
            continue
        if net.version == peers.version and net.supernet_of(peers):  # type: ignore[arg-type]  # of one version
            return True
    return False
