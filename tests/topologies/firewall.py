"""nft rules for the lab: firewalls on hosts, and cuts in a switch."""

from __future__ import annotations

TABLE = "lab"
STRANGERS_PORT = 7
ANSWERS = {
    "drop": "drop",
    "prohibited": "meta nfproto ipv4 reject with icmp type host-prohibited",
    "reset": "meta l4proto tcp reject with tcp reset",
}


def incoming(allow: str, how: str) -> str:
    """A host's stateful firewall: new connections to these TCP ports pass, what is left meets ``how``."""
    return _table(
        "type filter hook input priority 0",
        "iif lo accept",
        "ct state established,related accept",
        "meta l4proto ipv6-icmp accept",
        f"tcp dport {{ {allow} }} accept",
        ANSWERS[how],
    )


def outgoing(name: str) -> str:
    """A host's firewall that lets no new TCP connection out by this interface: connect() fails with EPERM."""
    return _table("type filter hook output priority 0", f"oifname {name} meta l4proto tcp ct state new drop")


def everything_to_the_stranger() -> str:
    """All TCP connections end at one port, whatever they were meant for."""
    return _table("type nat hook prerouting priority -100", f"meta l4proto tcp redirect to :{STRANGERS_PORT}")


def cut(table: str, port: str, source: str, target: str, *, connections_only: bool) -> str:
    """Drops what enters the switch at ``port`` from ``source`` to ``target``, or only what opens a connection."""
    family = "ip6" if ":" in source else "ip"
    which = "tcp flags & (syn | ack) == syn " if connections_only else ""
    return _at_the_port(table, port, f"{family} saddr {source} {family} daddr {target} {which}drop")


def no_ipv4(table: str, port: str) -> str:
    """Drops the IPv4 that enters the switch at ``port``."""
    return _at_the_port(table, port, "meta protocol ip drop")


def _table(hook: str, *rules: str) -> str:
    lines = "\n".join((f"{hook}; policy accept;", *rules))
    return f"table inet {TABLE} {{\nchain rules {{\n{lines}\n}}\n}}\n"


def _at_the_port(table: str, port: str, rule: str) -> str:
    hook = f"type filter hook ingress device {port} priority -300; policy accept;"
    return f"table netdev {table} {{\nchain rules {{\n{hook}\n{rule}\n}}\n}}\n"
