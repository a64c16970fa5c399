"""How NCCL and torch read a value: what they make of a text, mistakes included."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ncclrun.nccl.catalogue.known import Known

TYPED = ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_TIMESTAMP_LEVELS", "NCCL_DEBUG_LEVELS")
"""The variables of the log that are read in another way from TYPED_SINCE on."""
SWITCHES = ("NCCL_SET_THREAD_NAME", "NCCL_WARN_ENABLE_DEBUG_INFO", "NCCL_PARAM_DUMP_ALL")
"""From TYPED_SINCE on these take 1, t, true, 0, f and false, in any case, and nothing else."""
TRUE = ("1", "t", "true", "y", "yes")
FALSE = ("0", "f", "false", "n", "no")
MOST_INTERFACES = 16
MOST_HCAS = 32
OTHER_LEVELS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
"""Words for how far two devices are apart that NCCL knows, those of its documentation among them."""

_INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+))?(.*)", re.DOTALL)
_OCTAL = re.compile(r"0[0-7]*")
_LIMIT = 2**63


@dataclass(frozen=True, slots=True)
class Number:
    """A text read as an integer."""

    value: int | None
    """None: it doesn't fit into 64 bits, and NCCL takes the default."""
    digits: str
    """The part that was read; "" where there is none, which makes 0."""
    rest: str
    """What stands behind it, which is ignored."""
    octal: bool = False
    """A leading 0 made it octal."""


def number(text: str, base: int = 0) -> Number:
    """What strtoll makes of it: ``true`` 0, ``8M`` 8, ``010`` 8; with ``base`` 10 (torch) ``010`` is 10."""
    match = _INTEGER.match(text)
    assert match is not None  # every text matches
    digits, rest = match[1] or "", match[2]
    bare = digits.lstrip("+-")
    octal = False
    if bare[:2].lower() == "0x":
        if base == 0:
            magnitude = int(bare, 16)
        else:
            magnitude, rest, digits = 0, bare[1:] + rest, digits[: -len(bare) + 1]
    elif base == 0 and bare.startswith("0") and bare != "0":
        good = _OCTAL.match(bare)
        assert good is not None  # it starts with 0
        magnitude, octal = int(good[0], 8), True
        digits, rest = digits[: len(digits) - len(bare) + good.end()], bare[good.end() :] + rest
    else:
        # Python refuses to read thousands of digits; from 20 on nothing fits anyway.
        magnitude = int(bare[-4000:] or "0") if len(bare.lstrip("0")) < 20 else _LIMIT * 2
    value = -magnitude if digits.startswith("-") else magnitude
    return Number(value if -_LIMIT <= value < _LIMIT else None, digits, rest, octal)


@dataclass(frozen=True, slots=True)
class Filter:
    """A list of interfaces or RDMA devices as NCCL takes it."""

    excluded: bool
    exact: bool
    names: tuple[str, ...]
    """Without what stands behind a colon."""

    def takes(self, name: str) -> bool:
        """Whether this device is used; an empty list takes all."""
        hit = not self.names or any(name == n if self.exact else name.startswith(n) for n in self.names)
        return hit != self.excluded


def read_filter(text: str, most: int = MOST_INTERFACES) -> Filter | None:
    """``[^][=]name[:port],…``; None for a text of one character or none, which is as good as none."""
    if len(text) < 2:
        return None
    excluded = text.startswith("^")
    rest = text[excluded:]
    exact = rest.startswith("=")
    names = (part.partition(":")[0] for part in rest[exact:].split(","))
    return Filter(excluded, exact, tuple([name for name in names if name][:most]))


def read_words(text: str, separator: str = ",") -> tuple[bool, tuple[str, ...]]:
    """Whether a ``^`` stands in front, and the words as they stand, blanks included; empty ones are passed over."""
    inverted = text.startswith("^")
    return inverted, tuple(word for word in text[inverted:].split(separator) if word)


def read_functions(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """NCCL_ALGO's and NCCL_PROTO's parts: (function, or "" for all; its words)."""
    parts = []
    for part in text.split(";"):
        function, colon, words = part.rpartition(":")
        if part:
            parts.append((function if colon else "", read_words(words)[1]))
    return tuple(parts)


def is_true(text: str) -> bool | None:
    """A switch of torch's; None where it refuses the word."""
    word = text.lower()
    return True if word in TRUE else False if word in FALSE else None


def as_read(known: Known | None, text: str) -> str:
    """The value in one form, for comparisons: ``0x10`` and ``16 # x`` are both ``16``; an empty one is the default."""
    if known is None:
        return text
    if not text:
        return as_read(known, known.default) if known.default else ""
    if known.kind in ("integer", "flag"):
        read = number(text, 10 if known.side == "torch" else 0).value
        if read is None:
            return as_read(known, known.default) if known.default else ""
        return str(int(read != 0) if known.kind == "flag" else read)
    if known.kind == "boolean":
        truth = is_true(text)
        return text if truth is None else str(int(truth))
    if known.kind == "choice":
        return text if known.exact else text.upper()
    if known.kind in ("words", "functions"):
        return _lists_as_read(known, text.upper())
    return text


def _lists_as_read(known: Known, text: str) -> str:
    """The order of words in a list says nothing."""
    if known.kind == "functions":
        return ";".join(sorted(_list_as_read(part, ",") for part in text.split(";")))
    return _list_as_read(text, known.separator)


def _list_as_read(text: str, separator: str) -> str:
    function, colon, words = text.rpartition(":")
    inverted, found = read_words(words, separator)
    return function + colon + "^" * inverted + separator.join(sorted(set(found)))
