"""Interfaces and addresses by the C library's getifaddrs: for systems without rtnetlink."""

from __future__ import annotations

import ctypes
import os
import socket
from pathlib import Path
from typing import Any

from . import sysfs

IFF_UP, IFF_LOOPBACK, IFF_POINTOPOINT, IFF_RUNNING = 0x1, 0x8, 0x10, 0x40
# Where the address stands in a sockaddr, and its length in bytes.
PLACES = {socket.AF_INET: (4, 4), socket.AF_INET6: (8, 16)}


class _Entry(ctypes.Structure):
    pass


_Entry._fields_ = [
    ("next", ctypes.POINTER(_Entry)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
    ("netmask", ctypes.c_void_p),
    ("other", ctypes.c_void_p),
    ("data", ctypes.c_void_p),
]


def _packed(pointer: int | None) -> tuple[int, bytes] | None:
    """Family and packed address of a sockaddr, None for other families."""
    if not pointer:
        return None
    family = ctypes.c_ushort.from_address(pointer).value
    if family not in PLACES:
        return None
    place, size = PLACES[socket.AddressFamily(family)]
    return family, ctypes.string_at(pointer + place, size)


def _scope(family: int, packed: bytes, loopback: bool) -> str:
    if loopback:
        return "host"
    if family == socket.AF_INET:
        return "link" if packed[:2] == b"\xa9\xfe" else "global"
    return "link" if packed[0] == 0xFE and packed[1] & 0xC0 == 0x80 else "global"


def _master(name: str) -> str:
    try:
        return Path(os.readlink(sysfs.NET / name / "master")).name
    except OSError:
        return ""  # it has none


def _link(name: str, flags: int) -> dict[str, Any]:
    base, loopback = sysfs.NET / name, bool(flags & IFF_LOOPBACK)
    return {
        "name": name,
        "index": socket.if_nametoindex(name),
        "up": bool(flags & IFF_UP),
        "running": bool(flags & IFF_RUNNING),
        "loopback": loopback,
        "point_to_point": bool(flags & IFF_POINTOPOINT),
        "arphrd": int(sysfs.read(base / "type") or (sysfs.LOOPBACK if loopback else sysfs.ETHER)),
        "kind": "",
        "mtu": int(sysfs.read(base / "mtu") or 0),
        "mac": sysfs.read(base / "address"),
        "master": _master(name),
        "addresses": [],
    }


def find() -> list[dict[str, Any]]:
    """The interfaces as `interfaces` completes them. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_Entry)()
    if libc.getifaddrs(ctypes.byref(first)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    links: dict[str, dict[str, Any]] = {}
    try:
        entry = first
        while entry:
            now = entry.contents
            name = os.fsdecode(now.name).split(":", 1)[0]  # `eth0:1` is an address of eth0
            if name not in links:
                links[name] = _link(name, now.flags)
            link = links[name]
            address, mask = _packed(now.address), _packed(now.netmask)
            if address is not None:
                prefix = sum(bin(octet).count("1") for octet in mask[1]) if mask else 8 * len(address[1])
                text = socket.inet_ntop(address[0], address[1])
                scope = _scope(address[0], address[1], link["loopback"])
                link["addresses"].append({"address": text, "prefix": prefix, "scope": scope})
            entry = now.next
    finally:
        libc.freeifaddrs(first)
    return list(links.values())
