"""Names in place of addresses, hosts and users: the same one for the same thing, wherever it stands."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from ipaddress import AddressValueError, IPv4Address, IPv6Address

_IPV4 = re.compile(r"(?<![A-Za-z0-9.])\d{1,3}(?:\.\d{1,3}){3}(?![A-Za-z0-9]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9a-fA-F:]*:[0-9a-fA-F:]*:)[0-9a-fA-F:]{3,39}(?![\w:.])")
_MAC = re.compile(r"(?<![\w:-])[0-9a-f]{2}(?P<by>[:-])[0-9a-f]{2}(?:(?P=by)[0-9a-f]{2}){4,18}(?![\w:-])", re.IGNORECASE)
"""Of a card (6 bytes), of a fabric's port (8), of an InfiniBand interface (20)."""
_HOST = r"(?P<host>[A-Za-z][\w.-]*\w)"
_TOLD = (
    re.compile(rf"(?<![\w.-]){_HOST}:\d+:\d+ (?:\[\d+\]|NCCL )"),  # NCCL
    re.compile(rf"(?:(?P<user>[A-Za-z_][\w.-]*)|\*)@{_HOST}"),
    re.compile(
        rf"\bhost(?: ?name)?(?:[\"']? *[=:] *[\"']?{_HOST}| {_HOST.replace('host', 'called')}(?::\d| port |: ))",
        re.IGNORECASE,
    ),
    re.compile(rf"\b(?:MASTER_ADDR|(?:rdzv|master)[-_](?:endpoint|addr)|rdzv_host)\W{{1,9}}{_HOST}", re.IGNORECASE),
    re.compile(rf"\btcp://{_HOST}|\[{_HOST.replace('host', 'in_brackets')}\]:\d"),
    re.compile(r"\b(?P<host>ip-\d+-\d+-\d+-\d+[\w.-]*\w)"),  # a cloud's name for an address
    re.compile(r"/(?:home|Users)/(?P<user>[\w.-]+)"),
    re.compile(r"\b(?:user(?:name)?|logname)[\"']?\s?[=:]\s?[\"']?(?P<user>[A-Za-z_][\w.-]*)", re.IGNORECASE),
)
"""How logs tell hosts and users."""
_WORDS = {
    "localhost",
    "localhost.localdomain",
    "none",
    "null",
    "true",
    "false",
    "str",
    "int",
    "self",
    "name",
    "is",
    "the",
}
"""What stands in their places, and is none."""


class Pseudonyms:
    """Addresses of one network stay in one network; private ones stay private, and loopback what it is."""

    def __init__(self, hosts: Iterable[str] = (), users: Iterable[str] = (), *, parts: bool = False) -> None:
        """``parts``: also where a name is a part of a word, as of ``gpu1-ib`` or ``gpu1.example.org``."""
        self._parts: dict[tuple[str | int, ...], int] = {}
        self._behind: Counter[tuple[str | int, ...]] = Counter()
        # a host that is called by its address keeps being one: what reads the text again looks for addresses there
        named = (name for name in dict.fromkeys(hosts) if name and not (_IPV4.fullmatch(name) or _IPV6.fullmatch(name)))
        called = {name: name.partition(".")[0] if parts else name for name in named}
        numbers = {name: at for at, name in enumerate(dict.fromkeys(called.values()), 1)}
        names = {name: f"host{numbers[first]}" for name, first in called.items()}
        names |= {name: f"user{at}" for at, name in enumerate(dict.fromkeys(users), 1) if name not in ("", "root")}
        self._key: Callable[[str], str] = str.lower if parts else str
        self._names = {self._key(name): shown for name, shown in names.items()}
        words = _any_of(self._names)
        around = (
            r"(?<![A-Za-z0-9])({})(?:(?:\.[a-z][\w-]*){{2,}}|(?![A-Za-z0-9]))" if parts else r"(?<![\w-])({})(?![\w-])"
        )
        self._named = re.compile(around.format(words), re.IGNORECASE if parts else 0) if words else None

    def text(self, text: str) -> str:
        """The text with all of them replaced."""
        if self._named is not None:
            text = self._named.sub(lambda match: self._names[self._key(match[1])], text)
        text = _MAC.sub(lambda match: self._mac(match[0]), text)
        text = _IPV6.sub(lambda match: self._ipv6(match[0]), text)
        return _IPV4.sub(lambda match: self._ipv4(match[0]), text)

    def _mac(self, text: str) -> str:
        number = self._part(("mac",), text.lower()) % 256
        return text[2].join(["02", *["00"] * (len(text) // 3 - 1), f"{number:02x}"])

    def _part(self, before: tuple[str | int, ...], part: str | int) -> int:
        """The number of a part among those that follow the same ones, from 1."""
        key = (*before, part)
        if key not in self._parts:
            self._behind[before] += 1
            self._parts[key] = self._behind[before]
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


def named_in(text: str) -> tuple[set[str], set[str]]:
    """Hosts and users that a text names in one of the usual ways."""
    hosts: set[str] = set()
    users: set[str] = set()
    for match in (match for pattern in _TOLD for match in pattern.finditer(text)):
        for kind, name in match.groupdict().items():
            if name and name.lower() not in _WORDS:
                (users if kind == "user" else hosts).add(name)
    return hosts, users


def _any_of(names: Iterable[str]) -> str:
    """An expression for any of them, the longest that fits; by their first letters, for there may be a thousand."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names, key=len, reverse=True):
        groups[name[:2]].append(re.escape(name[2:]))
    return "|".join(f"{re.escape(start)}(?:{'|'.join(ends)})" for start, ends in groups.items())
