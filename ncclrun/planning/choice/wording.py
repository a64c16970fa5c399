"""Evidence in words: how the attempts to reach an address ended, by whom, and in what time."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence

from ncclrun.model.network import Link, Reach
from ncclrun.model.words import listed

IN_A_ROW = 3
"""Nodes that are named in a row of a table."""
MOST_SHOWN = 6
"""Nodes, or pairs, that are told one by one."""

ENDINGS: Mapping[Reach, str] = {
    "stranger": "somebody who is no node answers",
    "refused": "connection refused",
    "timeout": "no answer",
    "no_route": "no route to host",
    "no_network": "no route to this network",
    "forbidden": "forbidden by the firewall of the one who asks",
    "reset": "connection reset",
    "bad_source": "the address that was to ask has gone",
}
"""How an attempt ended, whoever made it."""
_PLACES: Mapping[Reach, str] = {
    **{"refused": " to {}", "timeout": " to {}", "reset": " to {}", "stranger": " {}", "forbidden": ", {}"},
    **{"no_network": " on {}", "bad_source": " on {}"},
}
"""How to go on with those who met with it; mostly ``for``."""


def first_of(lines: Sequence[str], things: str) -> list[str]:
    """The lines; of many the first, and how many more ``things`` there are."""
    more = len(lines) - MOST_SHOWN
    return [*lines[:MOST_SHOWN], *([f"and {more} more {things}"] if more > 0 else [])]


def leaving_out(names: Sequence[str]) -> str:
    """The option that goes on without these nodes."""
    return f"--nodes {shlex.quote(','.join(f'!{name}' for name in names))}"


def one_way(link: Link, names: Sequence[str]) -> str:
    """How one attempt ended, to be read behind ``node0 -> node2: ``; ``names`` by node_rank."""
    if link.outcome == "reached":
        return "works" + _milliseconds([link])
    if link.outcome == "other":
        who = "itself" if link.by == link.node_rank else _name(link.by, names)
        return f"{link.address} leads {names[link.node_rank]} to {who}, not to {names[link.peer]}"
    named = {
        "stranger": f"at {link.address} a machine answers that is none of the nodes",
        "no_network": f"{names[link.node_rank]} has no route to this network",
        "forbidden": f"forbidden by {names[link.node_rank]} itself (a firewall there)",
        "bad_source": f"{link.source} is no address of {names[link.node_rank]} any more",
    }
    return named.get(link.outcome) or (ENDINGS.get(link.outcome) or link.detail or "failed") + _within(link)


def master_out_of_reach(link: Link, names: Sequence[str]) -> tuple[str, str]:
    """Why a node that reaches the master by other ports does not reach the port of the run, and what to do."""
    message = f"port {link.port} of the master ({names[link.peer]}, {link.address}) from {link.source}: "
    if link.outcome in ("timeout", "no_route", "refused", "reset"):
        fix = f"open that port on {names[link.peer]} to the other nodes, or take one that is open: --master-port PORT"
        return f"{message}{one_way(link, names)}, and other ports of it answer: a firewall in between", fix
    if link.outcome in ("other", "stranger"):
        return message + one_way(link, names), f"give {names[link.peer]} an address that no other machine has"
    return message + one_way(link, names), "run it again: what was proven a moment ago no longer holds"


def about_address(links: Iterable[Link], names: Sequence[str], alone: Collection[int] = ()) -> str:
    """How the attempts to reach one address ended: who reaches it, and who does not for what reason.

    ``alone`` are the peers that it does not work with, one way at least. Of a node's attempts that which the kernel
    routed counts, as NCCL does it so; if that works, one that does not.
    """
    verdicts: dict[int, Link] = {}
    for link in links:
        held = verdicts.get(link.node_rank)
        if held is None or (held.ok, held.source is not None) > (link.ok, link.source is not None):
            verdicts[link.node_rank] = link
    parts = [_does_not_work(alone, verdicts, names)] if alone else []
    reached = [link for rank, link in sorted(verdicts.items()) if link.ok and rank not in alone]
    if reached:
        plural = "reaches" if len(reached) == 1 else "reach"
        who = listed([names[link.node_rank] for link in reached], IN_A_ROW)
        parts.append(f"{who} {plural} it{_milliseconds(reached)}")
    failures: dict[str, list[str]] = {}
    for rank, link in sorted(verdicts.items()):
        if not link.ok and rank not in alone:
            words, place = _ending(link, names)
            failures.setdefault(words + place, []).append(names[rank])
    parts += [words.format(listed(who, IN_A_ROW)) for words, who in failures.items()]
    return "; ".join(parts)


def _does_not_work(alone: Collection[int], verdicts: Mapping[int, Link], names: Sequence[str]) -> str:
    """Those that it does not work with are named once; again only where their reasons differ."""
    reasons: dict[str, list[str]] = {}
    for rank in sorted(alone):
        link = verdicts.get(rank)
        if link is None:
            reason = "not tried"
        else:
            reason = "reached from there, but not the other way" if link.ok else _ending(link, names)[0].format()
        reasons.setdefault(reason, []).append(names[rank])
    head = f"does not work with {listed([names[rank] for rank in sorted(alone)], IN_A_ROW)}: "
    if len(reasons) == 1:
        return head + next(iter(reasons))
    return head + ", ".join(f"{reason} ({listed(who, IN_A_ROW)})" for reason, who in reasons.items())


def _ending(link: Link, names: Sequence[str]) -> tuple[str, str]:
    """How the attempt ended; and how to go on with a place ({}) for those who met with it."""
    source = f" from {link.source}" if link.source is not None else ""
    if link.outcome == "other":
        who = "the node that asks" if link.by == link.node_rank else _name(link.by, names)
        return _literal(f"leads to {who}{source}"), " for {}"
    words = ENDINGS.get(link.outcome) or link.detail or link.outcome
    return _literal(words + source + _within(link)), _PLACES.get(link.outcome, " for {}")


def _within(link: Link) -> str:
    return f" within {link.seconds:.1f} s" if link.outcome == "timeout" and link.seconds else ""


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _name(node_rank: int | None, names: Sequence[str]) -> str:
    return names[node_rank] if node_rank is not None and 0 <= node_rank < len(names) else "another node"


def _milliseconds(links: Sequence[Link]) -> str:
    times = [link.seconds for link in links if link.seconds is not None]
    return f" ({max(times) * 1000:.1f} ms)" if times else ""
