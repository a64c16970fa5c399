"""Fixtures of the topologies: three hosts that have nothing in common but SSH, and a lab between them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import cluster as namespaces
from tests.cluster.cluster import Cluster
from tests.topologies import lab as labs
from tests.topologies.lab import Lab
from tests.topologies.resolving import Resolving


def why_no_nccl() -> str:
    """Why NCCL can't be asked on this machine; "" when it can."""
    if importlib.util.find_spec("nvidia") and importlib.util.find_spec("nvidia.nccl"):
        return ""
    return "the topologies need NCCL in this Python: pip install --no-deps nvidia-nccl-cu12==2.27.5"


@pytest.fixture(scope="session")
def _bare3() -> Iterator[Cluster]:
    if reason := namespaces.why_not() or why_no_nccl():
        pytest.skip(reason)
    with Cluster(3, decoys=False) as cluster:
        labs.make_bare(cluster)
        yield cluster


@pytest.fixture
def lab(_bare3: Cluster) -> Iterator[Lab]:
    """No network yet between three hosts."""
    with labs.lab(_bare3) as lab:
        yield lab


@pytest.fixture
def resolving(lab: Lab, tmp_path: Path) -> Iterator[Resolving]:
    """Asks the product for the network of the lab."""
    resolving = Resolving(lab, tmp_path)
    yield resolving
    resolving.close()
