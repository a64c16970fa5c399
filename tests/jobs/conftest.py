"""Fixtures of whole jobs: a bench on three hosts, which are checked to be empty after every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.jobs.bench import Bench, assert_nothing_is_left, make_empty


@pytest.fixture
def make_bench(tmp_path: Path) -> Iterator[Callable[[Cluster], Bench]]:
    """A bench on a cluster of the test's own."""
    benches: list[Bench] = []

    def make(cluster: Cluster) -> Bench:
        benches.append(Bench(cluster, tmp_path))
        return benches[-1]

    yield make
    for bench in benches:
        bench.close()


@pytest.fixture
def bench(cluster3: Cluster, make_bench: Callable[[Cluster], Bench]) -> Iterator[Bench]:
    """Three hosts without a run; after the test nothing of one may live on any of them."""
    for host in cluster3.hosts:
        make_empty(host)
    bench = make_bench(cluster3)
    yield bench
    bench.close()
    cluster3.mend()
    assert_nothing_is_left(cluster3)
