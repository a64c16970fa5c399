"""What is wrong with one value: what no kind of value may hold, then the rules of its kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from ncclrun.nccl.catalogue.known import Kind, Known
from ncclrun.nccl.check.filters import filter_remarks, names_remarks
from ncclrun.nccl.check.numbers import boolean_remarks, integer_remarks
from ncclrun.nccl.check.remark import Remark
from ncclrun.nccl.check.words import (
    address_remarks,
    choice_remarks,
    functions_remarks,
    level_remarks,
    network_remarks,
    path_remarks,
    policy_remarks,
    subnet_remarks,
    words_remarks,
)
from ncclrun.nccl.values import TYPED, number
from ncclrun.nccl.version import TYPED_SINCE, Version

_BY_KIND: Mapping[Kind, Callable[[Known, str, Version], Iterator[Remark]]] = {
    "integer": integer_remarks,
    "flag": integer_remarks,
    "boolean": boolean_remarks,
    "choice": choice_remarks,
    "level": level_remarks,
    "words": words_remarks,
    "functions": functions_remarks,
    "path": path_remarks,
    "address": address_remarks,
    "interfaces": filter_remarks,
    "hcas": filter_remarks,
    "names": names_remarks,
}
_BY_NAME: Mapping[str, Callable[[str], Iterator[Remark]]] = {
    "NCCL_IB_ADDR_RANGE": subnet_remarks,
    "NCCL_NET": network_remarks,
    "NCCL_NETDEVS_POLICY": policy_remarks,
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LENIENT = ("integer", "flag", "text")
"""Numbers are read up to the first character that is none; of a free text nobody knows what it may hold."""


def value_remarks(known: Known, value: str, version: Version) -> Iterator[Remark]:
    """Of a value that is not empty; ``version`` is NCCL's."""
    comment = re.match(r"(.*?)\s+#", value)
    control = _CONTROL.search(value.strip() if known.name in TYPED and version >= TYPED_SINCE else value)
    if control and known.kind not in _LENIENT:
        yield _control(value, control[0])
    elif comment and known.kind not in _LENIENT:
        sees = f"the value is all of {value!r}: what looks like a comment is part of it"
        yield Remark("error", "inline_comment", sees, value=comment[1])
    elif len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" and _minds_quotes(known, value):
        yield Remark("error", "quotes", f"the quotes are part of the value: it is {value}", value=value[1:-1])
    elif known.loads_code and known.kind == "text" and value[0] in "~\"'":
        yield from _library(value)
    else:
        if known.kind in _BY_KIND:
            yield from _BY_KIND[known.kind](known, value, version)
        if known.name in _BY_NAME:
            yield from _BY_NAME[known.name](value)


def _control(value: str, character: str) -> Remark:
    word = {"\n": "a line feed", "\r": "a carriage return", "\t": "a tab"}.get(character, "a control character")
    parts = [part for part in _CONTROL.split(value) if part.strip()]
    right = parts[0] if len(parts) == 1 else ",".join(parts) if parts and "," not in value else None
    return Remark("error", "control_character", f"{word} is part of the value, and nothing matches it", value=right)


def _library(value: str) -> Iterator[Remark]:
    """Of the name of a library to load."""
    if value[0] == "~":
        yield Remark("error", "tilde", "nobody expands ~ here: no such library is found")
    elif len(value) > 2 and value[0] == value[-1]:
        yield Remark("error", "quotes", f"the quotes are part of the value: it is {value}", value=value[1:-1])


def _minds_quotes(known: Known, value: str) -> bool:
    """A quoted 0 is 0, as is all that is no number; of a free text nobody knows."""
    return known.kind != "text" and not (known.kind in ("integer", "flag") and number(value[1:-1]).value == 0)
