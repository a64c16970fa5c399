"""Which firewall keeps this host, and what its rules are, as far as this user may read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import commands, processes
from .sysfs import read

SECONDS = 5.0
MOST_BYTES = 256 << 10
"""What lets the peers in may stand in what is cut off: more is not judged."""
UFW = Path("/etc/ufw/ufw.conf")
# What iptables made by way of nftables, nft lists as well; of the old kind only its own program tells.
LISTING = (
    ("nft", ["nft", "list", "ruleset"]),
    ("iptables", ["iptables-legacy", "-S"]),
    ("iptables", ["iptables", "-S"]),
)
OLD_TABLES = Path("/proc/net/ip_tables_names")


def _services() -> list[str]:
    """Firewalls that are switched on, by what can be seen without rights."""
    found = ["ufw"] if "\nENABLED=yes" in f"\n{read(UFW)}" else []
    commands_running = (processes.command_of(pid) for pid in processes.every())
    return [*found, *(["firewalld"] if any("/firewalld" in command for command in commands_running) else [])]


def find() -> dict[str, Any]:
    """``services``; ``rules`` as the programs in ``by`` print them; ``closed``: why none.

    Where there is no program that could make rules, ``rules`` are "" and ``closed`` too. Raises OSError where they are
    closed, and nothing shows that there are any.
    """
    told: dict[str, str] = {}
    closed = []
    for name, (program, *words) in LISTING:
        path = commands.locate(program)
        # To ask a firewall of the old kind about rules that it does not have would load its module.
        if path is None or name in told or (told and not read(OLD_TABLES)):
            continue
        output = commands.ask([path, *words], SECONDS)
        if output.code == 0 and len(output.out) <= MOST_BYTES:
            told[name] = output.out
            continue
        said = output.err.strip().splitlines()[0][:200] if output.err.strip() else "no answer"
        closed.append(f"{name}: {f'more than {MOST_BYTES >> 10} KiB of rules' if output.code == 0 else said}")
    services, why = _services(), "" if told else "; ".join(closed)
    if why and not services:
        raise OSError(f"its rules can't be read ({why})")
    return {"services": services, "by": " and ".join(told), "rules": "\n".join(told.values()), "closed": why}
