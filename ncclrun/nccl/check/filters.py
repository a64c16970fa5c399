"""What is wrong with a list of interfaces or RDMA devices."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from ncclrun.model.words import listed
from ncclrun.nccl.catalogue.known import Known
from ncclrun.nccl.check.remark import Remark
from ncclrun.nccl.values import MOST_HCAS, MOST_INTERFACES, Filter, read_filter
from ncclrun.nccl.version import Version

_HCA = re.compile(r"(mlx[45](_|$)|bnxt_re|hfi1_|irdma|rdmap\d|rocep|roceo|mthca|qedr\d|erdma)")
_INTERFACE = re.compile(r"(eth\d|en[opsx]\w*\d|em\d|p\d+p\d|ib\d+$|bond\d|team\d|wl\w*\d|docker|br-|veth|lo$)")
_PARTS = re.compile(r"[,;|/\s]+")
_GROUP = re.compile(r"([\w.:-]*)(?:\{([\w,.]+)\}|\[([\w,-]+)\])([\w.:-]*)")
"""``mlx5_{0,1}``, ``mlx5_[0-3]``: nobody expands them behind a ``=``."""
_MOST_OF_GROUP = 64
_NAME = re.compile(r"(?!\d+$)\w[\w.:@-]*")
_QUOTES = "\"'`“”‘’«»"
_BEHIND_PORT = re.compile(r"[;|/]|\s\S")
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:", re.IGNORECASE)
_NO_NAMES = ("auto", "any", "all", "none", "default", "null", "true", "false", "yes", "no", "localhost", "hostname")
"""Words that other programs know in place of a name."""
_FAULTS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"\s"), "blank_in_list", "a blank is part of a name"),
    (re.compile(r"[*?\[\]{}]"), "wildcard", "NCCL knows no patterns; a name takes all that begin with it"),
    (re.compile(r"[;|/]"), "separator", "names are parted by commas alone"),
    (re.compile(r"[\^=]"), "sign_inside", "^ and = count at the very front alone, for all names"),
    (re.compile(r"^[!~-]"), "other_sign", "^ is the one sign that leaves names out"),
    (re.compile(f"[{_QUOTES}]"), "quotes", "the quotes are part of the name"),
    (re.compile(r"[()\\]"), "stray_character", "no name holds that"),
)
"""What no name holds, the id of that, and what is wrong."""


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
    if not shape and known.name == "NCCL_SOCKET_IFNAME" and found.excluded and found.takes("lo"):
        sees = "a list of your own takes the place of NCCL's, so lo is no longer left out, and NCCL takes it first"
        shape = (Remark("warning", "lo_let_in", sees, value=f"{value.rstrip(',')},lo"),)
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
    if not found.names:
        any_one = "any device" if known.name == "NCCL_IB_HCA" else "any interface, lo first"
        comes = "leaves all out, and finds none" if found.excluded else f"takes {any_one}"
        yield Remark("error", "no_names", f"there is no name in it: NCCL {comes}")
        return
    whole = value.lstrip("^=").split(",")
    if wrong := next((name for name in whole if _address(name) or name.startswith("/")), None):
        yield Remark("error", "not_a_name", f"NCCL takes names here, no addresses or paths: it looks for {wrong!r}")
        return
    for pattern, kind, why in _FAULTS:
        if wrong := next((name for name in found.names if pattern.search(name)), None):
            comes = "leaves nothing out by it" if found.excluded else "finds nothing by it"
            yield Remark("error", kind, f"{why}: NCCL looks for {wrong!r}, and {comes}", value=corrected(value))
            return
    if wrong := next((part for part in whole if _BEHIND_PORT.search(part.partition(":")[2])), None):
        sees = f"names are parted by commas alone: NCCL takes {wrong.partition(':')[0]!r} alone of {wrong!r}"
        yield Remark("error", "separator", sees, value=corrected(value))
        return
    if len(found.names) == 1 and found.names[0].lower() in _NO_NAMES:
        sees = f"NCCL knows no such word here: it looks for a name that begins with {found.names[0]!r}"
        yield Remark("warning", "not_a_name", sees)


def _address(text: str) -> bool:
    if _PCI.match(text):
        return True
    try:
        ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        return False
    return not text.strip().isdigit()


def corrected(value: str) -> str | None:
    """The list that was meant: signs once, in front; commas; no blanks, quotes, patterns. None: it isn't clear."""
    bare = re.split(r"\s*(?:#|//)", value.translate({ord(sign): None for sign in f"{_QUOTES}()\\"}))[0]
    bare = _GROUP.sub(_expanded, bare)
    parts = [part.replace("!", "^") for part in _PARTS.split(bare) if part.strip("^=!")]
    if not parts or bare.startswith("/"):
        return None
    excluded = [part.startswith(("^", "=^", "-", "~")) for part in parts]
    # a,^b: b is not in the list anyhow, unless a takes it too, which nobody writes.
    if not excluded[0]:
        parts = [part for part, out in zip(parts, excluded, strict=True) if not out]
    exact = any("=" in part[:2] for part in parts)
    names = [part.lstrip("^=~-") for part in parts]
    if not exact:
        names = [re.sub(r"(\.?[*+]|\$)$", "", name) for name in names]
    if not all(_NAME.fullmatch(name) for name in names):
        return None
    return "^" * excluded[0] + "=" * exact + ",".join(names)


def _expanded(group: re.Match[str]) -> str:
    before, braces, brackets, behind = group.groups()
    inner = braces or brackets
    run = re.fullmatch(r"(\d{1,4})(?:\.\.|-)(\d{1,4})", inner)
    if run:
        parts = [str(number) for number in range(int(run[1]), int(run[2]) + 1)]
    elif "," in inner or braces or not brackets.isalnum() or not before:
        parts = inner.split(",")
    else:
        parts = list(brackets)
    if len(parts) > _MOST_OF_GROUP:
        return group[0]
    return ",".join(f"{before}{part}{behind}" for part in parts)


def _devices(known: Known, found: Filter) -> Iterator[Remark]:
    """Names of the other kind, and what else is worth knowing of such a list."""
    sockets = known.name == "NCCL_SOCKET_IFNAME"
    if sockets:
        wrong = [name for name in found.names if _HCA.match(name)]
        sees = "is an RDMA device and no interface: NCCL finds no socket interface by it; it belongs into NCCL_IB_HCA"
    elif known.name == "NCCL_IB_HCA":
        wrong = [name for name in found.names if _INTERFACE.match(name)]
        sees = "is an interface and no RDMA device: NCCL finds no card by it"
        if len(wrong) == len(found.names):
            sees += ", and goes over TCP without a word"
    else:
        return
    if wrong and not found.excluded:
        yield Remark("warning", "other_device", f"{wrong[0]} {sees}")
    elif sockets and found.excluded:
        sees = (
            "NCCL takes what is left, in the kernel's order, virtual ones (br-…, veth…) too; =NAME takes that one alone"
        )
        yield Remark("info", "exclusion", sees)
    elif sockets and set(found.names) == {"lo"}:
        yield Remark("info", "loopback", "over lo no other host can be reached")
    elif not found.exact:
        wide = next((n for n in found.names for other in found.names if other != n and other.startswith(n)), None)
        if wide is not None:
            sees = f"a name takes all that begin with it, so {wide} alone takes both; ={wide} would be that one"
            yield Remark("info", "prefix", sees)


def names_remarks(known: Known, value: str, version: Version) -> Iterator[Remark]:
    """Of GLOO_SOCKET_IFNAME and TP_SOCKET_IFNAME, which have no signs, prefixes or blanks."""
    del version
    who = "Gloo" if known.side == "gloo" else "TensorPipe"
    looks = f"it looks for an interface {value!r}, and fails"
    bare = ",".join(part.strip().lstrip("=") for part in value.split(",") if part.strip())
    if "^" in value:
        yield Remark("error", "gloo_filter", f"^ means nothing to {who}: {looks}")
    elif "*" in value:
        yield Remark("error", "gloo_filter", f"{who} takes full names: {looks}")
    elif _address(value):
        yield Remark("error", "not_a_name", f"{who} takes names here and no addresses: {looks}")
    elif re.search(rf"[\s;|!()\\{_QUOTES}]", bare):
        meant = (corrected(value) or "^").removeprefix("=")
        right = None if meant.startswith("^") else meant
        yield Remark("error", "gloo_filter", f"{who} takes full names with commas between: {looks}", value=right)
    elif not any(not _HCA.match(part) for part in bare.split(",")):
        sees = f"{bare} is an RDMA device and no interface: {looks}"
        yield Remark("warning", "other_device", sees)
    elif bare != value and bare:
        wrong = next(part for part in value.split(",") if part != part.strip().lstrip("=") or not part)
        sees = f"{who} takes bare full names with commas between: it looks for an interface {wrong!r}, and fails"
        yield Remark("error", "gloo_filter", sees, value=bare)
    elif value == "lo":
        yield Remark("info", "loopback", "over lo no other host can be reached")
