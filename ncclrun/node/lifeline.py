"""What holds the supervisors of a run together without a controller: accounts, silence, and what follows from them."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from .refusal import Refusal

BEAT_SECONDS = 1.0
REDIAL_SECONDS = 1.0
# A connection on which nothing comes for so long is made anew; that alone is no reason to stop anything.
DROP_SECONDS = 10.0
# After its own end a node waits this long for node 0 to have heard of it, and node 0 for those that it told to stop.
LINGER_SECONDS = 5.0
# How often a supervisor says whom it hears: each second (BEAT_SECONDS) while somebody misses two beats.
PEERS_SECONDS = 3.0
SILENT_SECONDS = 2.0
LONGEST_REASON = 1000


class Terms(NamedTuple):
    """The lifeline of a run, from a `start` request.

    ``address`` and ``port`` are node 0's, ``source`` is this node's own address, ``hosts`` has the names of all nodes.
    ``lease`` is how many seconds another node may be silent while no controller is heard either.
    """

    address: str
    port: int
    lease: float
    source: str
    hosts: list[str]


class Stop(NamedTuple):
    """An order to stop. ``grace`` None: each node's own. ``origin``: node_rank of the node that ``reason`` speaks of,
    None: somebody asked for it.

    ``lost``: that node was not heard any more, which is all that is known.
    """

    how: str
    grace: float | None
    reason: str
    origin: int | None
    lost: bool = False


class Account(NamedTuple):
    """All that a supervisor says of itself: running, stopping or ended, and why.

    ``stop`` is what it was asked; from node 0 it is the order to all.
    """

    state: str
    failed: bool
    reason: str
    stop: Stop | None = None

    def as_json(self) -> dict[str, Any]:
        """As it travels."""
        stop = None if self.stop is None else {**self.stop._asdict(), "reason": self.stop.reason[:LONGEST_REASON]}
        return {**self._asdict(), "reason": self.reason[:LONGEST_REASON], "stop": stop}


def account(value: dict[str, Any]) -> Account:
    """What another one said of itself. Raises KeyError, TypeError where it is no account."""
    stop = value["stop"]
    known = {name: value[name] for name in ("state", "failed", "reason")}
    return Account(**known, stop=None if stop is None else Stop(**{name: stop[name] for name in Stop._fields}))


def terms(request: dict[str, Any]) -> Terms | None:
    """The lifeline that a `start` request asks for, None for none, or a refusal."""
    asked = request.get("lifeline")
    if asked is None:
        return None
    try:
        hosts = [str(name) for name in asked["hosts"]]
        found = Terms(
            str(asked["address"]), int(asked["port"]), float(asked["lease"]), str(asked.get("source") or ""), hosts
        )
    except (TypeError, KeyError, ValueError):
        raise Refusal("bad_request", "lifeline must be {address, port, lease, source, hosts}") from None
    return found if found.lease > 0 and len(hosts) > 1 else None


def named(hosts: list[str], node_rank: int) -> str:
    """A node for people."""
    return f"node {node_rank} ({hosts[node_rank]})" if 0 <= node_rank < len(hosts) else f"node {node_rank}"


def gone(origin: int) -> Stop:
    """The order where a supervisor is known to have ended without a word."""
    return Stop("term", None, "its supervisor is gone", origin, lost=True)


def silent(origin: int, seconds: float) -> Stop:
    """The order where a node was not heard for its lease, and no controller either."""
    since = time.strftime("%H:%M:%S", time.gmtime(time.time() - seconds))
    reason = f"silent for {seconds:.0f} s (since {since} UTC), and no ncclrun is there"
    return Stop("term", None, reason, origin, lost=True)


def verdict(origin: int, said: Account | None) -> Stop | None:
    """What another node's own account means for this one: whoever does not go on ends the run for all."""
    if said is None or said.state == "running" or (said.state == "ended" and not said.failed and not said.reason):
        return None
    if said.stop is not None and not said.failed:  # it was asked to: by a controller, or because of another node
        return Stop("term", None, said.reason, said.stop.origin, said.stop.lost)
    return Stop("term", None, said.reason or "it ended", origin)


class Beat:
    """When an account is due: each second, and at once when it has changed."""

    def __init__(self) -> None:
        self._next = 0.0
        self._last: Account | None = None

    def due(self, mine: Account, now: float) -> bool:
        """Whether to say it now; True only once for each time."""
        if now < self._next and mine == self._last:
            return False
        self._next, self._last = now + BEAT_SECONDS, mine
        return True

    def at_once(self) -> None:
        """Somebody new listens."""
        self._next = 0.0


class Lifeline:
    """What both ends have: the supervisor calls `turn` at each turn of its loop and obeys what comes back."""

    def turn(self, mine: Account, now: float, controller_heard: float) -> Stop | None:
        """Says what is due and judges; ``now`` and ``controller_heard`` on the supervisor's clock.

        A Stop comes back once for each strength of an order, or never.
        """
        raise NotImplementedError

    def leave(self, mine: Account, now: float, controller_heard: float, *, released: bool = False) -> bool:
        """To be called instead of `turn` after the end, until it is True: nobody needs us any more.

        ``released``: a controller knows how all have ended, so that nobody needs to hear it from us.
        """
        raise NotImplementedError

    def peers(self, now: float) -> dict[int, float | None] | None:
        """Seconds of silence of all that were ever heard (None: it has ended); None where that is not known."""
        return None
