"""Which PCIe bridges above GPUs and RDMA cards send what these say to each other by way of the processor (ACS)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from . import commands
from .sysfs import entries, read

SECONDS = 8.0
DEVICES = Path("/sys/bus/pci/devices")
NVIDIA = "0x10de"


def gpus() -> list[Path]:
    """NVIDIA's GPUs on the bus, whether a driver serves them or not; they show in containers, too."""
    found = [one for one in entries(DEVICES) if read(one / "vendor") == NVIDIA and read(one / "class")[:4] == "0x03"]
    return [one for one in found if not (one / "physfn").exists()]  # a part of one, for a virtual machine


def _above() -> set[str]:
    """Addresses of all bridges between the processor and what peers talk to."""
    peers = [*gpus(), *(one for one in entries(DEVICES) if entries(one / "infiniband"))]
    return {part for one in peers for part in one.resolve().parts}


def parse(text: str) -> list[str]:
    """Bridges with an ACS redirect switched on, of what `lspci -D -vvv` prints."""
    found = []
    device = ""
    for line in text.splitlines():
        if line[:1].strip():
            device = line.split(" ", 1)[0] if "bridge" in line else ""
        elif device and re.search(r"ACSCtl:.*(?:ReqRedir|CmpltRedir)\+", line):
            found.append(device)
    return found


def find() -> dict[str, Any]:
    """``redirecting``. Raises OSError where it can't be read: the kernel shows it to root alone."""
    program = commands.locate("lspci")
    if program is None:
        raise OSError("there is no lspci")
    output = commands.ask([program, "-D", "-vvv"], SECONDS)
    if output.code != 0 or "<access denied>" in output.out:
        raise OSError("lspci shows a bridge's ACS control to root alone")
    above = _above()
    return {"redirecting": [bridge for bridge in parse(output.out) if bridge in above]}
