"""NCCL's version numbers, and the versions from which it reads its settings in another way."""

from __future__ import annotations

import re

Version = tuple[int, int, int]

NAMED_CONF_SINCE: Version = (2, 23, 4)
"""$NCCL_CONF_FILE is read, in place of ~/.nccl.conf."""
HOME_BY_VARIABLE_SINCE: Version = (2, 30, 3)
"""~/.nccl.conf is looked for in $HOME; before, in the home of the passwd entry."""
CR_IS_CUT_SINCE: Version = (2, 30, 3)
"""A carriage return at the end of a line is no part of the value."""
NEWEST: Version = (2, 32, 3)
"""The newest version that was run; what is not known to be older is taken for it."""


def parse(text: str) -> Version | None:
    """``2.27.5``, ``2.27.5+cuda12.4``, ``2.26.2.post1``, ``2.28``; None for what is no version."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def shown(version: Version) -> str:
    """As NCCL writes it."""
    return ".".join(map(str, version))
