"""Network interfaces and their addresses: from rtnetlink (else getifaddrs), completed from /sys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import getifaddrs, netlink, sysfs
from .sysfs import ETHER, INFINIBAND, LOOPBACK, entries, read

PROC_NET = Path("/proc/net")
DEEPEST_STACK = 8
# PPP, raw IP, ipip, ip6tnl, sit, ipgre, ip6gre, and the number of what has no link layer at all (tun, wireguard).
NO_LINK_LAYER = frozenset((512, 519, 768, 769, 776, 778, 823, 65534))
RTF_UP = 1


def _kind(base: Path) -> str:
    """The driver's kind where rtnetlink gave none."""
    for entry, kind in (("bridge", "bridge"), ("bonding", "bond"), ("tun_flags", "tun"), ("wireless", "wlan")):
        if (base / entry).exists():
            return kind
    return next((line[8:] for line in read(base / "uevent").splitlines() if line.startswith("DEVTYPE=")), "")


def _link_type(arphrd: int) -> str:
    if arphrd in NO_LINK_LAYER:
        return "none"
    return {ETHER: "ether", INFINIBAND: "infiniband", LOOPBACK: "loopback"}.get(arphrd, "other")


def _lower(base: Path) -> list[str]:
    return [entry.name[len("lower_") :] for entry in entries(base) if entry.name.startswith("lower_")]


def _own_rdma(base: Path, devices: list[dict[str, Any]]) -> set[str]:
    """RDMA devices with a port on this very interface."""
    found = {device["name"] for device in devices for port in device["ports"] if base.name in port["netdevs"]}
    # In a container the RDMA devices of the whole machine are listed, and one of them may be on another `eth0`.
    own = {entry.name for entry in entries(base / "device" / "infiniband")}
    return found & own if own else found


def _rdma(base: Path, devices: list[dict[str, Any]], depth: int = 0) -> set[str]:
    """The same, and those of the interfaces below a bond, bridge or VLAN."""
    lower = _lower(base)
    found = _own_rdma(base, devices) if lower or (base / "device").exists() else set()
    for name in lower if depth < DEEPEST_STACK else []:
        found |= _rdma(base.parent / name, devices, depth + 1)
    return found


def complete(link: dict[str, Any], devices: list[dict[str, Any]], routes: set[int]) -> dict[str, Any]:
    """The fields of model Interface: what the kernel said of a link, and what /sys knows beside it."""
    base = sysfs.NET / link["name"]
    speed = read(base / "speed")
    seen = base.exists()
    known = {name: value for name, value in link.items() if name != "arphrd"}
    return {
        **known,
        "kind": link["kind"] or _kind(base),
        "link_type": _link_type(link["arphrd"]),
        "lower": _lower(base),
        "speed": int(speed) if speed.isdigit() and int(speed) > 0 else None,
        # Without /sys, a kind is the only hint that no card is behind it.
        "virtual": not (base / "device").exists() if seen else bool(link["kind"]) or link["loopback"],
        "rdma": sorted(_rdma(base, devices)),
        "default_route": link["index"] in routes,
    }


def _proc_routes(names: dict[str, int]) -> set[int]:
    """Indexes of the interfaces with a default route, as /proc/net shows them."""
    found = set()
    for line in read(PROC_NET / "route").splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[1] == words[7] == "00000000" and int(words[3], 16) & RTF_UP:
            found.add(words[0])
    for line in read(PROC_NET / "ipv6_route").splitlines():
        words = line.split()
        # The kernel's own catch-all that rejects everything is on `lo`.
        if len(words) > 9 and words[0].strip("0") == "" and words[1] == "00" and words[9] != "lo":
            found.add(words[9])
    return {names[name] for name in found if name in names}


def find(devices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fields of model Interface for each, in order of their index; ``devices`` as `rdma.find` lists them."""
    try:
        links = netlink.links()
    except OSError:
        links = getifaddrs.find()
    try:
        routes = netlink.default_routes()
    except OSError:
        routes = _proc_routes({link["name"]: link["index"] for link in links})
    return [complete(link, devices, routes) for link in sorted(links, key=lambda link: int(link["index"]))]
