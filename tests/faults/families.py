"""All faults of all families."""

from __future__ import annotations

from tests.faults import connections, controllers, hosts, links, processes, reach, torchrun
from tests.faults.fault import Fault

FAULTS: tuple[Fault, ...] = tuple(
    fault
    for family in (controllers, links, reach, connections, processes, hosts, torchrun)
    for fault in family.fault.faults
)
