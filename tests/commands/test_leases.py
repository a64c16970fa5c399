"""Whom a run has lost, by its leases."""

from __future__ import annotations

import time
from typing import Any

from ncclrun.commands.leases import Leases
from tests.commands.test_follow import Scripted, member

NOW = 1000.0
"""By the follower's clock."""


def two(silent: float) -> tuple[Leases, Any]:
    """Node 0's link has broken, 40 s after its last word; node 1's has not yet, and is ``silent``."""
    session = Scripted()
    session.last_heard = time.monotonic() - silent
    members: Any = [member(0, Scripted()), member(1, session)]
    members[0].session = None
    members[0].unknown_since = NOW - 40
    return Leases("r", members), members


def test_a_node_is_lost_while_another_is_heard() -> None:
    leases, members = two(silent=1.0)
    assert list(leases.warnings(NOW)) == []
    assert [lost for lost, _ in leases.lost(NOW)] == [members[0]]


def test_a_node_is_not_lost_before_the_links_to_all_others_have_broken_too() -> None:
    """All were cut at once, and each link takes its own moment to be given up."""
    leases, members = two(silent=35.0)
    assert list(leases.warnings(NOW)) == []
    assert list(leases.lost(NOW)) == []
    members[1].session, members[1].unknown_since = None, NOW - 35
    (warning,) = leases.warnings(NOW)
    assert warning.text.startswith("no node answers since ")
    assert list(leases.lost(NOW)) == []
