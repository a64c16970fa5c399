"""What is wrong with a value where NCCL or torch takes a number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod

from ncclrun.model.settings import Level
from ncclrun.nccl.catalogue.known import Known
from ncclrun.nccl.check.remark import Remark
from ncclrun.nccl.values import SWITCHES, is_true, number
from ncclrun.nccl.version import TYPED_SINCE, Version

YES = ("true", "t", "yes", "y", "on", "enable", "enabled")
ONLY_ONE = ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE")
"""Flags that are compared with 1; of all others any number but 0 is yes."""
NO = ("false", "f", "no", "n", "off", "disable", "disabled", "none")
_TIME = re.compile(r"TIMEOUT|SEC$|MILSEC")
_BEHIND = re.compile(r"[#;&|()\[\]{}\\\"'`]|//|--")
"""What begins a comment, or closes something, behind a number: it changes nothing."""
UNSIGNED = "NCCL_SOCKET_MAGIC"
"""Takes all of 64 bits, in hexadecimal (asked of 2.32.3; a decimal number beyond 63 bits makes it the default)."""
_KEPT = {
    "NCCL_IB_DISABLE": "InfiniBand stays on",
    "NCCL_P2P_DISABLE": "GPUs go on reaching each other directly",
    "NCCL_SHM_DISABLE": "shared memory stays on",
    "NCCL_PXN_DISABLE": "PXN stays on",
    "NCCL_NVB_DISABLE": "paths through a third GPU stay on",
    "NCCL_IGNORE_CPU_AFFINITY": "the CPUs that the job was bound to still count",
}
"""What a word in place of 1 leaves as it is."""


def integer_remarks(known: Known, value: str, version: Version) -> Iterator[Remark]:
    """Of a value that is not empty."""
    if known.name in SWITCHES and version >= TYPED_SINCE:
        yield from _switch(known, value)
        return
    torch = known.side == "torch"
    who = "torch" if torch else "NCCL"
    read = number(value, 10 if torch else 0)
    rest = read.rest.strip()
    if read.value is None and known.name == UNSIGNED and re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", value):
        return
    if read.value is None:
        yield Remark("error", "out_of_range", f"the number is too large: {who} takes its default")
    elif not read.digits:
        yield from _word_for_number(known, value)
    elif read.octal and (decimal := _decimal(value)) is not None and int(decimal) != read.value:
        yield Remark("error", "octal", f"a leading 0 makes it octal: NCCL reads {read.value}", value=decimal)
    elif rest:
        yield _garbage(known, read.value, rest)
    else:
        yield from _range(known, read.value, version)


def _decimal(text: str) -> str | None:
    """The number without its leading zeros; None for one of no sensible length."""
    found = re.fullmatch(r"\s*([+-]?)0*(\d{1,18})\s*", text)
    return found[1] + found[2] if found else None


def _garbage(known: Known, value: int, rest: str) -> Remark:
    """Behind the number; what changes its meaning is a mistake, a comment or a stray sign is not."""
    who = "torch" if known.side == "torch" else "NCCL"
    unit = re.fullmatch(r"([kmgt])i?b?", rest, re.IGNORECASE)
    if unit:
        meant = None if _TIME.search(known.name) else str(value * 1024 ** ("kmgt".index(unit[1].lower()) + 1))
        return Remark("error", "number_garbage", f"{who} knows no units: it reads {value}", value=meant)
    own = (
        rest.lower() in ("b", "bytes")
        or (known.name.endswith("_SEC") and rest == "s")
        or (known.name.endswith(("_MSEC", "_MILSEC")) and rest == "ms")
    )
    sees = f"{who} reads {value}, and drops {rest!r}"
    meant_number = _reckoned(value, rest)
    if meant_number is not None and (known.high is None or meant_number <= known.high):
        return Remark("error", "number_garbage", sees, value=str(meant_number))
    wrong = not own and not _BEHIND.match(rest) and re.search(r"[A-Za-z1-9]", rest)
    return Remark("warning" if wrong else "info", "number_garbage", sees)


def _reckoned(value: int, rest: str) -> int | None:
    """The number of which ``value`` is but the beginning: ``4_194_304``, ``4*1024``, ``1<<22``, ``1e6``."""
    if re.fullmatch(r"([,_']\d{3})+", rest):
        return int(str(value) + re.sub(r"\D", "", rest))
    if re.fullmatch(r"(\s*\*\s*\d{1,10})+", rest):
        return value * prod(map(int, re.findall(r"\d+", rest)))
    if (power := re.fullmatch(r"\s*\*\*\s*(\d{1,2})", rest)) and abs(value) < 100:
        return int(value ** int(power[1]))
    if shift := re.fullmatch(r"\s*<<\s*(\d{1,2})", rest):
        return value << int(shift[1])
    if (power := re.fullmatch(r"(?:\.(\d{1,9}))?[eE]\+?(\d{1,2})", rest)) and len(power[1] or "") <= int(power[2]):
        return int(f"{value}{(power[1] or '').ljust(int(power[2]), '0')}")
    return None


def _word_for_number(known: Known, value: str) -> Iterator[Remark]:
    word = value.strip().strip("\"'“”‘’").lower()
    right = "1" if word in YES or word == "1" else "0" if word in NO or word == "0" else None
    if known.side == "torch":
        yield Remark("error", "word_for_number", f"torch takes a number here, and fails at {value!r}", value=right)
        return
    sees = f"NCCL reads 0 here, as for any word: {_KEPT.get(known.name, f'{known.name} is 0')}"
    if right == "0":
        yield Remark("info", "word_for_number", f"{sees}, as was meant")
    else:
        yield Remark("error", "word_for_number", sees, value=right)


def _switch(known: Known, value: str) -> Iterator[Remark]:
    word = value.lower()
    if word not in ("1", "t", "true", "0", "f", "false"):
        right = "1" if word.strip() in (*YES, "1") else "0" if word.strip() in (*NO, "0") else None
        level: Level = "info" if right == known.default else "error"
        sees = f"NCCL takes 1, T, TRUE, 0, F or FALSE here, and for anything else its default, {known.default}"
        yield Remark(level, "not_a_choice", sees, value=right if level == "error" else None)


def _range(known: Known, value: int, version: Version) -> Iterator[Remark]:
    if known.kind == "flag":
        if known.name in ONLY_ONE and value not in (0, 1):
            sees = f"NCCL takes 1 alone for yes here, and not {value}: {_KEPT[known.name]}"
            yield Remark("error", "out_of_range", sees, value="1")
        return  # of the others all but 0 is yes
    who = "torch" if known.side == "torch" else "NCCL"
    if known.allowed and str(value) not in known.allowed:
        yield Remark("warning", "out_of_range", f"{who} reads {value}, and knows {in_words(known.allowed)} here")
    elif known.name == "NCCL_IB_TIMEOUT" and (value > 31 or value == 0):
        yield Remark("info", "out_of_range", f"{value} is for ever: NCCL never gives a lost packet up")
    elif (known.low is not None and value < known.low) or (known.high is not None and value > known.high):
        bounds = f"{known.low} to {known.high}" if known.high is not None else f"{known.low} and more"
        yield Remark("warning", "out_of_range", f"{who} reads {value}, and takes {bounds} here")
    elif known.name == "NCCL_IB_GID_INDEX" and value >= 0 and version >= (2, 21, 0):
        sees = "NCCL finds the right GID by itself from 2.21 on; a fixed index is wrong as soon as an address changes"
        yield Remark("info", "gid_index", sees)


def boolean_remarks(known: Known, value: str, version: Version) -> Iterator[Remark]:
    """Of a switch of torch's."""
    del version, known
    if is_true(value) is None:
        word = value.strip().lower()
        right = "1" if word in (*YES, "1") else "0" if word in (*NO, "0") else None
        yield Remark("error", "not_a_choice", f"torch takes 0 or 1 here, and fails at {value!r}", value=right)


def in_words(allowed: Sequence[str]) -> str:
    """``0, 1 and 2``."""
    *most, last = allowed
    return f"{', '.join(most)} and {last}" if most else last
