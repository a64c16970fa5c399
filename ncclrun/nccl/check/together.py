"""Settings of one place that work against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ncclrun.nccl.catalogue.names import KNOWN
from ncclrun.nccl.check.remark import Remark
from ncclrun.nccl.values import as_read, number
from ncclrun.nccl.version import COMM_ID_INVERTED, Version

Values = Mapping[str, str]
MOST_SOCKETS = 64


def together_remarks(values: Values, version: Version) -> Iterator[tuple[str, Remark]]:
    """(name of the setting that it is said of, what)."""
    for rule in _RULES:
        yield from rule(values)
    if COMM_ID_INVERTED[0] <= version <= COMM_ID_INVERTED[1]:
        yield from _comm_id(values)


def _on(values: Values, name: str) -> bool:
    return as_read(KNOWN[name], values.get(name, "")) == "1"


def _no_infiniband(values: Values) -> Iterator[tuple[str, Remark]]:
    if _on(values, "NCCL_IB_DISABLE"):
        for name in ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX"):
            if values.get(name):
                yield name, Remark("info", "unused", "NCCL_IB_DISABLE=1 is set too, so nothing looks at it")
        if values.get("NCCL_NET", "").upper() == "IB":
            sees = "NCCL_IB_DISABLE=1 is set too: the only network that NCCL may use is switched off, and it fails"
            yield "NCCL_NET", Remark("error", "contradiction", sees)


def _silent(values: Values) -> Iterator[tuple[str, Remark]]:
    if not values.get("NCCL_DEBUG") and not values.get("NCCL_DEBUG_LEVELS"):
        for name in ("NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"):
            if values.get(name):
                yield name, Remark("info", "unused", "without NCCL_DEBUG, NCCL says nothing that it could apply to")


def _sockets(values: Values) -> Iterator[tuple[str, Remark]]:
    threads, each = (number(values.get(n) or "1").value for n in ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"))
    if threads and each and threads <= MOST_SOCKETS and each <= MOST_SOCKETS and threads * each > MOST_SOCKETS:
        sees = (
            f"times NCCL_SOCKET_NTHREADS it makes {threads * each} sockets a connection, and NCCL takes {MOST_SOCKETS}"
        )
        yield "NCCL_NSOCKS_PERTHREAD", Remark("warning", "out_of_range", sees)


def _no_p2p(values: Values) -> Iterator[tuple[str, Remark]]:
    if _on(values, "NCCL_P2P_DISABLE") and values.get("NCCL_P2P_LEVEL"):
        yield "NCCL_P2P_LEVEL", Remark("info", "unused", "NCCL_P2P_DISABLE=1 is set too, and counts before it")


def _bounds(values: Values) -> Iterator[tuple[str, Remark]]:
    for low, high in (("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"), ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS")):
        least, most = (number(values.get(name, "")).value for name in (low, high))
        if least and most and least > most:
            yield low, Remark("warning", "contradiction", f"it asks for more than {high} allows, {most}")


def _comm_id(values: Values) -> Iterator[tuple[str, Remark]]:
    """With an interface of its own NCCL does not look for one in that subnet."""
    if values.get("NCCL_COMM_ID") and not values.get("NCCL_SOCKET_IFNAME"):
        sees = "NCCL 2.29.2 to 2.29.7 take an interface that is not in its subnet, lo first; NCCL_SOCKET_IFNAME helps"
        yield "NCCL_COMM_ID", Remark("warning", "contradiction", sees)


def _gid(values: Values) -> Iterator[tuple[str, Remark]]:
    index = number(values.get("NCCL_IB_GID_INDEX") or "-1").value
    if index is not None and index >= 0:
        for name in ("NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_IB_ROCE_VERSION_NUM"):
            if values.get(name):
                yield name, Remark("info", "unused", "NCCL_IB_GID_INDEX is set too, so NCCL looks for no GID")
        return
    wanted = "AF_INET6" if values.get("NCCL_IB_ADDR_FAMILY") == "AF_INET6" else "AF_INET"
    subnet = values.get("NCCL_IB_ADDR_RANGE", "")
    if "/" in subnet and (":" in subnet) != (wanted == "AF_INET6"):
        sees = f"NCCL ignores it: NCCL_IB_ADDR_FAMILY is {wanted}, and this subnet is of the other family"
        yield "NCCL_IB_ADDR_RANGE", Remark("warning", "contradiction", sees)


def _two_names(values: Values) -> Iterator[tuple[str, Remark]]:
    """An old name of torch's beside the new one that says something else."""
    for name, value in values.items():
        known = KNOWN.get(name)
        other = values.get(known.instead) if known and known.side == "torch" else None
        if known and value and other and as_read(known, value) != as_read(KNOWN[known.instead], other):
            sees = f"{known.instead} is its new name, and says {other}; that counts"
            yield name, Remark("warning", "contradiction", sees)


_RULES: tuple[Callable[[Values], Iterator[tuple[str, Remark]]], ...] = (
    _no_infiniband,
    _silent,
    _sockets,
    _no_p2p,
    _bounds,
    _gid,
    _two_names,
)
