"""What a node's name service and proxy settings would do to a run, and the lines that mend it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from ipaddress import ip_address

from ncclrun.model.netevents import Problem
from ncclrun.model.network import LookUp, Names

SLOW = 1.0
"""Seconds of a look-up from which a start-up is felt to hang."""
UNANSWERED = "no answer within"
"""How the node part words a look-up that was given up."""
HARMLESS_CODES = frozenset(("name_unknown", "name_loopback", "name_foreign", "name_other_address", "proxy"))
"""Problems that a launch does not mention: they are for who looks into the network."""
HARMLESS = (
    "harmless for what ncclrun starts: NCCL and Gloo get their interface, the rendezvous an address. Programs that "
    "announce their host's name themselves (c10d rendezvous, MPI, Ray) are misled"
)


def name_problems(
    node_name: str, names: Names, endpoint_address: str, own_addresses: Collection[str], peers: Mapping[str, str]
) -> tuple[Problem, ...]:
    """At most one warning of a kind; ``peers`` are the other nodes' host names by their chosen addresses."""
    found = [
        _own_name(node_name, names, endpoint_address, own_addresses),
        _slow_own_name(node_name, names, endpoint_address),
        _slow_reverse(node_name, names.reverse, peers),
    ]
    return tuple(problem for problem in found if problem is not None)


def _is_loopback(address: str) -> bool:
    return ip_address(address).is_loopback


def _add_to_hosts(node_name: str, lines: Sequence[tuple[str, str]]) -> str:
    words = " ".join(shlex.quote(f"{address} {name}") for address, name in lines)
    return f"on {node_name}:  printf '%s\\n' {words} | sudo tee -a /etc/hosts"


def _own_name(node_name: str, names: Names, chosen: str, own: Collection[str]) -> Problem | None:
    """What gethostname() resolves to, where that is not the chosen address."""
    answers, name = names.forward.answers, names.hostname
    if names.forward.error.startswith(UNANSWERED) or chosen in answers:
        return None
    add = _add_to_hosts(node_name, [(chosen, name)])
    if not answers:
        said = f"its own name {name} resolves to nothing ({names.forward.error or 'no address'})"
        return _remark("name_unknown", f"{said}: {HARMLESS}", add)
    shown = ", ".join(answers)
    if all(map(_is_loopback, answers)):
        fix = f"in /etc/hosts on {node_name} write  {chosen} {name}  instead of the line  {answers[0]} {name}"
        return _remark("name_loopback", f"its own name {name} resolves to {shown}: {HARMLESS}", fix)
    if not any(answer in own for answer in answers):
        said = f"its own name {name} resolves to {shown}, which is no address of this host (stale, or a public one)"
        return _warning("name_foreign", f"{said}: {HARMLESS}", add)
    said = f"its own name {name} resolves to {shown} and not to {chosen}, where the nodes meet"
    return _remark("name_other_address", f"{said}: {HARMLESS}", add)


def _slow_own_name(node_name: str, names: Names, chosen: str) -> Problem | None:
    look_up = names.forward
    if not _is_slow(look_up):
        return None
    return _warning(
        "name_slow",
        f"looking up its own name {names.hostname} {_took(look_up)}: every process that asks for it waits that long",
        f"{_add_to_hosts(node_name, [(chosen, names.hostname)])}   (or see which server in /etc/resolv.conf is dead)",
    )


def _slow_reverse(node_name: str, reverse: Sequence[LookUp], peers: Mapping[str, str]) -> Problem | None:
    slow = [look_up for look_up in reverse if _is_slow(look_up)]
    if not slow:
        return None
    worst = max(slow, key=lambda look_up: look_up.seconds)
    peer = peers.get(worst.question, "")
    more = f" ({len(slow)} of {len(reverse)} addresses are like that)" if len(slow) > 1 else ""
    look = f"on {node_name}:  grep nameserver /etc/resolv.conf"
    mend = _add_to_hosts(node_name, list(peers.items())) if peers else look  # nobody's name is made up
    return _warning(
        "reverse_slow",
        f"looking up the name of {worst.question}{f' ({peer})' if peer else ''} {_took(worst)}{more}: torch looks up "
        "each connection that it accepts, so the start of every process group waits that long a connection",
        f"{mend}   (or see which server in /etc/resolv.conf is dead)",
    )


def _is_slow(look_up: LookUp) -> bool:
    return look_up.seconds > SLOW or look_up.error.startswith(UNANSWERED)


def _took(look_up: LookUp) -> str:
    return f"got {look_up.error}" if look_up.error.startswith(UNANSWERED) else f"took {look_up.seconds:.1f} s"


def proxy_problem(node_name: str, proxies: Collection[str], addresses: Sequence[str]) -> Problem | None:
    """A warning where a proxy would stand between the nodes; ``proxies`` are names of variables that are set.

    NCCL, Gloo and torch's rendezvous use no proxy, and downloads need one, so a proxy alone is no problem. With no
    exception at all, what speaks HTTP or gRPC from node to node goes out by it and fails.
    """
    names = {name.lower(): name for name in proxies}
    if "no_proxy" in names:
        return None
    setting = next((names[name] for name in ("http_proxy", "https_proxy", "all_proxy") if name in names), None)
    if setting is None:
        return None
    return _warning(
        "proxy",
        f"{setting} is set on {node_name} and no_proxy is not: NCCL and torch don't mind, but HTTP and gRPC between "
        "the nodes (metrics, dashboards, Ray) would go by the proxy",
        f'in the cluster file:  launch: {{env: {{no_proxy: "localhost,{",".join(addresses)}"}}}}',
    )


def _remark(code: str, message: str, fix: str) -> Problem:
    return Problem(code=code, message=message, fix=fix, level="info")


def _warning(code: str, message: str, fix: str) -> Problem:
    return Problem(code=code, message=message, fix=fix, level="warning")
