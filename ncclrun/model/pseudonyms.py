"""Names in place of addresses, hosts and users: the same one for the same thing, wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address, IPv6Address

_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9a-fA-F:]*:[0-9a-fA-F:]*:)[0-9a-fA-F:]{3,39}(?![\w:.])")
_MAC = re.compile(r"(?<![\w:])[0-9a-f]{2}(?::[0-9a-f]{2}){5}(?![\w:])", re.IGNORECASE)


class Pseudonyms:
    """Addresses of one network stay in one network; private ones stay private, and loopback what it is."""

    def __init__(self, hosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        self._parts: dict[tuple[str | int, ...], int] = {}
        # a host that is called by its address keeps being one: what reads the text again looks for addresses there
        named = (name for name in dict.fromkeys(hosts) if name and not (_IPV4.fullmatch(name) or _IPV6.fullmatch(name)))
        self._names = {name: f"host{at}" for at, name in enumerate(named, 1)}
        self._names |= {
            name: f"user{at}" for at, name in enumerate(dict.fromkeys(users), 1) if name not in ("", "root")
        }
        words = sorted(map(re.escape, self._names), key=len, reverse=True)
        self._named = re.compile(rf"(?<![\w-])(?:{'|'.join(words)})(?![\w-])") if words else None

    def text(self, text: str) -> str:
        """The text with all of them replaced."""
        if self._named is not None:
            text = self._named.sub(lambda match: self._names[match[0]], text)
        text = _MAC.sub(lambda match: f"02:00:00:00:00:{self._part(('mac',), match[0].lower()) % 256:02x}", text)
        text = _IPV6.sub(lambda match: self._ipv6(match[0]), text)
        return _IPV4.sub(lambda match: self._ipv4(match[0]), text)

    def _part(self, before: tuple[str | int, ...], part: str | int) -> int:
        """The number of a part among those that follow the same ones, from 1."""
        key = (*before, part)
        if key not in self._parts:
            self._parts[key] = 1 + sum(one[:-1] == before for one in self._parts)
        return self._parts[key]

    def _ipv4(self, text: str) -> str:
        try:
            address = IPv4Address(text)
        except AddressValueError:
            return text
        octets = [int(part) for part in text.split(".")]
        if octets[0] in (0, 255) or address.is_loopback or address.is_link_local or address.is_multicast:
            return text
        kept = 2 if octets[:2] == [192, 168] or (octets[0] == 172 and 16 <= octets[1] < 32) else 1
        shown = octets[:kept]
        for at in range(kept, 4):
            whole = at == 3 and octets[at] in (0, 255)  # a network's own address, and its broadcast, stay such
            shown.append(octets[at] if whole else self._part(("4", *octets[:at]), octets[at]) % 256)
        return ".".join(map(str, shown))

    def _ipv6(self, text: str) -> str:
        try:
            address = IPv6Address(text)
        except AddressValueError:
            return text
        if address.is_loopback or address.is_unspecified:
            return text
        groups = [int(group, 16) for group in address.exploded.split(":")]
        shown = groups[:1] + [
            self._part(("6", *groups[:at]), groups[at]) if groups[at] else 0 for at in range(1, len(groups))
        ]
        return str(IPv6Address(":".join(f"{group:x}" for group in shown)))
