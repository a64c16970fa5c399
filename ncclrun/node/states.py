"""The states of a node's part of a run, and which may follow which: pure, for who writes them and who reads them."""

from __future__ import annotations

NEW = "new"
PREPARED = "prepared"
STARTING = "starting"
RUNNING = "running"
STOPPING = "stopping"
ENDED = "ended"

# `prepared` goes back to `new` when it is discarded. A supervisor may die in any state: whoever looks next ends it.
NEXT = {
    NEW: frozenset((PREPARED,)),
    PREPARED: frozenset((NEW, STARTING, ENDED)),
    STARTING: frozenset((RUNNING, STOPPING, ENDED)),
    RUNNING: frozenset((RUNNING, STOPPING, ENDED)),
    STOPPING: frozenset((STOPPING, ENDED)),
    ENDED: frozenset(),
}


def may_follow(old: str, new: str) -> bool:
    """Whether a part that is ``old`` may become ``new``; `running` and `stopping` may come again for another reason."""
    return new in NEXT[old]
