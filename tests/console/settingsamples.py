"""Nodes with settings, for tests of how these look."""

from __future__ import annotations

from ncclrun.model.effective import Effective, Hidden
from ncclrun.model.events import Event
from ncclrun.model.settingevents import ConfDiff, SettingDiffers, SettingsSeen
from ncclrun.nccl.effective import differences

SYSTEM = "/etc/nccl.conf"


def node_name(rank: int) -> str:
    return f"gpu{rank + 1}"


def seen(rank: int, *, interface: str = "eth1", disable: str | None = "0", debug: str = "WARN") -> SettingsSeen:
    """A node whose file says more than its environment lets through."""
    values = [
        Effective(
            name="NCCL_DEBUG",
            value=debug,
            source="nccl.env in the cluster file",
            origin="run",
            hides=(
                Hidden(value="INFO", source="/home/me/.bashrc", line=12),
                Hidden(value="VERSION", source=SYSTEM, line=3),
            ),
        ),
        Effective(name="NCCL_SOCKET_IFNAME", value=f"={interface}", source="network choice", origin="run"),
    ]
    if disable is not None:
        values.append(Effective(name="NCCL_IB_DISABLE", value=disable, source=SYSTEM, origin="system", line=1))
    return SettingsSeen(
        node=node_name(rank), node_rank=rank, nccl="2.27.5", files=(SYSTEM,), values=tuple(sorted(values, key=by_name))
    )


def by_name(value: Effective) -> str:
    return value.name


def with_differences(nodes: list[SettingsSeen]) -> list[Event]:
    """The nodes, and what differs between them."""
    found = differences({node.node: {value.name: value for value in node.values} for node in nodes})
    return [*nodes, *(SettingDiffers(nnodes=len(nodes), difference=one) for one in found)]


def conf_diff(rank: int, *, interface: str = "eth1", changed: bool = True) -> ConfDiff:
    """A pushed interface."""
    hidden = Hidden(value="eth0", source=SYSTEM, line=1)
    name, value = "NCCL_SOCKET_IFNAME", f"={interface}"
    lines = (f"--- {SYSTEM}", f"+++ {SYSTEM}", "@@ -1 +1,2 @@", f"+{name}={value}", f" {name}=eth0")
    hides = Effective(name=name, value=value, source=SYSTEM, origin="system", line=4, hides=(hidden,))
    return ConfDiff(
        node=node_name(rank),
        node_rank=rank,
        path=SYSTEM,
        diff=lines if changed else (),
        hides=(hides,) if changed else (),
    )
