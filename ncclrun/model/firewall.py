"""The commands that open a host's firewall to its peers: advice that several floors give in the same words."""

from __future__ import annotations


def open_to(node: str, source: str) -> str:
    """Commands for the node named, a line for each firewall that it may have; ``source`` is an address or a network.

    No range of ports is named, as NCCL listens on whatever the kernel picks.
    """
    return (
        f"open all ports between the nodes; on {node}, by the firewall that is there:\n"
        f"  ufw:        {by_ufw(source)}\n"
        f"  firewalld:  {by_firewalld(source)}\n"
        f"  nftables:   {by_nft(source, 'inet filter input')}"
    )


def by_ufw(source: str) -> str:
    """Where ufw keeps the rules."""
    return f"sudo ufw allow from {source}"


def by_firewalld(source: str) -> str:
    """Where firewalld does."""
    return f"sudo firewall-cmd --permanent --zone=trusted --add-source={source} && sudo firewall-cmd --reload"


def by_nft(source: str, chain: str) -> str:
    """Where they are nobody's: into ``chain``, which is a family, a table and a name."""
    return f"sudo nft insert rule {chain} {'ip6' if ':' in source else 'ip'} saddr {source} accept"
