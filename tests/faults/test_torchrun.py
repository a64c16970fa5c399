"""Runs survive, or end well under, the faults of `torchrun.py`."""

from __future__ import annotations

import pytest

from tests.faults.fault import Fault
from tests.faults.survive import survive
from tests.faults.torchrun import fault as catalogue
from tests.jobs.bench import Bench

pytestmark = [pytest.mark.cluster, pytest.mark.torch]


@pytest.mark.parametrize("fault", catalogue.faults, ids=str)
def test_it_ends_well(bench: Bench, fault: Fault) -> None:
    pytest.importorskip("torch")
    survive(bench, fault, fault.targets[-1])
