"""Finds entries of the catalogue by a pattern, as people type it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from ncclrun.nccl.catalogue.known import Known
from ncclrun.nccl.catalogue.names import ALL, KNOWN, find
from ncclrun.nccl.catalogue.nearest import near

NEAR = 3


def search(pattern: str | None) -> Sequence[Known]:
    """All entries, those that a glob fits, or those whose name holds the text, and behind them those that speak of it.

    A name in full, in any case, finds that one alone; a family's name is found by any of its members.
    """
    if not pattern:
        return ALL
    wanted = pattern.strip().upper().replace("-", "_")
    if wanted in KNOWN:
        return (KNOWN[wanted],)
    if any(sign in wanted for sign in "*?["):
        return _fitting(wanted) or _fitting(f"*_{wanted}")
    begins = re.compile(rf"(^|_){re.escape(wanted)}")
    named = sorted((known for known in ALL if wanted in known.name.upper()), key=lambda k: not begins.search(k.name))
    # A piece of a name is not looked for in sentences, where NCCL_DEBUG would find all that mention it.
    spoken = re.compile(rf"(?<!\w){re.escape(pattern.strip())}", re.IGNORECASE)
    others = [] if "_" in wanted else [known for known in ALL if known not in named and spoken.search(known.meaning)]
    family = find(wanted) if not named and not others else None
    return (family,) if family else (*named, *others)


def _fitting(glob: str) -> tuple[Known, ...]:
    return tuple(known for known in ALL if fnmatchcase(known.name.upper(), glob))


def nearest(pattern: str) -> tuple[str, ...]:
    """Names that may have been meant by one that finds nothing; () where none is near."""
    found = near(pattern)
    if found:
        return found.names[:NEAR]
    return tuple(get_close_matches(pattern.upper(), KNOWN, NEAR))
