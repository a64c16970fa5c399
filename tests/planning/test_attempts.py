"""Which attempts a node makes: all of them while they are few, the likely ones when they are not."""

from __future__ import annotations

from ncclrun.model.facts import Address
from ncclrun.planning.attempts import MOST_ATTEMPTS, Target, targets

TWO = [[Address("10.0.0.1", 24), Address("10.1.0.1", 24)], [Address("10.0.0.2", 24), Address("10.1.0.2", 24)]]


def test_every_address_is_tried_from_every_source_and_as_the_kernel_routes() -> None:
    assert targets(0, TWO, {1}) == (
        Target(1, "10.0.0.2", (None, "10.0.0.1", "10.1.0.1")),
        Target(1, "10.1.0.2", (None, "10.0.0.1", "10.1.0.1")),
    )


def test_only_partners_are_tried() -> None:
    three = [[Address(f"10.0.0.{node}", 24)] for node in range(3)]
    assert [target.peer for target in targets(0, three, {2})] == [2]


def test_families_do_not_mix() -> None:
    addresses = [[Address("10.0.0.1", 24)], [Address("10.0.0.2", 24), Address("fd00::2", 64)]]
    assert targets(0, addresses, {1}) == (Target(1, "10.0.0.2", (None, "10.0.0.1")),)


def test_of_very_many_attempts_the_likely_sources_remain() -> None:
    many = [[Address(f"10.{card}.{node}.1", 16) for card in range(10)] for node in range(64)]
    found = targets(0, many, set(range(1, 64)))
    assert {len(target.sources) for target in found} == {2}
    assert all(target.sources[1] == f"10.{target.address.split('.')[1]}.0.1" for target in found)
    assert sum(len(target.sources) for target in found) <= MOST_ATTEMPTS


def test_of_very_many_attempts_to_other_subnets_one_source_remains() -> None:
    routed = [[Address(f"10.{node}.{card}.1", 24) for card in range(10)] for node in range(64)]
    assert {target.sources for target in targets(0, routed, set(range(1, 64)))} == {(None, "10.0.0.1")}
