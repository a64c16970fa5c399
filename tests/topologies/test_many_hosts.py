"""64 hosts, each with a card that leads nowhere: every pair is proven, and the cost is said."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import cluster as namespaces
from tests.cluster.cluster import Cluster
from tests.topologies import lab as labs
from tests.topologies.conftest import why_no_nccl
from tests.topologies.lab import Lab
from tests.topologies.resolving import Resolving

pytestmark = pytest.mark.cluster

MANY = 64
FEWER = 16
"""What the kernel's table of neighbours has room for as it is: all hosts of the test share it."""


@pytest.fixture
def count() -> Iterator[int]:
    """How many hosts there can be. The table is made for one machine; it is made larger for the time of the test."""
    settings = [Path(f"/proc/sys/net/ipv4/neigh/default/gc_thresh{number}") for number in (1, 2, 3)]
    if not all(os.access(path, os.W_OK) for path in settings):
        yield FEWER
        return
    before = [path.read_text() for path in settings]
    for path in settings:
        path.write_text(f"{MANY * MANY * 8}")
    yield MANY
    for path, text in zip(settings, before, strict=True):
        path.write_text(text)


@pytest.fixture
def many(count: int) -> Iterator[Lab]:
    """So many hosts with the data network of the test cluster, and a dead card each."""
    if reason := namespaces.why_not() or why_no_nccl():
        pytest.skip(reason)
    with Cluster(count, decoys=False) as cluster, labs.lab(cluster) as lab:
        lab.dead_end(["ens1"] * count, [f"10.40.0.{host + 1}/24" for host in range(count)], mtu=9000)
        yield lab


def test_all_pairs_are_proven_and_dead_cards_are_passed_over(many: Lab, count: int, tmp_path: Path) -> None:
    resolving = Resolving(many, tmp_path)
    found = resolving()
    found.is_the_plan({host.index: (host.data_interface, host.data_address) for host in many.hosts})
    pairs = count * (count - 1)
    [probed] = found.done.of("probed")
    assert (probed["nodes"], probed["pairs"], probed["scheme"]) == (count, pairs, "all pairs")
    # Three addresses (SSH's, the dead card's, the good one), tried from each of the three and as the kernel routes.
    assert probed["connections"] == pairs * 3 * 4
    # Only the good address answers, to its like and to what the kernel sends.
    assert probed["reached"] == pairs * 2
