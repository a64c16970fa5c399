"""RDMA devices as /sys/class/infiniband shows them, and whether a program of this user could use them."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from pathlib import Path
from typing import Any

from . import machine, tasks
from .sysfs import entries, read

SYS_CLASS = Path("/sys/class")
DEV = Path("/dev/infiniband")
VERBS_LIBRARY = "libibverbs.so.1"
LOADING_SECONDS = 10.0


def _gids(port: Path) -> list[dict[str, Any]]:
    """The port's GID table without its empty rows (hundreds, mostly)."""
    found = []
    for entry in entries(port / "gids"):
        gid = read(entry)
        if gid.strip("0:"):
            kind = read(port / "gid_attrs" / "types" / entry.name)
            netdev = read(port / "gid_attrs" / "ndevs" / entry.name)
            found.append({"index": int(entry.name), "gid": gid, "type": kind, "netdev": netdev})
    return sorted(found, key=lambda gid: int(gid["index"]))


def _netdevs(device: Path, number: int, alone: bool, gids: list[dict[str, Any]]) -> list[str]:
    """Network interfaces on a port: those of its GIDs (RoCE), else those of its hardware (IPoIB).

    Two ports may be one PCI function: `dev_port` tells their interfaces apart. The representors of a switch in the card
    (BlueField, SR-IOV) are interfaces of that function, too, and are nobody's way out.
    """
    named = {gid["netdev"] for gid in gids} - {""}
    if named:
        return sorted(named)
    found = []
    for entry in entries(device / "device" / "net"):
        place = read(entry / "dev_port")
        here = alone or (place.isdigit() and int(place) == number - 1)
        if here and not re.match(r"(?:c\d+)?pf\d", read(entry / "phys_port_name")):
            found.append(entry.name)
    return found


def _port(device: Path, port: Path, alone: bool) -> dict[str, Any]:
    gids = _gids(port)
    rate = re.match(r"[0-9.]+", read(port / "rate"))
    return {
        "port": int(port.name),
        "state": read(port / "state").split(": ")[-1],
        "link_layer": read(port / "link_layer"),
        "rate": float(rate.group()) if rate else 0.0,
        "netdevs": _netdevs(device, int(port.name), alone, gids),
        "gids": gids,
    }


def _device(device: Path) -> dict[str, Any]:
    ports = sorted((entry for entry in entries(device / "ports") if entry.name.isdigit()), key=lambda e: int(e.name))
    numa = read(device / "device" / "numa_node")
    return {
        "name": device.name,
        "ports": [_port(device, port, len(ports) == 1) for port in ports],
        "numa": int(numa) if numa.isdigit() else None,
    }


def find() -> list[dict[str, Any]]:
    """The fields of model RdmaDevice for each, by name."""
    return [_device(device) for device in entries(SYS_CLASS / "infiniband")]


def _load() -> dict[str, Any]:
    try:
        ctypes.CDLL(VERBS_LIBRARY)
    except OSError as error:
        return {"error": f"{VERBS_LIBRARY} can't be loaded ({error}): install rdma-core (libibverbs1)"}
    return {"error": ""}


def _closed(path: Path) -> str:
    """Why this user can't open a device file, "" if it can be opened."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return f"{path} is missing: a container needs --device=/dev/infiniband, a host the module ib_uverbs"
        if error.errno in (errno.EACCES, errno.EPERM):
            return f"{machine.user()} may not open {path}: chmod 0666 {path}, or a udev rule that does so"
        return f"{path} can't be opened: {error.strerror}"
    return ""


def verbs(names: list[str]) -> str:
    """Why NCCL could not use these devices, "" if it could or there are none.

    The library is loaded in a child, for a broken one may crash who loads it.
    """
    if not names:
        return ""
    answer = tasks.bounded(_load, LOADING_SECONDS)
    if not answer["ok"]:
        return f"loading {VERBS_LIBRARY} failed: {answer['error']['message']}"
    if answer["error"]:
        return str(answer["error"])
    files = {read(entry / "ibdev"): DEV / entry.name for entry in entries(SYS_CLASS / "infiniband_verbs")}
    reasons = (_closed(files[name]) if name in files else f"{name} has no /dev/infiniband/uverbs*" for name in names)
    return next((reason for reason in reasons if reason), "")
