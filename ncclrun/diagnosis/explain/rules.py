"""Faults that no single line tells: several lines, several hosts, or a line that is missing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_address

from ncclrun.diagnosis.explain.scan import Hits, LogScan, Place
from ncclrun.model.words import listed
from ncclrun.nccl.lines import bootstrap_line, net_line

_TYPED = re.compile(r"NCCL_SOCKET_IFNAME=['\"]?([\w.,:=^-]+)")


def rule_hits(logs: Sequence[LogScan]) -> Iterator[tuple[str, LogScan, Hits]]:
    """What the logs tell together: a signature's id, the log to which it is laid, and the lines."""
    for log in logs:
        yield from _comm_id(log)
        yield from _never_ready(log)
        yield from _never_told(log)
    yield from _same_address(logs)
    yield from _differing(logs, "network", "net-mixed", "Using network ")
    yield from _differing(logs, "version", "ver-differs", "NCCL version ")
    yield from _nobody_is_host(logs)


def _hits(places: Sequence[Place], like: Hits | None = None) -> Hits:
    speakers = {(place.host, place.rank) for place in places}
    before = like or Hits()
    return Hits(len(places), list(places), speakers, before.went, before.steps)


def _comm_id(log: LogScan) -> Iterator[tuple[str, LogScan, Hits]]:
    loopback, asked = log.hits.get("if-lo"), log.facts.get("comm-id")
    if loopback and asked and "Bootstrap" in loopback.places[0].text:
        yield "commid-229-bug", log, _hits([asked.places[0], loopback.places[0]], loopback)


def _never_ready(log: LogScan) -> Iterator[tuple[str, LogScan, Hits]]:
    started = log.facts.get("start") or log.facts.get("network")  # old versions say no more before they are ready
    if started and not log.progress.went and not log.progress.steps:
        yield "hang-init", log, started


def _never_told(log: LogScan) -> Iterator[tuple[str, LogScan, Hits]]:
    typed = log.facts.get("typed")
    if typed and "bootstrap" in log.facts and "told" not in log.facts:
        first = typed.places[0]
        named = _TYPED.search(first.text)
        first = replace(first, known={"value": named[1]} if named else {})
        yield "if-ignored", log, _hits([first, log.facts["bootstrap"].places[0]], log.facts["bootstrap"])


def _same_address(logs: Sequence[LogScan]) -> Iterator[tuple[str, LogScan, Hits]]:
    """Loopback addresses are the same everywhere and have a finding of their own."""
    where: dict[str, dict[str, tuple[LogScan, Place, str]]] = defaultdict(dict)
    for log in logs:
        for kind in ("bootstrap", "sockets"):
            for place in log.facts.get(kind, Hits()).places:
                for interface, address in _addresses(place.text):
                    if place.host and not ip_address(address).is_loopback:
                        where[address].setdefault(place.host, (log, place, interface))
    for address, hosts in where.items():
        if len(hosts) > 1:
            log, _, interface = next(iter(hosts.values()))
            known = {"address": address, "interface": interface, "hosts": listed(list(hosts))}
            places = [replace(place, known=known) for _, place, _ in hosts.values()]
            yield "if-same-address", log, _hits(places, log.facts.get("sockets") or log.facts.get("bootstrap"))


def _addresses(text: str) -> list[tuple[str, str]]:
    place, net = bootstrap_line(text), net_line(text)
    found = [(place.interface, place.address)] if place else []
    if net is not None and net.transport == "Socket":
        found += list(net.devices)
    return [(interface, address) for interface, address in found if _is_address(address)]


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:  # some other text in this place proves nothing
        return False
    return True


def _differing(logs: Sequence[LogScan], fact: str, name: str, word: str) -> Iterator[tuple[str, LogScan, Hits]]:
    """One word behind ``word`` that is not the same on all hosts."""
    said: dict[str, tuple[LogScan, Place]] = {}
    hosts: dict[str, list[str]] = defaultdict(list)
    for log in logs:
        for place in log.facts.get(fact, Hits()).places:
            value = (place.text.partition(word)[2].split() or [""])[0].partition("+")[0]
            if place.host and value:
                said.setdefault(value, (log, place))
                if place.host not in hosts[value]:
                    hosts[value].append(place.host)
    if len(said) > 1:
        known = {"hosts": "; ".join(f"{value} on {listed(names)}" for value, names in hosts.items())}
        log = next(iter(said.values()))[0]
        yield name, log, _hits([replace(place, known=known) for _, place in said.values()], log.facts[fact])


def _nobody_is_host(logs: Sequence[LogScan]) -> Iterator[tuple[str, LogScan, Hits]]:
    """All hosts, of several, fail to reach the rendezvous, that of its address among them."""
    failed = [(log, log.hits["rdzv-conn"]) for log in logs if "rdzv-conn" in log.hits]
    hosts = {host or log.name for log, hits in failed for host, _ in hits.speakers}
    silent = [log for log in logs if log.rank is None and "rdzv-conn" not in log.hits and log.lines]
    if len(hosts) > 1 and not silent:
        known = {"hosts": listed(sorted(hosts))}
        yield "rdzv-not-host", failed[0][0], _hits([replace(h.places[0], known=known) for _, h in failed])
