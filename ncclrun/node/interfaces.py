"""Network interfaces and their addresses: from rtnetlink (else getifaddrs), completed from /sys."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import Any, Iterator

from . import getifaddrs
from .getifaddrs import IFF_LOOPBACK, IFF_RUNNING, IFF_UP

SYS_NET = Path("/sys/class/net")
RTM_GETLINK, RTM_GETADDR = 18, 22
NLM_DUMP = 0x301
NLMSG_ERROR, NLMSG_DONE = 2, 3
HEADER = struct.Struct("=IHHII")
LINK = struct.Struct("=BxHiII")
ADDRESS = struct.Struct("=BBBBI")
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINKINFO, IFLA_INFO_KIND = 1, 3, 4, 18, 1
IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS = 1, 2, 8
IFA_F_DADFAILED = 0x08
SCOPES = {0: "global", 200: "site", 253: "link", 254: "host"}
DEEPEST_STACK = 8
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


def _link(payload: bytes) -> dict[str, Any]:
    _, _, index, flags, _ = LINK.unpack_from(payload)
    attributes = _attributes(payload[LINK.size :])
    info = _attributes(attributes.get(IFLA_LINKINFO, b""))
    return {
        "name": _text(attributes[IFLA_IFNAME]),
        "index": index,
        "up": bool(flags & IFF_UP),
        "running": bool(flags & IFF_RUNNING),
        "loopback": bool(flags & IFF_LOOPBACK),
        "kind": _text(info.get(IFLA_INFO_KIND, b"")),
        "mtu": int(struct.unpack("=I", attributes[IFLA_MTU])[0]),
        "mac": ":".join(f"{octet:02x}" for octet in attributes.get(IFLA_ADDRESS, b"")),
        "addresses": [],
    }


def _address(payload: bytes) -> tuple[int, dict[str, Any]] | None:
    """The interface's index and the address; None for one that the kernel found taken by another machine."""
    family, prefix, flags, scope, index = ADDRESS.unpack_from(payload)
    attributes = _attributes(payload[ADDRESS.size :])
    if IFA_FLAGS in attributes:
        flags = struct.unpack("=I", attributes[IFA_FLAGS])[0]
    # On a point-to-point link IFA_ADDRESS is the other end.
    packed = attributes.get(IFA_LOCAL, attributes.get(IFA_ADDRESS))
    if packed is None or family not in (socket.AF_INET, socket.AF_INET6) or flags & IFA_F_DADFAILED:
        return None
    text = socket.inet_ntop(family, packed)
    return index, {"address": text, "prefix": prefix, "scope": SCOPES.get(scope, "global")}


def _by_netlink() -> list[dict[str, Any]]:
    links = {link["index"]: link for link in map(_link, _dump(RTM_GETLINK))}
    for found in map(_address, _dump(RTM_GETADDR)):
        if found is not None and found[0] in links:
            links[found[0]]["addresses"].append(found[1])
    return list(links.values())


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""  # down, or its driver does not say


def _kind(base: Path) -> str:
    """The driver's kind where rtnetlink gave none."""
    for entry, kind in (("bridge", "bridge"), ("bonding", "bond"), ("tun_flags", "tun"), ("wireless", "wlan")):
        if (base / entry).exists():
            return kind
    return next((line[8:] for line in _read(base / "uevent").splitlines() if line.startswith("DEVTYPE=")), "")


def _rdma(base: Path, depth: int = 0) -> list[str]:
    """RDMA devices of the card, or of the cards below a bond, bridge or VLAN."""
    try:
        names = {entry.name for entry in (base / "device" / "infiniband").iterdir()}
    except OSError:
        names = set()
    try:
        lower = [entry for entry in base.iterdir() if entry.name.startswith("lower_")]
    except OSError:
        lower = []
    for entry in lower if depth < DEEPEST_STACK else []:
        names |= set(_rdma(entry, depth + 1))
    return sorted(names)


def _complete(link: dict[str, Any]) -> dict[str, Any]:
    base = SYS_NET / link["name"]
    speed = _read(base / "speed")
    seen = base.exists()
    return {
        **link,
        "kind": link["kind"] or _kind(base),
        "speed": int(speed) if speed.isdigit() and int(speed) > 0 else None,
        # Without /sys, a kind is the only hint that no card is behind it.
        "virtual": not (base / "device").exists() if seen else bool(link["kind"]) or link["loopback"],
        "rdma": _rdma(base),
    }


def find() -> list[dict[str, Any]]:
    """The fields of model Interface for each, in order of their index."""
    try:
        links = _by_netlink()
    except OSError:
        links = getifaddrs.find()
    return [_complete(link) for link in sorted(links, key=lambda link: int(link["index"]))]
