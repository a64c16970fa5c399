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
CR_IS_KEPT_UNTIL: Version = (2, 29, 7)
"""The version before that."""
BOOTSTRAP_SINCE: Version = (2, 23, 4)
"""The line of the log with the interface that was taken is no longer one of INIT."""
BY_FUNCTION_SINCE: Version = (2, 24, 0)
"""NCCL_ALGO and NCCL_PROTO take a list for each function, and a word they don't know fails the job."""
POLICY_WORDS_SINCE: Version = (2, 29, 0)
"""NCCL_CTA_POLICY knows words."""
COMM_ID_INVERTED: tuple[Version, Version] = ((2, 29, 2), (2, 29, 7))
"""First and last version that look for an interface outside of the subnet of NCCL_COMM_ID instead of inside."""
TYPED_SINCE: Version = (2, 30, 5)
"""The variables of the log are trimmed, may have blanks behind commas, and fall back to the default where a word is
unknown (2.30.4 is of the old kind, 2.30.7 of the new)."""
NEWEST: Version = (2, 32, 3)
"""The newest version that was run; what is not known to be older is taken for it."""


def parse(text: str) -> Version | None:
    """``2.27.5``, ``2.27.5+cuda12.4``, ``2.26.2.post1``, ``2.28``; None for what is no version."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def shown(version: Version) -> str:
    """As NCCL writes it."""
    return ".".join(map(str, version))


def release(version: Version) -> str:
    """As people say it: ``2.24``, ``2.22.3``."""
    return shown(version) if version[2] else f"{version[0]}.{version[1]}"
