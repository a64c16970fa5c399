"""The line that opens a host's firewall to its peers."""

from __future__ import annotations

from ncclrun.planning.candidates import IPNetwork


def open_to(node: str, network: IPNetwork) -> str:
    """Commands for the node named, by the firewall that it may have. NCCL's ports are whatever the kernel picks."""
    family = "ip6" if network.version == 6 else "ip"
    return (
        f"open all TCP and UDP ports between the nodes; on {node}:  ufw allow from {network}   (firewalld:"
        f" firewall-cmd --permanent --zone=trusted --add-source={network} && firewall-cmd --reload;"
        f" nftables: nft insert rule inet filter input {family} saddr {network} accept)"
    )
