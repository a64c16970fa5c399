"""Finds entries of the catalogue by a pattern, as people type it."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from ncclrun.nccl.catalogue.known import Known
from ncclrun.nccl.catalogue.names import ALL, KNOWN, find
from ncclrun.nccl.catalogue.nearest import near

NEAR = 3


def search(pattern: str | None) -> Sequence[Known]:
    """All entries, those that a glob fits, or those whose name holds the text; else those whose meaning does.

    A name in full, in any case, finds that one alone; a family's name is found by any of its members.
    """
    if not pattern:
        return ALL
    wanted = pattern.upper()
    if wanted in KNOWN:
        return (KNOWN[wanted],)
    glob = any(sign in wanted for sign in "*?[")
    found = [k for k in ALL if (fnmatchcase(k.name.upper(), wanted) if glob else wanted in k.name.upper())]
    if not found and not glob:
        family = find(wanted)
        found = [family] if family else [k for k in ALL if pattern.lower() in k.meaning.lower()]
    return tuple(found)


def nearest(pattern: str) -> tuple[str, ...]:
    """Names that may have been meant by one that finds nothing; () where none is near."""
    found = near(pattern)
    if found:
        return found.names[:NEAR]
    return tuple(get_close_matches(pattern.upper(), KNOWN, NEAR))
