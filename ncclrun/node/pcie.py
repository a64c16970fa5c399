"""Which PCIe bridges send what one device says to another by way of the processor (ACS), as far as it can be read."""

from __future__ import annotations

import re
from typing import Any

from . import commands

SECONDS = 8.0


def parse(text: str) -> dict[str, list[str]]:
    """``redirecting``: bridges with an ACS redirect switched on."""
    found = []
    device = ""
    for line in text.splitlines():
        if line[:1].strip():
            device = line.split(" ", 1)[0] if "bridge" in line else ""
        elif device and re.search(r"ACSCtl:.*(?:ReqRedir|CmpltRedir)\+", line):
            found.append(device)
    return {"redirecting": found}


def find() -> dict[str, Any]:
    """Raises OSError where it can't be read: the kernel shows it to root alone."""
    program = commands.locate("lspci")
    if program is None:
        raise OSError("there is no lspci")
    output = commands.ask([program, "-vvv"], SECONDS)
    if output.code != 0 or "<access denied>" in output.out:
        raise OSError("lspci shows a bridge's ACS control to root alone")
    return dict(parse(output.out))
