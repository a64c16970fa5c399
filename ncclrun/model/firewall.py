"""The commands that open a host's firewall to its peers: advice that several floors give in the same words."""

from __future__ import annotations


def open_to(node: str, source: str) -> str:
    """Commands for the node named, a line for each firewall that it may have; ``source`` is an address or a network.

    No range of ports is named, as NCCL listens on whatever the kernel picks.
    """
    family = "ip6" if ":" in source else "ip"
    trusted = f"sudo firewall-cmd --permanent --zone=trusted --add-source={source} && sudo firewall-cmd --reload"
    return (
        f"open all ports between the nodes; on {node}, by the firewall that is there:\n"
        f"  ufw:        sudo ufw allow from {source}\n"
        f"  firewalld:  {trusted}\n"
        f"  nftables:   sudo nft insert rule inet filter input {family} saddr {source} accept"
    )
