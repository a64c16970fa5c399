"""What is wrong with a name: unknown, old, too new, or in a place where nobody reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ncclrun.model.settings import Level
from ncclrun.nccl.catalogue.foreign import SCRIPTS_OWN
from ncclrun.nccl.catalogue.known import Known
from ncclrun.nccl.catalogue.names import KNOWN
from ncclrun.nccl.catalogue.nearest import Near, near
from ncclrun.nccl.check.remark import Remark
from ncclrun.nccl.values import number
from ncclrun.nccl.version import NEWEST, Version, release, shown

NCCL_LIKE = re.compile(r"(TORCH_)?NCCL|GLOO_|TP_SOCKET", re.IGNORECASE)
_WHO = {"torch": "torch", "gloo": "Gloo", "tensorpipe": "TensorPipe"}
_READERS = {
    "torch": "torch reads it from the environment, before NCCL reads its files",
    "gloo": "Gloo reads it from the environment, and knows nothing of NCCL's files",
    "tensorpipe": "TensorPipe reads it from the environment, and knows nothing of NCCL's files",
    "tool": "it is read from the environment, by others than NCCL",
}


def meant(name: str) -> str | None:
    """The one known name that an unknown one stands for, with the same meaning; None where it isn't clear."""
    found = near(name)
    return found.names[0] if found and len(found.names) == 1 and not (found.inverted or found.guess) else None


def unknown_remarks(name: str, value: str, *, family: bool, conf: bool) -> Iterator[Remark]:
    """Of a name that is not in the catalogue, or only as one of a ``family`` that has others."""
    found = near(name)
    if found is None:
        if not family:
            yield Remark("info", "unknown_name", "no variable of NCCL's or torch's that we know: they pass over it")
        return
    yield _near_remark(found, value)


def _near_remark(found: Near, value: str) -> Remark:
    right = found.names[0]
    if found.inverted:
        flipped = {0: "1", 1: "0"}.get(number(value).value or 0) if value.strip() in ("0", "1") else None
        sees = f"NCCL knows no such variable, and passes over it; {right} says the opposite"
        return Remark("warning", "unknown_name", sees, name=right if flipped else None, value=flipped)
    who = _WHO.get(KNOWN[right].side, "NCCL")
    if len(found.names) > 1 or found.guess:
        return Remark("warning", "unknown_name", f"{who} passes over it: is {' or '.join(found.names[:3])} meant?")
    sees = f"{who} knows no such variable, and passes over it: {right} is meant"
    return Remark("error" if found.sure else "warning", "unknown_name", sees, name=right)


def known_remarks(known: Known, version: Version | None, *, conf: bool) -> Iterator[Remark]:
    """Of a name that is in the catalogue."""
    if conf and known.name == "NCCL_CONF_FILE":
        yield Remark(
            "error", "no_effect", "NCCL has chosen its files before it reads this; it counts in the environment"
        )
    elif conf and not known.conf:
        harmless = known.side == "tool" and known.name not in ("LD_LIBRARY_PATH", "LD_PRELOAD")
        if known.family:  # when one of so many is read nobody knows
            yield Remark("info", "too_late", f"in a conf file it may come too late: {_READERS[known.side]}")
        else:
            level: Level = "info" if harmless else "error"
            yield Remark(level, "too_late", f"in a conf file nobody sees it: {_READERS[known.side]}")
        return
    if known in SCRIPTS_OWN:
        yield Remark("info", "not_read", f"NCCL does not read it: {known.meaning}")
    elif known.removed and (version or NEWEST) >= known.removed:
        why = f": {known.deprecated}" if known.deprecated else ""
        # Without a version it may be meant for one that still reads it.
        gone = f"NCCL reads it no more since {shown(known.removed)}{why}"
        yield Remark("warning" if version else "info", "removed", gone)
    elif known.deprecated and not _successor_is_newer(known, version or NEWEST):
        old = f"; {known.instead} is the name now" if known.instead and known.instead not in known.deprecated else ""
        yield Remark("info", "deprecated", f"{known.deprecated}{old}; the old one still works")
    elif version and known.since and version < known.since:
        yield Remark(
            "warning", "too_new", f"NCCL {shown(version)} doesn't read it: it came with {release(known.since)}"
        )


def _successor_is_newer(known: Known, version: Version) -> bool:
    """What has taken its place is not there yet."""
    since = KNOWN[known.instead].since if known.instead else None
    return since is not None and since > version
