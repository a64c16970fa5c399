"""Does a firewall of a host refuse the other nodes?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network

from ncclrun.diagnosis.checks.kind import Kind
from ncclrun.diagnosis.checks.ruleset import Refusal, refusing
from ncclrun.diagnosis.checks.subject import Subject
from ncclrun.model.firewall import by_firewalld, by_nft, by_ufw
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
MANAGED = ("INPUT", "filter_INPUT")
"""Chains that ufw and firewalld keep: what is put there by hand is gone with their next change."""
USUAL_PORTS = (32768, 60999)


def firewall(subject: Subject) -> Iterator[Problem]:
    """Rules that refuse whatever is not let in by others."""
    told = subject.exam.firewall if subject.exam is not None else None
    if told is None:
        return
    interface = subject.interface
    at = interface.addresses[0] if interface is not None and interface.addresses else None
    net = ip_network(f"{at.address}/{at.prefix}", strict=False) if at else None
    low, high = subject.local_ports or USUAL_PORTS
    refused = refusing(told.rules, interface.name if interface is not None else "", net, (low, high))
    if refused:
        shown = "; ".join(f"{one.rule} (chain {one.place})" for one in refused[:3])
        fix = " && ".join(dict.fromkeys(_opening(one, told.services, net) for one in refused))
        yield FIREWALL.found(f"{told.by} shows for what comes in: {shown}", subject.there(fix))
    elif told.services and told.closed:
        message = f"{listed(told.services)} is on, and its rules can't be read ({told.closed})"
        yield FIREWALL_HIDDEN.found(message, "ncclrun ping CLUSTER   (tries every connection)", "info")


def _opening(refusal: Refusal, services: Sequence[str], net: IPv4Network | IPv6Network | None) -> str:
    """By the program that made the rule; where the peers' network is not known, what shows all of that chain's."""
    table, _, chain = refusal.place.rpartition(" ")
    if net is None:
        return f"sudo nft list chain {refusal.place}" if table else "sudo iptables -S"
    if chain in MANAGED and "ufw" in services:
        return by_ufw(str(net))
    if chain in MANAGED and "firewalld" in services:
        return by_firewalld(str(net))
    return by_nft(str(net), refusal.place) if table else f"sudo iptables -I {chain} -s {net} -j ACCEPT"
