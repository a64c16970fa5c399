"""All faults of all families."""

from __future__ import annotations

from tests.faults import (
    children,
    connections,
    controllers,
    files,
    gloo,
    hosts,
    links,
    output,
    power,
    preparing,
    ranks,
    reach,
    starts,
    supervisors,
    torchrun,
)
from tests.faults.fault import Fault

FAULTS: tuple[Fault, ...] = tuple(
    fault
    for family in (
        controllers,
        links,
        reach,
        connections,
        ranks,
        children,
        supervisors,
        power,
        hosts,
        gloo,
        torchrun,
        files,
        output,
        starts,
        preparing,
    )
    for fault in family.fault.faults
)
