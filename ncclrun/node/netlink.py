"""What the kernel says of links, addresses and routes over rtnetlink."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any, Iterator

from .getifaddrs import IFF_LOOPBACK, IFF_POINTOPOINT, IFF_RUNNING, IFF_UP

RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE = 18, 22, 26
NLM_DUMP = 0x301
NLMSG_ERROR, NLMSG_DONE = 2, 3
HEADER = struct.Struct("=IHHII")
LINK = struct.Struct("=BxHiII")
ADDRESS = struct.Struct("=BBBBI")
ROUTE = struct.Struct("=BBBBBBBBI")
NEXT_HOP = struct.Struct("=HBBi")
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_MASTER, IFLA_LINKINFO, IFLA_INFO_KIND = 1, 3, 4, 10, 18, 1
IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS = 1, 2, 8
IFA_F_TEMPORARY, IFA_F_OPTIMISTIC, IFA_F_DADFAILED, IFA_F_DEPRECATED, IFA_F_TENTATIVE = 0x01, 0x04, 0x08, 0x20, 0x40
RTA_OIF, RTA_MULTIPATH, RTA_TABLE = 4, 9, 15
RT_TABLE_MAIN, RTN_UNICAST = 254, 1
SCOPES = {0: "global", 200: "site", 253: "link", 254: "host"}
SECONDS = 5.0


def _dump(kind: int) -> Iterator[bytes]:
    """The payloads of one rtnetlink dump. Raises OSError where netlink is not to be had (gVisor, some sandboxes)."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as sock:
        sock.settimeout(SECONDS)
        sock.bind((0, 0))
        body = LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        sock.send(HEADER.pack(HEADER.size + len(body), kind, NLM_DUMP, 1, 0) + body)
        while True:
            data = sock.recv(1 << 18)
            place = 0
            while place + HEADER.size <= len(data):
                size, what, _, _, _ = HEADER.unpack_from(data, place)
                if what == NLMSG_DONE:
                    return
                payload = data[place + HEADER.size : place + size]
                if what == NLMSG_ERROR:
                    code = -int(struct.unpack_from("=i", payload)[0])
                    raise OSError(code, os.strerror(code))
                yield payload
                place += (size + 3) & ~3


def _attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    place = 0
    while place + 4 <= len(data):
        size, kind = struct.unpack_from("=HH", data, place)
        if size < 4:
            break
        found[kind & 0x3FFF] = data[place + 4 : place + size]
        place += (size + 3) & ~3
    return found


def _text(value: bytes) -> str:
    return value.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def _number(value: bytes) -> int:
    return int(struct.unpack_from("=I", value)[0])


def _link(payload: bytes) -> dict[str, Any]:
    _, arphrd, index, flags, _ = LINK.unpack_from(payload)
    attributes = _attributes(payload[LINK.size :])
    info = _attributes(attributes.get(IFLA_LINKINFO, b""))
    return {
        "name": _text(attributes[IFLA_IFNAME]),
        "index": index,
        "up": bool(flags & IFF_UP),
        "running": bool(flags & IFF_RUNNING),
        "loopback": bool(flags & IFF_LOOPBACK),
        "point_to_point": bool(flags & IFF_POINTOPOINT),
        "arphrd": arphrd,
        "kind": _text(info.get(IFLA_INFO_KIND, b"")),
        "mtu": _number(attributes[IFLA_MTU]),
        "mac": ":".join(f"{octet:02x}" for octet in attributes.get(IFLA_ADDRESS, b"")),
        "master": _number(attributes[IFLA_MASTER]) if IFLA_MASTER in attributes else 0,
        "addresses": [],
    }


def _address(payload: bytes) -> tuple[int, dict[str, Any], bool] | None:
    """The interface's index, the address, and whether it is there to stay; None for one that can't be used.

    That is one which the kernel found taken by another machine, or still asks about (duplicate address detection).
    """
    family, prefix, flags, scope, index = ADDRESS.unpack_from(payload)
    attributes = _attributes(payload[ADDRESS.size :])
    if IFA_FLAGS in attributes:
        flags = _number(attributes[IFA_FLAGS])
    # On a point-to-point link IFA_ADDRESS is the other end.
    packed = attributes.get(IFA_LOCAL, attributes.get(IFA_ADDRESS))
    if packed is None or family not in (socket.AF_INET, socket.AF_INET6) or flags & IFA_F_DADFAILED:
        return None
    if flags & IFA_F_TENTATIVE and not flags & IFA_F_OPTIMISTIC:
        return None
    # The same bit says "secondary" of an IPv4 address, which is as good as any.
    passing = family == socket.AF_INET6 and flags & (IFA_F_TEMPORARY | IFA_F_DEPRECATED)
    text = socket.inet_ntop(family, packed)
    return index, {"address": text, "prefix": prefix, "scope": SCOPES.get(scope, "global")}, not passing


def lasting(found: list[tuple[dict[str, Any], bool]]) -> list[dict[str, Any]]:
    """An interface's addresses without the passing ones (temporary, deprecated), if a global IPv6 one lasts."""
    stable = any(stays and ":" in address["address"] and address["scope"] == "global" for address, stays in found)
    return [address for address, stays in found if stays or not stable]


def links() -> list[dict[str, Any]]:
    """All links with their usable addresses in the kernel's order. Raises OSError."""
    found = {link["index"]: link for link in map(_link, _dump(RTM_GETLINK))}
    addresses: dict[int, list[tuple[dict[str, Any], bool]]] = {}
    for one in map(_address, _dump(RTM_GETADDR)):
        if one is not None:
            addresses.setdefault(one[0], []).append(one[1:])
    for index, link in found.items():
        link["addresses"] = lasting(addresses.get(index, []))
        link["master"] = found[link["master"]]["name"] if link["master"] in found else ""
    return list(found.values())


def _hops(data: bytes) -> Iterator[int]:
    """Interfaces of a route with several next hops."""
    place = 0
    while place + NEXT_HOP.size <= len(data):
        size, _, _, index = NEXT_HOP.unpack_from(data, place)
        if size < NEXT_HOP.size:
            return
        yield index
        place += (size + 3) & ~3


def _default(payload: bytes) -> set[int]:
    """Interfaces where this route leaves, if it is a default one of the main table."""
    _, bits, _, _, table, _, _, kind, _ = ROUTE.unpack_from(payload)
    attributes = _attributes(payload[ROUTE.size :])
    if RTA_TABLE in attributes:
        table = _number(attributes[RTA_TABLE])
    if bits or table != RT_TABLE_MAIN or kind != RTN_UNICAST:
        return set()
    out = {_number(attributes[RTA_OIF])} if RTA_OIF in attributes else set()
    return out | set(_hops(attributes.get(RTA_MULTIPATH, b"")))


def default_routes() -> set[int]:
    """Indexes of the interfaces that have a default route, IPv4 or IPv6. Raises OSError."""
    found: set[int] = set()
    for payload in _dump(RTM_GETROUTE):
        found |= _default(payload)
    return found
