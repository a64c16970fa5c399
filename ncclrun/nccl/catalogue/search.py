"""Finds entries of the catalogue by a pattern, as people type it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from ncclrun.nccl.catalogue.known import Known
from ncclrun.nccl.catalogue.names import ALL, KNOWN, find
from ncclrun.nccl.catalogue.nearest import Near, near

NEAR = 3
_SAYS_NOTHING = "a an and do does for how i in is it my of off on one or set the to turn use what which"
STOP_WORDS = frozenset(_SAYS_NOTHING.split())
"""Of a question, what says nothing of the variable."""


def search(pattern: str | None) -> Sequence[Known]:
    """All entries, those that a glob fits, or those that all words fit: by their names first, then by their meanings.

    A word fits a name where a part of it (between ``_``) begins so. A name in full, in any case, finds that one alone,
    and several find each; a family's name is found by any of its members.
    """
    words = _words(pattern or "")
    if not words:
        return ALL
    names = [_name(word) for word in words]
    if all(name in KNOWN for name in names):
        return tuple(KNOWN[name] for name in dict.fromkeys(names))
    if len(words) == 1:
        if any(sign in names[0] for sign in "*?["):
            return _fitting(names[0]) or _fitting(f"*_{names[0]}")
        if not _fits(words[0]):
            family = find(names[0])
            return (family,) if family and misnamed(names[0]) is None else ()
    each = [_fits(word) for word in words]
    found = [known for known in ALL if all(known.name in fits for fits in each)]
    return tuple(sorted(found, key=lambda known: -sum(fits[known.name] for fits in each)))


def _words(pattern: str) -> list[str]:
    words = pattern.split()
    return [word for word in words if word.lower() not in STOP_WORDS] or words


def _name(word: str) -> str:
    return word.upper().replace("-", "_")


def _fits(word: str) -> dict[str, int]:
    """Name of each entry that a word fits -> 2 where a part of the name is the word, 1 where one begins so, else 0."""
    begins = re.compile(rf"(?:^|_){re.escape(_name(word))}(?P<more>[^_]*)")
    # A piece of a name is not looked for in sentences, where NCCL_DEBUG would find all that mention it.
    spoken = None if "_" in word else re.compile(rf"(?<!\w){re.escape(word)}", re.IGNORECASE)
    found = {}
    for known in ALL:
        if parts := begins.search(known.name.upper()):
            found[known.name] = 1 if parts["more"] else 2
        elif spoken and spoken.search(known.meaning):
            found[known.name] = 0
    return found


def _fitting(glob: str) -> tuple[Known, ...]:
    return tuple(known for known in ALL if fnmatchcase(known.name.upper(), glob))


def misnamed(pattern: str) -> Near | None:
    """What was meant by a name that nothing has, or by its words; None where nobody can tell."""
    wanted = "_".join(_name(word) for word in _words(pattern))
    return near(wanted) or (None if wanted.startswith("NCCL_") else near(f"NCCL_{wanted}"))


def nearest(pattern: str) -> tuple[str, ...]:
    """Names that may have been meant by a pattern that finds nothing; () where none is near."""
    found = misnamed(pattern)
    if found:
        return found.names[:NEAR]
    return tuple(get_close_matches("_".join(_name(word) for word in _words(pattern)), KNOWN, NEAR))
