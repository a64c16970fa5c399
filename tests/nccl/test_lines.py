"""NCCL's lines, in every wording from 2.4 to 2.32, as data."""

from __future__ import annotations

import pytest

from ncclrun.nccl import lines
from ncclrun.nccl.lines import NetLine, Place

INFO = "node1:41:77 [0] NCCL INFO "


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("Bootstrap : Using eth1:10.0.0.1<0>", Place("eth1", "10.0.0.1", 0)),
        ("Bootstrap: Using bond0.2093:10.0.0.1<0>", Place("bond0.2093", "10.0.0.1", 0)),
        ("Bootstrap : Using [0]ens5:10.31.0.7<0> [1]veth0:fe80::1%veth0<0>", Place("ens5", "10.31.0.7", 0)),
        ("Bootstrap: Using eth0:fd00::2<0>", Place("eth0", "fd00::2", 0)),
        ("Bootstrap: Using eth0:[fd00::2]<4567>", Place("eth0", "fd00::2", 4567)),
        ("Bootstrap: Using eth0:fe80::a%eth0<0>", Place("eth0", "fe80::a", 0)),
        ("Bootstrap: Using eth0:1:10.0.0.1<0>", Place("eth0:1", "10.0.0.1", 0)),
        ("Bootstrap : no socket interface found", None),
        ("Bootstrap timings total 0.000123", None),
    ],
)
def test_bootstrap_lines(text: str, place: Place | None) -> None:
    assert lines.bootstrap_line(INFO + text) == place


@pytest.mark.parametrize(
    ("text", "net"),
    [
        (
            "NET/Socket : Using [0]eth1:10.0.0.1<0> [1]eth0:fd00::2<0>",
            NetLine("Socket", (("eth1", "10.0.0.1"), ("eth0", "fd00::2"))),
        ),
        (
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_bond_0:1/RoCE [RO]; OOB eth1:10.0.0.1<0>",
            NetLine("IB", (("mlx5_0:1", "IB"), ("mlx5_bond_0:1", "RoCE")), Place("eth1", "10.0.0.1", 0)),
        ),
        (
            "NET/IB : Using [0]mlx5_0:1/RoCE ; OOB eth0:10.7.0.12<0>",
            NetLine("IB", (("mlx5_0:1", "RoCE"),), Place("eth0", "10.7.0.12", 0)),
        ),
        ("NET/IB : Using [RO]; OOB eth1:10.0.0.1<0>", NetLine("IB", (), Place("eth1", "10.0.0.1", 0))),
        ("NET/IB : No device found.", NetLine("IB", ())),
        ("NET/Socket : no interface found", NetLine("Socket", ())),
        ("NET/Plugin: Using internal network plugin.", None),
        ("NET/Plugin: Could not find: libnccl-net.so", None),
    ],
)
def test_net_lines(text: str, net: NetLine | None) -> None:
    assert lines.net_line(INFO + text) == net


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("NCCL_SOCKET_IFNAME set by environment to =eth0", ("NCCL_SOCKET_IFNAME", "=eth0")),
        ("NCCL_SOCKET_IFNAME set to eth1  # my card", ("NCCL_SOCKET_IFNAME", "eth1  # my card")),
        ("NCCL_NVLS_ENABLE set by environment to 0.", ("NCCL_NVLS_ENABLE", "0")),
        ("NCCL_COMM_ID set by environment to 10.0.0.1:4567", ("NCCL_COMM_ID", "10.0.0.1:4567")),
        ("NCCL_TOPO_FILE set by environment to /etc/t.", ("NCCL_TOPO_FILE", "/etc/t.")),
        ("P2P Chunksize set to 131072", None),
    ],
)
def test_settings(text: str, setting: tuple[str, str] | None) -> None:
    assert lines.setting_line(INFO + text) == setting
