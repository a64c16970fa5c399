"""Random faults for so many minutes: ``python -m tests.faults.soak --minutes 60 [--seed N] [--only TEXT]``.

Prints its seed first and a table last; the exit code is 1 when something did not hold, which is then printed in whole.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.cluster import Cluster
from tests.faults.families import FAULTS
from tests.faults.fault import Fault
from tests.faults.survive import Times, survive
from tests.jobs.bench import Bench, hear_signals


@dataclass
class Row:
    """What came of one fault, over all its rounds."""

    held: int = 0
    failed: int = 0
    times: list[Times] = field(default_factory=list)


def soak(faults: list[Fault], minutes: float, seed: int, directory: Path) -> dict[Fault, Row]:
    """Each round hits a node of a fresh run with a fault, both by chance; every fault comes once before any twice.

    A Ctrl-C ends it early.
    """
    chance = random.Random(seed)
    rows = {fault: Row() for fault in faults}
    deadline = time.monotonic() + 60 * minutes
    with contextlib.suppress(KeyboardInterrupt), Cluster(3) as cluster:
        number = 0
        while time.monotonic() < deadline:
            for fault in chance.sample(faults, len(faults)):
                if time.monotonic() > deadline:
                    break
                number += 1
                _round(cluster, fault, chance.choice(fault.targets), rows[fault], directory / str(number))
    return rows


def _round(cluster: Cluster, fault: Fault, target: int, row: Row, directory: Path) -> None:
    directory.mkdir()
    began = time.monotonic()
    try:
        row.times.append(survive(Bench(cluster, directory), fault, target))
    except Exception:  # noqa: BLE001 - whatever did not hold is told, and the next round is of a fresh run
        row.failed += 1
        print(traceback.format_exc(), flush=True)
        word = "DID NOT HOLD"
    else:
        row.held += 1
        word = "held"
    print(
        f"{directory.name:>5}  {word:<12}  {time.monotonic() - began:5.1f} s  node {target}  {fault.name}", flush=True
    )


def table(rows: dict[Fault, Row]) -> str:
    """Markdown: what was done, what must be seen, how often it was, and how long it took; only what came up."""
    lines = ["| fault | expected | seen | noticed after, s | clean after, s |", "|---|---|---|---|---|"]
    for fault, row in rows.items():
        if not row.held + row.failed:
            continue
        noticed = _spread([times.noticed for times in row.times])
        clean = _spread([times.clean for times in row.times])
        seen = f"{row.held} of {row.held + row.failed}"
        lines.append(f"| {fault.name} | {expected(fault)} | {seen} | {noticed} | {clean} |")
    return "\n".join(lines)


def expected(fault: Fault) -> str:
    """In words."""
    seen = fault.seen
    code = " or ".join(map(str, (seen.code,) if isinstance(seen.code, int) else seen.code))
    if fault.goes_on:
        return "training goes on, 0"
    if fault.before:
        return f"nothing starts, {code}"
    return f"{code}, {seen.how or 'no cause'}"


def _spread(seconds: list[float | None]) -> str:
    """``median (most)``."""
    known = [value for value in seconds if value is not None]
    return f"{statistics.median(known):.1f} ({max(known):.1f})" if known else ""


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description="Random faults under real runs.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", metavar="TEXT", default="", help="faults with this in their name")
    options = parser.parse_args()
    hear_signals()
    faults = [fault for fault in FAULTS if options.only in fault.name]
    if not faults:
        parser.error(f"no fault has {options.only!r} in its name")
    print(f"seed {options.seed}, {len(faults)} faults, {options.minutes:g} minutes", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        rows = soak(faults, options.minutes, options.seed, Path(directory))
    print(f"\n{table(rows)}")
    sys.exit(1 if any(row.failed for row in rows.values()) else 0)


if __name__ == "__main__":
    main()
