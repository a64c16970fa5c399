"""What is wrong with a value where NCCL takes words, paths or addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence

from ncclrun.model.settings import Level
from ncclrun.nccl.catalogue.known import Known
from ncclrun.nccl.catalogue.nearest import distance
from ncclrun.nccl.check.numbers import NO, YES, in_words, integer_remarks
from ncclrun.nccl.check.remark import Remark
from ncclrun.nccl.values import (
    OTHER_LEVELS,
    TYPED,
    number,
    read_functions,
    read_words,
)
from ncclrun.nccl.version import BOOTSTRAP_SINCE, BY_FUNCTION_SINCE, POLICY_WORDS_SINCE, TYPED_SINCE, Version

WORDS_FOR_DEBUG = {
    "ERROR": "WARN",
    "WARNING": "WARN",
    "ERR": "WARN",
    "FATAL": "WARN",
    "DEBUG": "INFO",
    "VERBOSE": "INFO",
}
_TALKATIVE = ("TRACE", "INFO", "WARN", "VERSION")
OLD_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS")
"""What the numbers stand for that were written before there were words; 4 and all above are SYS."""
NETWORKS = {
    **dict.fromkeys(("tcp", "sockets", "ethernet", "eth", "tcpip", "tcp/ip"), "Socket"),
    **dict.fromkeys(("infiniband", "rdma", "roce", "verbs", "ibverbs"), "IB"),
}
FUNCTIONS = ("BROADCAST", "REDUCE", "ALLGATHER", "REDUCESCATTER", "ALLREDUCE")
FOREIGN_ALGORITHMS = ("MSCCL", "SCCL", "CTRAN")
"""Words of vendors' NCCLs."""


def choice_remarks(known: Known, value: str, version: Version) -> Iterator[Remark]:
    if known.name == "NCCL_DEBUG":
        yield from _debug(value, version)
        return
    if known.side == "torch" and value.upper() in known.allowed:
        return
    if known.allowed[0].isdigit():
        yield from integer_remarks(known, value, version)
        return
    fits = [word for word in known.allowed if word.upper() == value.upper()]
    if value in known.allowed or (fits and (not known.exact or fits[0] == known.default)):
        return
    right = (
        fits[0]
        if fits
        else _family(value)
        if known.name.endswith("_FAMILY")
        else _nearest(value.strip(), known.allowed)
    )
    what = f"{'exactly ' if fits else ''}{in_words(known.allowed)}"
    if known.side == "torch":
        yield Remark("error", "not_a_choice", f"torch knows {what} here, and fails at {value!r}", value=right)
    else:
        yield Remark("error", "not_a_choice", f"NCCL knows {what} here, and ignores {value!r}", value=right)


def _debug(value: str, version: Version) -> Iterator[Remark]:
    word = value.strip().upper() if version >= TYPED_SINCE else value.upper()
    if word in ("VERSION", "WARN", "INFO", "ABORT", "TRACE") or (word == "ATTN" and version >= (2, 31, 0)):
        return
    bare = value.strip().upper()
    said = re.findall(r"[A-Z0-9]+", bare)
    levels = [level for level in _TALKATIVE if level in said]
    if len(levels) > 2:  # a choice as documents write it: which one is meant only the writer knows
        yield Remark("error", "debug_silent", f"NCCL knows one level, not a list: of {value!r} it makes none")
        return
    right = WORDS_FOR_DEBUG.get(bare) or next(iter(levels), None)
    if right is None and bare.lower() in (*NO, "0"):
        yield Remark("info", "debug_silent", "NCCL knows no such level and says nothing, as without it")
        return
    right = (
        right
        or _nearest(bare, _TALKATIVE)
        or ("INFO" if bare.lower() in (*YES, "all", "max") or bare.isdigit() else "WARN")
    )
    yield Remark(
        "error", "debug_silent", f"NCCL knows no level {value!r} and says nothing, errors neither", value=right
    )


def level_remarks(known: Known, value: str, version: Version) -> Iterator[Remark]:
    del version
    if value in OTHER_LEVELS:
        return
    if value[0].isdigit():
        level = OLD_LEVELS[min(number(value).value or 0, len(OLD_LEVELS) - 1)]
        yield Remark("info", "old_number", f"numbers are the old way of saying it: NCCL reads {level}")
        return
    upper = value.strip().upper()
    right = next((level for level in OTHER_LEVELS if upper.startswith(level)), None)
    sees = f"NCCL knows {in_words(known.allowed)} here, in capitals, and ignores {value!r}"
    yield Remark("error", "not_a_choice", sees, value=right)


def words_remarks(known: Known, value: str, version: Version) -> Iterator[Remark]:
    inverted, words = read_words(value, known.separator)
    if known.name == "NCCL_CTA_POLICY" and version < POLICY_WORDS_SINCE:
        if not value.strip().isdigit():
            yield Remark("error", "word_for_number", "NCCL knows the words from 2.29 on, and reads 0 here before")
        return
    typed = version >= TYPED_SINCE
    unknown = [w for w in words if (w.strip() if typed else w).upper() not in known.allowed]
    if not unknown or (known.name == "NCCL_CTA_POLICY" and value.isdigit()):
        yield from _hidden(known, inverted, words, version)
        return
    parts = [part for part in re.split(r"[,|;\s]+", value.lstrip("^").upper()) if part]
    meant = [part if part in known.allowed else _nearest(part, known.allowed) or _longer(known, part) for part in parts]
    right = known.separator.join(dict.fromkeys(part for part in meant if part))
    sees = f"NCCL knows no {unknown[0]!r} here"
    if known.name in TYPED:
        sees += ", and takes its default instead of the whole list" if typed else ": that word counts for nothing"
    # Of a list of subsystems the words that are known hold beside the one that is not.
    level: Level = "warning" if known.name == "NCCL_DEBUG_SUBSYS" else "error"
    yield Remark(level, "not_a_choice", sees, value="^" * inverted + right if right else None)


def _hidden(known: Known, inverted: bool, words: Sequence[str], version: Version) -> Iterator[Remark]:
    """Who asks for INIT wants to see the interface."""
    asked = {word.strip().upper() for word in words}
    alone = not inverted and "INIT" in asked and not asked & {"BOOTSTRAP", "ALL"}
    if known.name == "NCCL_DEBUG_SUBSYS" and version >= BOOTSTRAP_SINCE and alone:
        sees = "from 2.23.4 on INIT doesn't tell which interface NCCL takes; BOOTSTRAP beside it does"
        yield Remark("info", "bootstrap_hidden", sees)


def functions_remarks(known: Known, value: str, version: Version) -> Iterator[Remark]:
    by_function = version >= BY_FUNCTION_SINCE
    parts = read_functions(value) if by_function else (("", read_words(value)[1]),)
    allowed = (*(word.upper() for word in known.allowed), *FOREIGN_ALGORITHMS)
    unknown = [word for _, words in parts for word in words if word.upper() not in allowed]
    what = "fails" if by_function else "passes over it"
    if not by_function and re.search("[:;]", value) and unknown:
        sees = f"lists for single operations came with 2.24: this NCCL knows no {unknown[0]!r}, and passes over it"
        yield Remark("error", "not_a_choice", sees)
        return
    if by_function and (right := _parted(value, parts)):
        level: Level = "warning" if all(not function for function, _ in parts) else "error"
        sees = "words are parted by commas, and operations by semicolons (ring;allreduce:tree)"
        yield Remark(level, "separator", sees, value=right)
        return
    for function, _ in parts:
        if function and function.upper() not in FUNCTIONS:
            bare = function.replace("_", "")
            right = value.replace(function, bare) if bare.upper() in FUNCTIONS else None
            yield Remark("error", "not_a_choice", f"NCCL knows no operation {function!r} here, and {what}", value=right)
            return
    if unknown and re.search(r"[|/+\s]", value):
        sees = f"words are parted by commas, without blanks: NCCL knows no {unknown[0]!r}, and {what}"
        yield Remark("error", "separator", sees, value=_relisted(known, value))
    elif unknown:
        sees = f"NCCL knows no {unknown[0]!r} here, and {what}; it knows {in_words(known.allowed)}"
        yield Remark("error", "not_a_choice", sees, value=_relisted(known, value))


def _parted(value: str, parts: Sequence[tuple[str, Sequence[str]]]) -> str | None:
    """The list with the other separators, where it makes sense only so."""
    if re.fullmatch(r"[A-Za-z_]+:\^?\w+(,[A-Za-z_]+:\^?\w+)+", value):
        return value.replace(",", ";")
    if len(parts) > 1 and all(not function for function, _ in parts) and "^" not in value[1:]:
        return value.replace(";", ",")
    return None


def _relisted(known: Known, value: str) -> str | None:
    """The list with commas and known words; None where a word can't be guessed."""
    out = []
    for part in value.split(";"):
        function, colon, words = part.strip().rpartition(":")
        inverted = words.startswith("^")
        meant = [_nearest(w, known.allowed) for w in re.split(r"[,|/+\s]+", words.lstrip("^")) if w]
        if not meant or None in meant:
            return None
        out.append(function.strip() + colon + "^" * inverted + ",".join(word for word in meant if word))
    return ";".join(out)


def _nearest(word: str, allowed: Sequence[str]) -> str | None:
    """The allowed word that this one stands for; None where none or several are near."""
    upper = word.strip("\"'").upper()
    same = [name for name in allowed if name.upper() == upper]
    near = same or [name for name in allowed if len(name) > 3 and distance(upper, name.upper()) == 1]
    return near[0] if len(near) == 1 else None


def _longer(known: Known, word: str) -> str | None:
    """The subsystem that was written out or cut short: NETWORK is NET, ALLOCATION is ALLOC, BOOT is BOOTSTRAP."""
    if known.name != "NCCL_DEBUG_SUBSYS":
        return None
    begun = [name for name in known.allowed if len(word) > 2 and (word.startswith(name) or name.startswith(word))]
    return max(begun, key=len, default=None)


def _family(word: str) -> str | None:
    """``ipv4``, ``inet6``, ``4`` in NCCL's own words."""
    upper = re.sub(r"[^A-Z46]", "", word.upper()).removeprefix("AF").removeprefix("PF")
    return {"IPV4": "AF_INET", "4": "AF_INET", "INET": "AF_INET", "INET4": "AF_INET", "IP4": "AF_INET"}.get(upper) or {
        "IPV6": "AF_INET6",
        "6": "AF_INET6",
        "INET6": "AF_INET6",
        "IP6": "AF_INET6",
    }.get(upper)


def path_remarks(known: Known, value: str, version: Version) -> Iterator[Remark]:
    del version
    if value != value.strip():
        sees = f"blanks are part of the path: NCCL looks for {value!r}"
        yield Remark("error", "blank_in_path", sees, value=value.strip() or None)
    elif value.startswith("~"):
        yield Remark("error", "tilde", "NCCL takes ~ for a plain character: it looks for a directory of that name")
    elif known.name == "NCCL_DEBUG_FILE" and "%p" not in value and not value.startswith("/dev/"):
        yield Remark(
            "info",
            "shared_file",
            "processes that share this file overwrite each other's lines; %h and %p make one a process",
        )


def address_remarks(known: Known, value: str, version: Version) -> Iterator[Remark]:
    del version
    found = re.fullmatch(r"(\[[^\]]+\]|[^:\s]+):(\d{1,6})", value)
    if found is None:
        what = "fails" if known.name == "NCCL_COMM_ID" else "leaves the service out"
        yield Remark("error", "not_an_address", f"NCCL takes address:port here ([address]:port for IPv6), and {what}")
    elif int(found[2]) > 65535:
        yield Remark("warning", "out_of_range", f"there is no port {found[2]}: NCCL takes {int(found[2]) % 65536}")


def subnet_remarks(value: str) -> Iterator[Remark]:
    try:
        subnet = ipaddress.ip_network(value, strict=False)
    except ValueError:
        yield Remark("error", "not_a_subnet", "NCCL takes one subnet here, as 10.1.0.0/16, and ignores this")
        return
    _, slash, length = value.partition("/")
    if not slash:
        sees = "NCCL takes a subnet with the bits of its prefix, as 10.1.0.0/16, and ignores this"
        yield Remark("error", "not_a_subnet", sees)
    elif not length.isdigit():
        sees = "NCCL takes the number of bits behind the /, and ignores a mask"
        yield Remark("error", "not_a_subnet", sees, value=f"{subnet.network_address}/{subnet.prefixlen}")


def network_remarks(value: str) -> Iterator[Remark]:
    bare = value.strip().strip("\"'")
    right = NETWORKS.get(bare.lower())
    looks = f"it looks for a network named {value!r}"
    if bare != value:
        sees = f"blanks and quotes are part of the name: {looks}, and fails"
        yield Remark("error", "quotes", sees, value=right or bare or None)
    elif right is not None:
        yield Remark("warning", "not_a_choice", f"NCCL's own networks are IB and Socket: {looks}", value=right)
    elif "," in value or value.lower() in ("none", "auto", "default", "any", "all"):
        yield Remark("warning", "not_a_choice", f"NCCL takes the name of one network here: {looks}, and fails")


def policy_remarks(value: str) -> Iterator[Remark]:
    if not re.fullmatch(r"AUTO|ALL|MAX:\d+", value, re.IGNORECASE):
        yield Remark("error", "not_a_choice", f"NCCL knows AUTO, ALL and MAX:N here, and ignores {value!r}")
