"""Packets that do not fit: which ends differ, or where they vanish, before NCCL hangs at a large message."""

from __future__ import annotations

import pytest

from tests.topologies.lab import Lab
from tests.topologies.resolving import Resolving

pytestmark = pytest.mark.cluster

NAMES = ["eth1", "enp7s0", "ens5f0np0"]
PLAN = {0: ("eth1", "10.50.0.1"), 1: ("enp7s0", "10.50.0.2"), 2: ("ens5f0np0", "10.50.0.3")}


def test_jumbo_frames_that_pass_are_no_trouble(lab: Lab, resolving: Resolving) -> None:
    lab.lan("10.50.0.0/24", NAMES, mtu=9000)
    found = resolving()
    found.is_the_plan(PLAN)
    assert {found.path(host, peer)["mtu"] for host in range(3) for peer in range(3) if host != peer} == {9000}


def test_ends_that_differ_are_named(lab: Lab, resolving: Resolving) -> None:
    lab.lan("10.50.0.0/24", NAMES, mtu=9000)
    lab.ip(1, "link set enp7s0 mtu 1500")
    found = resolving()
    found.is_the_plan(PLAN)
    found.warns("enp7s0", "1500", "9000", "ip link set")
    assert found.path(0, 2)["mtu"] == 9000, found


def test_a_switch_that_swallows_large_packets_is_found(lab: Lab, resolving: Resolving) -> None:
    near = lab.lan("10.50.0.0/24", NAMES[:2], mtu=9000)
    far = lab.lan("10.50.0.0/24", {2: NAMES[2]}, mtu=9000)
    lab.bottleneck(near.bridge, far.bridge, 1500)
    found = resolving()
    found.fails("node2", "ens5f0np0", "1500", "9000", "ip link set")
    path = found.path(0, 2)
    assert (path["told"], 1496 <= path["mtu"] <= 1500) == (False, True), found
    assert found.path(0, 1)["mtu"] == 9000, found


def test_a_router_that_says_so_is_a_warning(lab: Lab, resolving: Resolving) -> None:
    lab.two_routers(NAMES, between=1500)
    found = resolving()
    found.is_the_plan({0: ("eth1", "10.60.0.1"), 1: ("enp7s0", "10.60.0.2"), 2: ("ens5f0np0", "10.60.1.3")})
    found.warns("1500", "9000")
    path = found.path(0, 2)
    assert (path["told"], 1496 <= path["mtu"] <= 1500) == (True, True), found
