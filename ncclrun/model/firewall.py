"""The commands that open a host's firewall to its peers: advice that several floors give in the same words."""

from __future__ import annotations


def open_to(node: str, source: str) -> str:
    """Commands for the node named, by the firewall that it may have; ``source`` is an address or a network (CIDR).

    No range of ports is named, as NCCL listens on whatever the kernel picks.
    """
    family = "ip6" if ":" in source else "ip"
    return (
        f"open all ports between the nodes; on {node}:  ufw allow from {source}   (firewalld:"
        f" firewall-cmd --permanent --zone=trusted --add-source={source} && firewall-cmd --reload;"
        f" nftables: nft insert rule inet filter input {family} saddr {source} accept)"
    )
