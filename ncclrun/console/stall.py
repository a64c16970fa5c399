"""A run that says nothing, as people read it: who waits where, who differs, and where all stacks are."""

from __future__ import annotations

from ncclrun.console.notes import Note
from ncclrun.console.words import duration
from ncclrun.diagnosis.stacks import who
from ncclrun.model.stallevents import Stalled
from ncclrun.model.words import listed

GROUPS = 3
"""Of so many groups beside the one that most are in the frames are shown."""
FRAMES = 6


def stall_notes(event: Stalled) -> list[Note]:
    """The verdict; the frames of those that differ, or of all where they are in one place; what mends it."""
    notes = [Note("warning", f"no output from any rank for {duration(event.seconds)}: {event.verdict}")]
    for group in (event.groups[1:] or event.groups)[:GROUPS]:
        if group.frames:
            more = len(group.frames) - FRAMES
            rest = [f"… and {more} more"] if more > 0 else []
            notes.append(Note("more", "\n  ".join([f"{who(group)}:", *group.frames[:FRAMES], *rest])))
    if event.silent:
        notes.append(Note("more", f"{listed(event.silent)} did not tell: unknown"))
    where = event.file or "not kept, for this machine's disk does not take them"
    notes.append(Note("more", f"all stacks: {where}"))
    fixes = dict.fromkeys(line for group in event.groups for line in group.fix.splitlines())
    return [*notes, *(Note("fix", fix) for fix in fixes)]
