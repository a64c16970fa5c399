"""Which firewall keeps this host, and what its rules are, as far as this user may read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import commands, processes
from .sysfs import read

SECONDS = 5.0
MOST_BYTES = 32 << 10
UFW = Path("/etc/ufw/ufw.conf")
LISTING = (("nft", ["nft", "list", "ruleset"]), ("iptables", ["iptables", "-S", "INPUT"]))


def _services() -> list[str]:
    """Firewalls that are switched on, by what can be seen without rights."""
    found = ["ufw"] if "\nENABLED=yes" in f"\n{read(UFW)}" else []
    commands_running = (processes.command_of(pid) for pid in processes.every())
    return [*found, *(["firewalld"] if any("/firewalld" in command for command in commands_running) else [])]


def find() -> dict[str, Any]:
    """``services``; ``rules`` as the first program that may list some prints them, with ``by``; ``closed``: why none.

    Where there is no program that could make rules, ``rules`` are "" and ``closed`` too.
    """
    closed = []
    for name, (program, *words) in LISTING:
        path = commands.locate(program)
        if path is None:
            continue
        output = commands.ask([path, *words], SECONDS)
        if output.code == 0:
            return {"services": _services(), "by": name, "rules": output.out[:MOST_BYTES], "closed": ""}
        closed.append(f"{name}: {output.err.strip().splitlines()[0][:200] if output.err.strip() else 'no answer'}")
    return {"services": _services(), "by": "", "rules": "", "closed": "; ".join(closed)}
