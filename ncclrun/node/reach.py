"""Whether the master of a run can be reached from one of our addresses, and whether it is the one that is meant."""

from __future__ import annotations

from typing import Any

from .addresses import endpoint
from .dial import WORDS
from .probe import Target, probe
from .refusal import Refusal

CODES = {
    "bad_source": "bad_address",
    "stranger": "wrong_machine",
    "forbidden": "no_route",
    "no_network": "no_route",
    "reset": "refused",
    "error": "unreachable",
}


def reach(address: str, port: int, token: str, source: str | None, timeout: float) -> dict[str, Any]:
    """Connects and checks the answer to a challenge; ``seconds`` is what the whole took.

    Refuses with `refused`, `timeout`, `no_route`, `unreachable`, `bad_address` (a source that is not ours) or
    `wrong_machine` (somebody answered who does not know the run's token).
    """
    endpoint(address, port)
    where = f"{address} port {port}" + (f" from {source}" if source else "")
    links = probe(token, -1, [Target(0, address, port, (source,), ())], timeout)["links"]
    if not links:
        raise Refusal("unreachable", f"{where}: the two can't meet, one is IPv4 and the other IPv6")
    outcome = links[0]["outcome"]
    if outcome not in ("reached", "other"):
        words = WORDS.get(outcome, links[0]["detail"])
        raise Refusal(CODES.get(outcome, outcome), f"{where}: {words}")
    return {"seconds": links[0]["seconds"]}
