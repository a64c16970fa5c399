"""The marked block that ncclrun keeps at the top of a conf file, where its settings go over all that stands below."""

from __future__ import annotations

from collections.abc import Sequence

PUSHED = "Leave it as it is: a push writes it anew. To take it away: ncclrun nccl restore CLUSTER"


def put(rest: bytes, settings: Sequence[tuple[str, str]], note: str = PUSHED) -> bytes:
    """A conf file with these settings, (name, value), in front of the bytes of ``rest``, whatever they are.

    ``note`` is one line for the reader of the file. Raises PlanError for a setting that no conf file can carry.
    """
    raise NotImplementedError


def take(data: bytes, where: str) -> bytes:
    """The file without our block, byte for byte; all of it where there is none.

    ``where`` names the file in the PlanError that is raised where the block is not as it was written or where it was
    put, so that lines of somebody else's could be lost.
    """
    raise NotImplementedError


def settings(data: bytes) -> tuple[tuple[str, str], ...] | None:
    """What the block at the top of the file holds now; None where there is none."""
    raise NotImplementedError


def edited(data: bytes) -> str:
    """What somebody has done to our block, in words (``line 3 was changed``); "" where it is as it was written."""
    raise NotImplementedError
