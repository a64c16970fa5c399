"""Addresses that join no host to any other and that every host has: told in a line instead of a row each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from ipaddress import ip_address

from ncclrun.model.netevents import Judged
from ncclrun.model.words import listed
from ncclrun.planning.choice.candidates import WISHED
from ncclrun.planning.interfaces import CONTAINER_BRIDGE

Kind = tuple[str, bool]
"""What they are, and whether they are called by their interfaces (else by their prefix)."""
LOOPBACK: Kind = ("loopback", True)
LINK_LOCAL: Kind = ("IPv6 link-local", False)
CONTAINERS: Kind = ("containers and VMs", True)
KINDS = (LOOPBACK, LINK_LOCAL, CONTAINERS)


def split(rows: Sequence[Judged]) -> tuple[list[Judged], list[Judged]]:
    """Those that deserve a row, and those that do not; what was chosen or wished for always does."""
    wishing = {row.node_rank for row in rows if WISHED in row.reason}
    shown: list[Judged] = []
    folded: list[Judged] = []
    for row in rows:
        kind = _kind(row)
        wished = row.node_rank in wishing and WISHED not in row.reason and kind != LINK_LOCAL
        (shown if kind is None or wished or row.verdict != "rejected" else folded).append(row)
    return shown, folded


def left_out_text(rows: Sequence[Judged], nodes: int, shown: Iterable[Judged] = ()) -> str:
    """``left out on all nodes: loopback (lo), IPv6 link-local (fe80::…), containers and VMs (docker0)``.

    Of an interface that is among ``shown`` the address is named: ``loopback (::1)`` where lo was chosen.
    """
    if not rows:
        return ""
    seen = {row.interface for row in shown}
    where = " on all nodes" if len({row.node_rank for row in rows}) == nodes > 1 else ""
    kinds = [
        f"{kind[0]} ({listed(_called(own, seen, by_interface=kind[1]))})"
        for kind in KINDS
        if (own := [row for row in rows if _kind(row) == kind])
    ]
    return f"left out{where}: {', '.join(kinds)}"


def _kind(row: Judged) -> Kind | None:
    ip = ip_address(row.address)
    if ip.is_loopback:
        return LOOPBACK
    if ip.version == 6 and ip.is_link_local:
        return LINK_LOCAL
    return CONTAINERS if CONTAINER_BRIDGE.match(row.interface) else None


def _called(rows: Iterable[Judged], seen: Set[str], *, by_interface: bool) -> list[str]:
    if not by_interface:
        return ["fe80::…"]
    return list(dict.fromkeys(row.address if row.interface in seen else row.interface for row in rows))
