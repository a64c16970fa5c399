"""Lets go, at the end of a run, the supervisors that stayed for each other's word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ncclrun.commands.control import Control
from ncclrun.commands.member import Member
from ncclrun.model.events import Event, Warn
from ncclrun.transport.fleet import for_all
from ncclrun.transport.session import Session


def release(run_id: str, token: str, members: Sequence[Member], control: Control) -> Iterator[Event]:
    """Returns when they have gone: nothing of the run lives once its end is told."""
    sessions = {member.node_rank: member.session for member in members if member.session is not None}

    def question(node_rank: int, session: Session) -> bool:
        return bool(session.call("release", run_id=run_id, node_rank=node_rank, token=token)["gone"])

    # Errors change nothing of what is known: the part never began, or the link has just broken (it leaves in its time).
    for node_rank, gone in for_all(sessions, question, cancelled=lambda: control.level > 2):
        if gone is False:
            text = "the run has ended there, but its supervisor does not"
            yield Warn(text=text, fix=f"ncclrun status {run_id}", node=members[node_rank].node.name)
