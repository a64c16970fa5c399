"""IP addresses as the socket calls want them."""

from __future__ import annotations

import ipaddress
import socket
from typing import Tuple, Union

from .refusal import Refusal

SocketAddress = Union[Tuple[str, int], Tuple[str, int, int, int]]


def family_of(address: str) -> socket.AddressFamily:
    """IPv4 or IPv6; refuses what is no address (a zone is allowed)."""
    try:
        version = ipaddress.ip_address(address.split("%", 1)[0]).version
    except ValueError:
        raise Refusal("bad_address", f"{address!r} is no IP address") from None
    return socket.AF_INET6 if version == 6 else socket.AF_INET


def endpoint(address: str, port: int) -> tuple[socket.AddressFamily, SocketAddress]:
    """Family and socket address; a zone (`fe80::1%eth1`) becomes the scope id."""
    family = family_of(address)
    if family == socket.AF_INET:
        return family, (address, port)
    name, _, zone = address.partition("%")
    try:
        scope = 0 if not zone else int(zone) if zone.isdigit() else socket.if_nametoindex(zone)
    except OSError:
        raise Refusal("bad_address", f"there is no interface {zone!r} here (address {address})") from None
    return family, (name, port, 0, scope)


def is_link_local(address: str) -> bool:
    """Whether the address means something on one link only and so needs a zone (IPv6's fe80::/10)."""
    found = ipaddress.ip_address(address.split("%", 1)[0])
    return found.version == 6 and found.is_link_local


def as_seen_from(source: str | None, address: str) -> str | None:
    """The address as a socket bound to ``source`` has to write it; None where the two can't meet.

    A zone names an interface of the machine that has the address. To a caller a link-local address lies behind the
    interface of its own source, and without a source it lies nowhere.
    """
    if source is not None and family_of(source) != family_of(address):
        return None
    if not is_link_local(address):
        return address
    name, _, zone = (source or "").partition("%")
    return "{}%{}".format(address.split("%", 1)[0], zone) if name and zone else None
