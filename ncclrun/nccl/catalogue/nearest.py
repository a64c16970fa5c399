"""The name that was meant by one that NCCL doesn't know."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ncclrun.nccl.catalogue.names import KNOWN

MISNAMED = {
    "NCCL_IFNAME": "NCCL_SOCKET_IFNAME",
    "NCCL_IFACE": "NCCL_SOCKET_IFNAME",
    "NCCL_INTERFACE": "NCCL_SOCKET_IFNAME",
    "NCCL_NET_IFNAME": "NCCL_SOCKET_IFNAME",
    "NCCL_NET_INTERFACE": "NCCL_SOCKET_IFNAME",
    "NCCL_NETWORK_INTERFACE": "NCCL_SOCKET_IFNAME",
    "GLOO_IFNAME": "GLOO_SOCKET_IFNAME",
    "GLOO_INTERFACE": "GLOO_SOCKET_IFNAME",
    "NCCL_HCA": "NCCL_IB_HCA",
    "NCCL_IB_IFNAME": "NCCL_IB_HCA",
    "NCCL_IB_INTERFACE": "NCCL_IB_HCA",
    "NCCL_IB_TRAFFIC_CLASS": "NCCL_IB_TC",
    "NCCL_IB_SERVICE_LEVEL": "NCCL_IB_SL",
    "NCCL_GID_INDEX": "NCCL_IB_GID_INDEX",
    "NCCL_GDR_LEVEL": "NCCL_NET_GDR_LEVEL",
    "NCCL_GDR_READ": "NCCL_NET_GDR_READ",
    "NCCL_LOG_LEVEL": "NCCL_DEBUG",
    "NCCL_LOGLEVEL": "NCCL_DEBUG",
    "NCCL_DEBUG_LEVEL": "NCCL_DEBUG",
    "NCCL_P2P_READ": "NCCL_P2P_READ_ENABLE",
    "NCCL_NETWORK": "NCCL_NET",
    "NCCL_RDMA_DISABLE": "NCCL_IB_DISABLE",
    "NCCL_CONF": "NCCL_CONF_FILE",
    "NCCL_CONFIG_FILE": "NCCL_CONF_FILE",
}
"""Names that people write, too far from the right one to be slips of the hand."""
_SYNONYMS = {
    **dict.fromkeys(("INTERFACE", "INTERFACES", "IFACE", "IFACES"), "IFNAME"),
    **dict.fromkeys(("DEVICE", "DEVICES"), "HCA"),
    **dict.fromkeys(("ALGORITHM", "ALGORITHMS"), "ALGO"),
    **dict.fromkeys(("PROTOCOL", "PROTOCOLS", "PROTOCAL"), "PROTO"),
    **dict.fromkeys(("SUBSYSTEM", "SUBSYSTEMS"), "SUBSYS"),
    **dict.fromkeys(("COUNT", "RETRIES"), "CNT"),
    "TOPOLOGY": "TOPO",
    "BUFFER": "BUFF",
    "SHMEM": "SHM",
    "ORDER": "ORDERING",
}
"""Words that people write for those of NCCL."""
_OPPOSITE = {"ENABLE": "DISABLE", "ENABLED": "DISABLE", "DISABLE": "ENABLE", "DISABLED": "ENABLE"}
_MOST_LONGER = 3
_OTHER_LIBRARY = re.compile(r"[A-MO-Z]?CCL_")
"""HCCL, RCCL, oneCCL: libraries of the same kind, whose names differ from NCCL's by one letter."""
_CANDIDATES = tuple(name for name, known in KNOWN.items() if known.side not in ("plugin", "tool") and not known.removed)


@dataclass(frozen=True, slots=True)
class Near:
    """What was meant."""

    names: tuple[str, ...]
    """More than one where it can't be said which."""
    sure: bool
    """A slip of one letter, of the case, of the order of words; nothing else can be meant."""
    inverted: bool = False
    """It says the opposite: …_ENABLE for …_DISABLE."""
    guess: bool = False
    """Worth a question, and not to be put in its place."""


@lru_cache
def near(name: str) -> Near | None:
    """The known names that an unknown one may stand for; None where none is near."""
    wanted = name.upper().replace("-", "_").strip()
    if _OTHER_LIBRARY.match(wanted):
        return None
    if wanted in MISNAMED:
        return Near((MISNAMED[wanted],), sure=False)
    bare = wanted.removeprefix("TORCH_").replace("_", "")
    same = _those(lambda known: known.removeprefix("TORCH_").replace("_", "") == bare)
    words = wanted.split("_")
    if not same:
        same = _those(lambda known: sorted(known.split("_")) == sorted(words))
    if same:
        return Near(same, sure=True)
    return _opposite(words) or _slip(wanted, words) or _synonym(words) or _cut_short(wanted, words)


def _those(fits: Callable[[str], bool]) -> tuple[str, ...]:
    return tuple(known for known in _CANDIDATES if fits(known))


def _opposite(words: list[str]) -> Near | None:
    other = "_".join(_OPPOSITE.get(word, word) for word in words)
    return Near((other,), sure=False, inverted=True) if other in _CANDIDATES else None


def _synonym(words: list[str]) -> Near | None:
    other = "".join(_SYNONYMS.get(word, word) for word in words)
    same = _those(lambda known: known.replace("_", "") == other)
    return Near(same, sure=False) if same else None


def _cut_short(wanted: str, words: list[str]) -> Near | None:
    """The beginning of a name; not of one that ends with what turns the meaning round."""
    if len(words) < 3:
        return None
    longer = _those(
        lambda known: (
            known.startswith(wanted)
            and KNOWN[known].documented
            and not KNOWN[known].deprecated
            and known.rpartition("_")[2] not in _OPPOSITE
        )
    )
    return Near(longer, sure=False, guess=True) if 0 < len(longer) <= _MOST_LONGER else None


def _slip(wanted: str, words: list[str]) -> Near | None:
    found: dict[int, list[str]] = {}
    for known in _CANDIDATES:
        slips = _slips(words, known.split("_"))
        if slips is None and len(wanted) > 8 and abs(len(wanted) - len(known)) <= 1:
            slips = (
                1
                if distance(wanted.replace("_", ""), known.replace("_", "")) == 1 and _same_letters(wanted, known)
                else None
            )
        # Undocumented names are rarely meant: only the smallest slip counts.
        if slips is not None and (slips == 1 or KNOWN[known].documented):
            found.setdefault(slips, []).append(known)
    if not found:
        return None
    fewest = min(found)
    names = tuple(found[fewest])
    return Near(names, sure=fewest == 1 and len(names) == 1 and KNOWN[names[0]].documented)


def _same_letters(one: str, other: str) -> bool:
    """Nothing was exchanged for something else: a letter too many or too few."""
    return len(one.replace("_", "")) != len(other.replace("_", ""))


def _slips(words: list[str], known: list[str]) -> int | None:
    """Letters to change, two at most, where every word is recognised; None where one is another word."""
    if len(words) != len(known):
        return None
    total = 0
    for word, right in zip(words, known, strict=True):
        if word == right:
            continue
        slips = distance(word, right)
        # Of a short word every letter counts: NET is not NVB, and IB_SL is not IB_TL.
        short = min(len(word), len(right)) <= 3
        if short and (slips > 1 or (len(word) == len(right) and sorted(word) != sorted(right))):
            return None
        total += slips
        if slips * 3 > len(right) and not short and sorted(word) != sorted(right):
            return None
    return total if 0 < total <= 2 else None


def distance(one: str, other: str) -> int:
    """Letters to put in, leave out, exchange or swap with their neighbour, to come from one to the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return row[-1]
