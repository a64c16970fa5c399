"""NCCL's own words in a running job's log (NCCL_DEBUG=INFO), held against the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address

from ncclrun.model.netevents import Problem
from ncclrun.model.plan import Endpoint
from ncclrun.nccl.lines import NetLine, Place, bootstrap_line, net_line

MARK = "NCCL INFO"
WATCHED = 64 << 20
"""Characters of a node's output that are looked at: NCCL speaks when it starts, and a flood of logs is not to wait."""
FIX = (
    "something in the job wins over the plan: look for NCCL_SOCKET_IFNAME, NCCL_SOCKET_FAMILY, NCCL_COMM_ID, "
    "NCCL_IB_HCA in the training's own code, in what wraps it (a container), and in the node's NCCL conf files"
)


class NcclWatch:
    """Says once a node that NCCL takes another network there than planned; ``endpoints`` by node_rank.

    Nodes without an endpoint are not watched, and none beyond its first WATCHED characters.
    """

    def __init__(self, endpoints: Mapping[int, Endpoint]) -> None:
        self._endpoints = dict(endpoints)
        self._left = dict.fromkeys(self._endpoints, WATCHED)

    def line(self, node_rank: int, text: str) -> Problem | None:
        """What is to be said of a worker's output, one or more whole lines; None mostly."""
        planned = self._endpoints.get(node_rank)
        if planned is None:
            return None
        self._left[node_rank] -= len(text)
        if self._left[node_rank] < 0:
            del self._endpoints[node_rank]
        if MARK not in text:
            return None
        for line in _lines(text):
            against = _against(line, planned)
            if against:
                self._endpoints.pop(node_rank, None)
                return Problem(code="nccl_network", message=against, fix=FIX, level="warning")
        return None


def _lines(text: str) -> Iterator[str]:
    """The lines that have the mark."""
    at = text.find(MARK)
    while at >= 0:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield text[at:end]
        at = text.find(MARK, end)


def _against(line: str, planned: Endpoint) -> str:
    """How the line differs from the plan, "" where it does not."""
    if "Bootstrap" in line:
        place = bootstrap_line(line)
        return "" if place is None or _is_planned(place.interface, place.address, planned) else _differs(place, planned)
    net = net_line(line) if "NET/" in line else None
    if net is None:
        return ""
    if net.transport == "Socket":
        other = [Place(*device, 0) for device in net.devices if not _is_planned(*device, planned)]
        return _differs(other[0], planned) if other else ""
    return _against_rdma(net, planned) if net.transport == "IB" else ""


def _against_rdma(net: NetLine, planned: Endpoint) -> str:
    if planned.hca:
        wanted = planned.hca.removeprefix("=").split(",")
        other = [name for name, _ in net.devices if name not in wanted]
        if other:
            return f"NCCL uses the RDMA device {', '.join(other)} here, the plan has {', '.join(wanted)}"
        if not net.devices:
            return f"NCCL finds no RDMA device here and goes by TCP, the plan has {', '.join(wanted)}"
    place = net.out_of_band
    if place is None or _is_planned(place.interface, place.address, planned):
        return ""
    return _differs(place, planned)


def _is_planned(interface: str, address: str, planned: Endpoint) -> bool:
    if interface != planned.interface:
        return False
    try:
        return ip_address(address) == ip_address(planned.address.partition("%")[0])
    except ValueError:  # a form of NCCL's that nobody has seen yet proves no difference
        return True


def _differs(place: Place, planned: Endpoint) -> str:
    return (
        f"NCCL uses {place.interface} ({place.address}) here, the plan has {planned.interface} ({planned.address}): "
        "the job may hang or be slow"
    )
