"""NCCL's own log lines (NCCL_DEBUG=INFO) as data: which interface, which devices, which settings."""

from __future__ import annotations

import re
from dataclasses import dataclass

# An interface of an IPv4 address may be an alias (`eth0:1`); an IPv6 address has colons of its own.
_WHERE = (
    r"(?:(?P<name4>[^\s\]]+?):(?P<ipv4>\d+(?:\.\d+){3})"
    r"|(?P<name6>[^\s:\]]+):\[?(?P<ipv6>[0-9A-Fa-f]*:[0-9A-Fa-f:.]+)(?:%[^\s\]<]+)?\]?)<(?P<port>\d+)>"
)
_BOOTSTRAP = re.compile(r"Bootstrap ?: Using (?:\[\d+\])?" + _WHERE)
_NET = re.compile(
    r"NET/(?P<transport>\w+) ?: (?:(?P<none>[Nn]o (?:device|(?:IP )?interface) found)|Using (?P<rest>.*))"
)
_DEVICE = re.compile(r"\[\d+\](\S+)")
_OOB = re.compile(r"OOB " + _WHERE)
_SOCKET = re.compile(_WHERE)
_SETTING = re.compile(
    r"NCCL (?:INFO|WARN) (?P<name>NCCL_[A-Z0-9_]+) set (?:by environment )?to (?P<value>.*)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Place:
    """An interface, its address without a zone, and the port (0: NCCL prints the line before it has one)."""

    interface: str
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class NetLine:
    """What one of NCCL's transports would use; ``devices`` is () where it found none."""

    transport: str
    """``Socket``, ``IB``, or a plugin's name."""
    devices: tuple[tuple[str, str], ...]
    """Of sockets interface and address; of IB ``device:port`` and ``IB`` or ``RoCE``."""
    out_of_band: Place | None = None
    """Where IB exchanges its connection data, by TCP."""


def _place(match: re.Match[str] | None) -> Place | None:
    if match is None:
        return None
    name, address = match["name4"] or match["name6"], match["ipv4"] or match["ipv6"]
    return Place(name, address, int(match["port"]))


def bootstrap_line(text: str) -> Place | None:
    """`Bootstrap : Using eth1:10.0.0.1<0>` (without the first blank from 2.25 on): what NCCL tells the other ranks."""
    return _place(_BOOTSTRAP.search(text))


def net_line(text: str) -> NetLine | None:
    """`NET/Socket : Using [0]eth1:10.0.0.1<0> …`, `NET/IB : Using [0]mlx5_0:1/IB … ; OOB eth1:10.0.0.1<0>`."""
    match = _NET.search(text)
    if match is None:
        return None
    if match["none"]:
        return NetLine(match["transport"], ())
    listed, _, behind = match["rest"].partition("; OOB ")
    devices = []
    for device in _DEVICE.findall(listed):
        place = _place(_SOCKET.fullmatch(device))
        name, _, layer = device.rpartition("/")
        devices.append((place.interface, place.address) if place else (name or layer, layer if name else ""))
    if not devices and not behind:
        return None  # `Using internal network plugin` and the like
    return NetLine(match["transport"], tuple(devices), _place(_OOB.search("OOB " + behind)))


def setting_line(text: str) -> tuple[str, str] | None:
    """`NCCL_X set by environment to Y` (NCCL says so of conf files, too) or `NCCL_X set to Y`: name and raw value."""
    match = _SETTING.search(text)
    if match is None:
        return None
    value = match["value"].rstrip("\n")
    # Of numbers, and of them alone, NCCL makes a sentence.
    return match["name"], value[:-1] if re.fullmatch(r"-?\d+\.", value) else value
