"""`[user@]host[:port]`, as people write a host on a command line, in a gateway or in a hostfile."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address

# A host may end up in a ProxyCommand of ssh_config, which is shell text: nothing that a shell reads gets in.
_HOST = re.compile(r"[\w.+%:-]+")
_PORT = re.compile(r"[0-9]{1,5}")
_MAX_PORT = 65535
_MAX_HOST = 253
"""Longest name that DNS knows."""
_SHOWN = 60


@dataclass(frozen=True)
class Target:
    """A host with the user and port that were written beside it; None where they were not."""

    host: str
    user: str | None = None
    port: int | None = None


def parse_target(text: str) -> Target:
    """Takes ``[user@]host[:port]`` apart; IPv6 with a port stands in brackets.

    Ranges in brackets (``gpu[1-3]``) are left as they are. Raises ValueError with words for the reader.
    """
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError(f"{text!r} is not UTF-8")
    scheme, slashes, alone = text.partition("://")
    if slashes:
        raise ValueError(f"{_shorten(text)!r} has a scheme; write {_shorten(alone)} without {scheme}://")
    before, at, rest = text.rpartition("@")
    if at and not before:
        raise ValueError(f"no user stands before the @ in {text!r}")
    host, port = split_port(rest)
    if not host:
        raise ValueError(f"no host in {text!r}")
    if port is None:
        return Target(host, before or None)
    if not _PORT.fullmatch(port) or not 1 <= int(port) <= _MAX_PORT:
        raise ValueError(f"the port in {text!r} must be a whole number from 1 to {_MAX_PORT}")
    return Target(host, before or None, int(port))


def split_port(text: str) -> tuple[str, str | None]:
    """The host and what stands behind its colon, None where there is none; an IPv6 literal loses its brackets."""
    literal = re.fullmatch(r"\[([^\]]*:[^\]]*)\](?::(.*))?", text, re.DOTALL)
    if literal:
        return literal[1], literal[2]
    host, colon, port = text.rpartition(":")
    if not colon or ":" in host:  # none, or an IPv6 address without brackets
        return text, None
    return host, port


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def check_host(host: str) -> None:
    """Refuses (ValueError) what is no name of ssh_config, no DNS name and no address."""
    if host.startswith("-") or not _HOST.fullmatch(host) or not re.search(r"\w", host):
        raise ValueError(f"{_shorten(host)!r} is not a host: a name of ssh_config, a DNS name or an address is wanted")
    if len(host) > _MAX_HOST:
        raise ValueError(f"{_shorten(host)!r} is not a host: it has more than {_MAX_HOST} characters")
    if ":" not in host:
        return
    try:
        IPv6Address(host)
    except ValueError:
        raise ValueError(f"{host!r} is not a host; a port is written apart, as `port: …`") from None
