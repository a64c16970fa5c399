"""nft rules for the lab: firewalls on hosts, and cuts in a switch."""

from __future__ import annotations

ANSWERS = {
    "drop": "drop",
    "prohibited": "meta nfproto ipv4 reject with icmp type host-prohibited",
    "reset": "meta l4proto tcp reject with tcp reset",
}


def firewall_rules(allow: str, how: str) -> str:
    """A host's stateful firewall: new connections to these TCP ports pass, what is left meets ``how``."""
    return f"""
table inet lab {{
  chain incoming {{
    type filter hook input priority 0; policy accept;
    iif lo accept
    ct state established,related accept
    meta l4proto ipv6-icmp accept
    tcp dport {{ {allow} }} accept
    {ANSWERS[how]}
  }}
}}
"""


def cut_rules(table: str, port: str, source: str, target: str, *, both: bool) -> str:
    """Drops what enters the switch at ``port`` from ``source`` to ``target``; not ``both``: new connections alone."""
    family = "ip6" if ":" in source else "ip"
    new = "" if both else "tcp flags & (syn | ack) == syn "
    return f"""
table netdev {table} {{
  chain incoming {{
    type filter hook ingress device {port} priority -300; policy accept;
    {family} saddr {source} {family} daddr {target} {new}drop
  }}
}}
"""


def everything_to(port: int) -> str:
    """All TCP connections end at this port, whatever they were meant for."""
    return f"""
table inet lab {{
  chain incoming {{
    type nat hook prerouting priority -100; policy accept;
    meta l4proto tcp redirect to :{port}
  }}
}}
"""
