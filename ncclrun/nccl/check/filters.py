"""What is wrong with a list of interfaces or RDMA devices."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ncclrun.model.words import listed
from ncclrun.nccl.catalogue.known import Known
from ncclrun.nccl.check.remark import Remark
from ncclrun.nccl.values import MOST_HCAS, MOST_INTERFACES, Filter, read_filter
from ncclrun.nccl.version import Version

_HCA = re.compile(r"(mlx[45](_|$)|bnxt_re|hfi1_|irdma|rdmap\d|rocep|roceo|mthca|qedr\d|erdma)")
_INTERFACE = re.compile(r"(eth\d|en[opsx]\w*\d|em\d|p\d+p\d|ib\d+$|bond\d|team\d|wl\w*\d|docker|br-|veth|lo$)")
_PARTS = re.compile(r"[,;|\s]+")


def filter_remarks(known: Known, value: str, version: Version) -> Iterator[Remark]:
    """Of NCCL_SOCKET_IFNAME and its like, and of NCCL_IB_HCA; nothing of an empty value."""
    del version
    if len(value) == 1:
        yield Remark(
            "warning", "one_character", f"a list of one character is ignored: NCCL chooses as if {value} weren't there"
        )
        return
    most = MOST_HCAS if known.name == "NCCL_IB_HCA" else MOST_INTERFACES
    found = read_filter(value, 10_000)
    if found is None:
        return
    shape = tuple(_shape(known, value, found))
    yield from shape
    if shape:
        return
    if len(found.names) > most:
        yield Remark(
            "error", "too_many_names", f"NCCL takes the first {most} names and drops {listed(found.names[most:])}"
        )
    yield from _devices(known, found)


def _shape(known: Known, value: str, found: Filter) -> Iterator[Remark]:
    """Of the first mistake in the writing: the corrected value mends all of them."""
    right = corrected(value)
    dead = [name for name in found.names if re.search(r"[\s;|*?\"'^=]", name)]
    blank = next((name for name in dead if re.search(r"\s", name)), None)
    if blank is not None:
        sees = f"a blank is part of a name: NCCL looks for {blank!r}, and {_nothing(found)}"
        yield Remark("error", "blank_in_list", sees, value=right)
    elif any(";" in name or "|" in name for name in dead):
        sees = f"names are parted by commas alone: NCCL looks for {dead[0]!r}, and {_nothing(found)}"
        yield Remark("error", "separator", sees, value=right)
    elif any("*" in name or "?" in name for name in dead):
        sees = (
            f"NCCL knows no wildcards: it looks for {dead[0]!r}, and {_nothing(found)}; a name takes all that it begins"
        )
        yield Remark("error", "wildcard", sees, value=right)
    elif any("^" in name or "=" in name for name in dead):
        sees = (
            f"^ and = count at the very front alone, for all names: NCCL looks for {dead[0]!r}, and {_nothing(found)}"
        )
        yield Remark("error", "sign_inside", sees, value=right)
    elif dead:
        yield Remark("error", "quotes", f"the quotes are part of the name: NCCL looks for {dead[0]!r}", value=right)
    if not dead and known.name == "NCCL_SOCKET_IFNAME" and found.excluded and found.takes("lo"):
        sees = "a list of your own takes the place of NCCL's, so lo is no longer left out, and NCCL takes it first"
        yield Remark("warning", "lo_let_in", sees, value=f"{value.rstrip(',')},lo")


def _nothing(found: Filter) -> str:
    return "leaves nothing out by it" if found.excluded else "finds nothing by it"


def corrected(value: str) -> str | None:
    """The list that was meant: signs once, in front; commas; no blanks, quotes, wildcards. None: it isn't clear."""
    parts = [part for part in _PARTS.split(value.replace('"', "").replace("'", "")) if part.strip("^=")]
    excluded = [part.startswith(("^", "=^")) for part in parts]
    if not parts:
        return None
    # a,^b: b is not in the list anyhow, unless a takes it too, which nobody writes.
    if not excluded[0]:
        parts = [part for part, out in zip(parts, excluded, strict=True) if not out]
    exact = any("=" in part[:2] for part in parts)
    names = [part.lstrip("^=") for part in parts]
    if not exact:
        names = [name.removesuffix("*") for name in names]
    if any(not name or re.search(r"[*?^=]", name) for name in names):
        return None
    return "^" * excluded[0] + "=" * exact + ",".join(names)


def _devices(known: Known, found: Filter) -> Iterator[Remark]:
    """Names of the other kind, and names that take more than they say."""
    if known.name == "NCCL_SOCKET_IFNAME":
        wrong = [name for name in found.names if _HCA.match(name)]
        sees = "is an RDMA device and no interface: NCCL finds no socket interface by it; it belongs into NCCL_IB_HCA"
    elif known.name == "NCCL_IB_HCA":
        wrong = [name for name in found.names if _INTERFACE.match(name)]
        sees = "is an interface and no RDMA device: NCCL finds no card by it, and goes over TCP without a word"
    else:
        return
    if wrong and not found.excluded:
        yield Remark("warning", "other_device", f"{wrong[0]} {sees}")
    elif not found.exact:
        wide = next((n for n in found.names for other in found.names if other != n and other.startswith(n)), None)
        if wide is not None:
            sees = f"a name takes all that begin with it, so {wide} alone takes both; ={wide} would be that one"
            yield Remark("info", "prefix", sees)


def gloo_remarks(value: str) -> Iterator[Remark]:
    """Of GLOO_SOCKET_IFNAME and TP_SOCKET_IFNAME, which have no signs, prefixes or blanks."""
    bare = ",".join(part.strip().lstrip("=") for part in value.split(",") if part.strip())
    if "^" in value:
        yield Remark("error", "gloo_filter", f"^ means nothing to Gloo: it looks for an interface {value!r} and fails")
    elif "*" in value:
        yield Remark("error", "gloo_filter", f"Gloo takes full names: it looks for an interface {value!r} and fails")
    elif bare != value and bare:
        wrong = next(part for part in value.split(",") if part != part.strip().lstrip("=") or not part)
        sees = f"Gloo takes bare full names with commas between: it looks for an interface {wrong!r}, and fails"
        yield Remark("error", "gloo_filter", sees, value=bare)
