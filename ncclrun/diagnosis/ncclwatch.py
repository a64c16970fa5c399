"""A running job's log as it comes: NCCL's own words held against the plan, and faults that no waiting mends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address

from ncclrun.diagnosis.explain.catalogue import ALL
from ncclrun.diagnosis.explain.speakers import speaker
from ncclrun.diagnosis.explain.steps import filled, mended
from ncclrun.model.netevents import Problem
from ncclrun.model.plan import Endpoint
from ncclrun.nccl.lines import NetLine, Place, bootstrap_line, net_line

MARK = "NCCL INFO"
NETWORK = "nccl_network"
CONNECTING = "connecting"
"""What keeps a node from its peers: one matter, in however many words NCCL tells it."""
EARLY = tuple(signature for signature in ALL if signature.early)
PATIENCE = 5
"""Attempts of NCCL's to connect (some 1.5 s) before one that fails is told."""
LONGEST = 4000
"""Characters around a word that are looked at."""
_ATTEMPT = re.compile(r"retrying \((\d+)/")
_OWN = re.compile(r"\s*(?:\S+ )?NCCL (?:INFO|WARN)")
"""Behind the marks of who speaks; a warning has its place in the source before it."""
WATCHED = 64 << 20
"""Characters of a node's output that are looked at: NCCL speaks when it starts, and a flood of logs is not to wait."""
FIX = (
    "something in the job wins over the plan: look for NCCL_SOCKET_IFNAME, NCCL_SOCKET_FAMILY, NCCL_COMM_ID, "
    "NCCL_IB_HCA in the training's own code, in what wraps it (a container), and in the node's NCCL conf files"
)


class NcclWatch:
    """Says once a node and matter what is wrong there already; ``endpoints`` by node_rank.

    ``cluster`` is what names the cluster on the command line, for the step that mends it. Nodes without an endpoint are
    not watched, and none beyond its first WATCHED characters.
    """

    def __init__(self, endpoints: Mapping[int, Endpoint], cluster: str = "") -> None:
        self._endpoints = dict(endpoints)
        self._left = dict.fromkeys(self._endpoints, WATCHED)
        self._told: set[tuple[int, str]] = set()
        self._known = {"cluster": cluster} if cluster else {}

    def line(self, node_rank: int, text: str, rank: int | None = None) -> Problem | None:
        """What is to be said of a worker's output, one or more whole lines; None mostly."""
        planned = self._endpoints.get(node_rank)
        if planned is None:
            return None
        self._left[node_rank] -= len(text)
        if self._left[node_rank] < 0:
            del self._endpoints[node_rank]
        return self._differing(node_rank, text, planned) or self._fault(node_rank, text, rank)

    def _differing(self, node_rank: int, text: str, planned: Endpoint) -> Problem | None:
        for line in _lines(text, MARK):
            against = _against(line, planned)
            if against and (node_rank, NETWORK) not in self._told and not _quoted(line):
                self._told |= {(node_rank, NETWORK), (node_rank, CONNECTING)}
                return Problem(code=NETWORK, message=against, fix=FIX, level="warning")
        return None

    def _fault(self, node_rank: int, text: str, rank: int | None) -> Problem | None:
        """What `explain` would say of a line already now, while NCCL still tries again."""
        for signature in EARLY:
            matter = CONNECTING if signature.network else signature.id
            if (node_rank, matter) in self._told:
                continue
            for line in (line for word in signature.words for line in _lines(text, word)):
                known = signature.match(line)
                if known is None or _soon(line) or _quoted(line):
                    continue
                known = {**self._known, **known}
                self._told.add((node_rank, matter))
                who = "" if rank is None else f"rank {rank}: "
                host = speaker(line).host
                known = {"host": host, **known} if host else known
                message = (
                    f"{who}{line.partition('NCCL ')[2] or line}\n{signature.title}. {filled(signature.cause, known)}"
                )
                return Problem(code=signature.id, message=message, fix=mended(signature.cure, known), level="warning")
        return None


def _quoted(line: str) -> bool:
    """Whether it has NCCL's words and is not NCCL's own line: a program may print whatever it learned."""
    return "NCCL " in line and _OWN.match(speaker(line).rest) is None


def _soon(line: str) -> bool:
    """One of the first attempts, as of a peer that does not listen yet."""
    attempt = _ATTEMPT.search(line)
    return attempt is not None and int(attempt[1]) < PATIENCE


def _lines(text: str, word: str) -> Iterator[str]:
    """The lines that have the word, from their last mark or this word on."""
    at = text.find(word)
    while at >= 0:
        start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        end = len(text) if end < 0 else end
        yield text[max(start, at - LONGEST) : min(end, at + LONGEST)]
        at = text.find(word, end)


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
