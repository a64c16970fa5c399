"""Addresses that every host has and nobody reaches take one line, not a row each."""

from __future__ import annotations

from typing import Any

from ncclrun.console.leftout import left_out_text, split
from ncclrun.console.resolved import candidates_text
from ncclrun.model.netevents import Judged


def row(interface: str, address: str, node_rank: int = 0, **more: Any) -> Judged:
    fields = {"prefix": 24, "verdict": "rejected", "reason": "ends in this host", **more}
    return Judged(node=f"gpu{node_rank}", node_rank=node_rank, interface=interface, address=address, **fields)


NOISE = [
    row("lo", "127.0.0.1"),
    row("lo", "::1"),
    row("eth1", "fe80::1"),
    row("docker0", "172.17.0.1"),
    row("docker0", "fe80::2"),
    row("br-0123456789ab", "172.18.0.1"),
]
CARDS = [
    row("eth1", "10.0.0.1", verdict="chosen"),
    row("eth0", "192.168.1.1"),
    row("br0", "192.168.2.1"),
    row("eth2", "169.254.1.1"),
]


def test_cards_keep_their_rows() -> None:
    assert split([*NOISE, *CARDS]) == (CARDS, NOISE)


def test_each_kind_is_named_once() -> None:
    assert left_out_text(NOISE, 1) == (
        "left out: loopback (lo), IPv6 link-local (fe80::…), containers and VMs (docker0, br-0123456789ab)"
    )


def test_says_when_it_is_so_everywhere() -> None:
    both = [row("lo", "127.0.0.1", 0), row("lo", "127.0.0.1", 1)]
    assert left_out_text(both, 2) == "left out on all nodes: loopback (lo)"
    assert left_out_text(both, 3) == "left out: loopback (lo)"


def test_what_was_chosen_has_a_row() -> None:
    chosen = [row("lo", "127.0.0.1", verdict="chosen"), row("docker0", "172.17.0.1", verdict="usable")]
    assert split(chosen) == (chosen, [])


def test_an_interface_that_is_shown_is_not_said_to_be_left_out() -> None:
    shown, folded = split([row("lo", "127.0.0.1", verdict="chosen"), row("lo", "::1"), row("docker0", "172.17.0.1")])
    assert left_out_text(folded, 1, shown) == "left out: loopback (::1), containers and VMs (docker0)"
    text = candidates_text([*shown, *folded], None)
    assert text.endswith("left out: loopback (::1), containers and VMs (docker0)\n")


def test_what_somebody_wished_for_has_a_row() -> None:
    wanted = row("docker0", "172.17.0.1", reason="interface has no carrier")
    against = "not the interface docker0 that the cluster file wants"
    others = [row("lo", "127.0.0.1", reason=against), row("virbr0", "192.168.122.1", reason=against)]
    assert split([wanted, *others]) == ([wanted], others)


def test_the_line_stands_below_the_table_and_folds_with_the_terminal() -> None:
    lines = candidates_text([*NOISE, *CARDS], 40).replace("\x1b[2m", "").replace("\x1b[0m", "").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("left out"))
    assert max(map(len, lines[at:])) <= 40
    assert " ".join(lines[at:]) == left_out_text(NOISE, 1)
