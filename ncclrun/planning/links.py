"""Evidence in words: how the attempts to reach an address ended, by whom, and in what time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ncclrun.model.network import Link

MOST_NAMES = 3
"""Nodes that are named in a row of a table."""


def listed(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Names with commas; of many the first, and how many more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def one_way(link: Link, names: Sequence[str]) -> str:
    """How one attempt ended, to be read behind ``node0 -> node2: ``; ``names`` by node_rank."""
    if link.outcome == "reached":
        return "works" + _milliseconds([link])
    if link.outcome == "other":
        who = "itself" if link.by == link.node_rank else _name(link.by, names)
        return f"{link.address} leads {names[link.node_rank]} to {who}, not to {names[link.peer]}"
    return {
        "stranger": f"at {link.address} a machine answers that is none of the nodes",
        "refused": "connection refused",
        "timeout": "no answer" + (f" within {link.seconds:.1f} s" if link.seconds else ""),
        "no_route": "no route to host",
        "no_network": f"{names[link.node_rank]} has no route to this network",
        "forbidden": f"forbidden by {names[link.node_rank]} itself (a firewall there)",
        "reset": "connection reset",
        "bad_source": f"{link.source} is no address of {names[link.node_rank]} any more",
    }.get(link.outcome, link.detail or "failed")


def master_out_of_reach(link: Link, names: Sequence[str]) -> tuple[str, str]:
    """Why a node that reaches the master by other ports does not reach the port of the run, and what to do."""
    message = f"port {link.port} of the master ({names[link.peer]}, {link.address}) from {link.source}: "
    if link.outcome in ("timeout", "no_route", "refused", "reset"):
        fix = f"open that port on {names[link.peer]} to the other nodes, or take one that is open: --master-port PORT"
        return f"{message}{one_way(link, names)}, and other ports of it answer: a firewall in between", fix
    if link.outcome in ("other", "stranger"):
        return message + one_way(link, names), f"give {names[link.peer]} an address that no other machine has"
    return message + one_way(link, names), "run it again: what was proven a moment ago no longer holds"


def about_address(links: Iterable[Link], names: Sequence[str]) -> str:
    """How the attempts to reach one address ended: who reaches it, and who does not for what reason.

    Of a node's attempts that which the kernel routed counts, as NCCL does it so; if that works, one that does not.
    """
    verdicts: dict[int, Link] = {}
    for link in links:
        held = verdicts.get(link.node_rank)
        if held is None or (held.ok, held.source is not None) > (link.ok, link.source is not None):
            verdicts[link.node_rank] = link
    reached = [link for _, link in sorted(verdicts.items()) if link.ok]
    parts = []
    if reached:
        plural = "reaches" if len(reached) == 1 else "reach"
        who = listed([names[link.node_rank] for link in reached])
        parts.append(f"{who} {plural} it{_milliseconds(reached)}")
    failures: dict[str, list[str]] = {}
    for _, link in sorted(verdicts.items()):
        if not link.ok:
            failures.setdefault(_toward(link, names), []).append(names[link.node_rank])
    parts += [words.format(listed(who)) for words, who in failures.items()]
    return "; ".join(parts)


def _toward(link: Link, names: Sequence[str]) -> str:
    """How the attempt ended with a place ({}) for those who met with it."""
    source = f" from {link.source}" if link.source is not None else ""
    if link.outcome == "other":
        who = "itself" if link.by == link.node_rank else _name(link.by, names)
        return f"leads {{}} to {_literal(who)}"
    words = {
        "stranger": "somebody who is no node answers {}",
        "refused": "refuses {}",
        "timeout": "no answer to {}",
        "no_route": "no route to host for {}",
        "no_network": "no route to this network on {}",
        "forbidden": "forbidden by the firewall of {}",
        "reset": "resets the connection of {}",
        "bad_source": "not tried from {}, whose own address has gone",
    }.get(link.outcome, f"fails for {{}} ({_literal(link.detail or link.outcome)})")
    return (
        words
        + _literal(source)
        + (f" within {link.seconds:.1f} s" if link.outcome == "timeout" and link.seconds else "")
    )


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _name(node_rank: int | None, names: Sequence[str]) -> str:
    return names[node_rank] if node_rank is not None and 0 <= node_rank < len(names) else "another node"


def _milliseconds(links: Sequence[Link]) -> str:
    times = [link.seconds for link in links if link.seconds is not None]
    return f" ({max(times) * 1000:.1f} ms)" if times else ""
