"""What rtnetlink's messages mean: addresses that last, default routes, what a link is a port of."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from ncclrun.node import interfaces, netlink


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def ipv6(text: str, flags: int) -> bytes:
    head = netlink.ADDRESS.pack(socket.AF_INET6, 64, flags & 0xFF, 253 if text.startswith("fe80") else 0, 7)
    packed = socket.inet_pton(socket.AF_INET6, text)
    return head + attribute(netlink.IFA_ADDRESS, packed) + number(netlink.IFA_FLAGS, flags)


def kept(*rows: tuple[str, int]) -> list[str]:
    """The addresses of an interface that are told, of these with their flags."""
    found = [netlink._address(ipv6(text, flags)) for text, flags in rows]
    return [row["address"] for row in netlink.lasting([one[1:] for one in found if one is not None])]


class TestAddresses:
    def test_a_temporary_one_gives_way_to_a_lasting_one(self) -> None:
        assert kept(("fd00::a", netlink.IFA_F_TEMPORARY), ("fd00::1", 0), ("fe80::1", 0)) == ["fd00::1", "fe80::1"]

    def test_a_temporary_one_is_better_than_none(self) -> None:
        assert kept(("fd00::a", netlink.IFA_F_TEMPORARY), ("fe80::1", 0)) == ["fd00::a", "fe80::1"]

    def test_a_deprecated_one_gives_way_too(self) -> None:
        assert kept(("fd00::a", netlink.IFA_F_DEPRECATED), ("fd01::1", 0)) == ["fd01::1"]

    @pytest.mark.parametrize("flag", [netlink.IFA_F_TENTATIVE, netlink.IFA_F_DADFAILED])
    def test_one_that_is_not_ours_yet_is_not_told(self, flag: int) -> None:
        assert kept(("fd00::1", flag)) == []

    def test_an_optimistic_one_can_be_used_at_once(self) -> None:
        assert kept(("fd00::1", netlink.IFA_F_TENTATIVE | netlink.IFA_F_OPTIMISTIC)) == ["fd00::1"]

    def test_a_secondary_ipv4_address_stays(self) -> None:
        head = netlink.ADDRESS.pack(socket.AF_INET, 24, netlink.IFA_F_TEMPORARY, 0, 7)
        found = netlink._address(head + attribute(netlink.IFA_LOCAL, bytes([10, 0, 0, 5])))
        assert found is not None
        assert (found[1]["address"], found[2]) == ("10.0.0.5", True)

    def test_on_a_point_to_point_link_ours_is_told_and_not_the_other_end(self) -> None:
        head = netlink.ADDRESS.pack(socket.AF_INET, 32, 0, 0, 7)
        ends = attribute(netlink.IFA_ADDRESS, bytes([10, 0, 0, 2])) + attribute(netlink.IFA_LOCAL, bytes([10, 0, 0, 1]))
        found = netlink._address(head + ends)
        assert found is not None
        assert found[1]["address"] == "10.0.0.1"


class TestRoutes:
    @staticmethod
    def route(attributes: bytes, *, bits: int = 0, table: int = netlink.RT_TABLE_MAIN, kind: int = 1) -> set[int]:
        return netlink._default(netlink.ROUTE.pack(socket.AF_INET, bits, 0, 0, table, 3, 0, kind, 0) + attributes)

    def test_a_default_route_names_its_interface(self) -> None:
        assert self.route(number(netlink.RTA_OIF, 4)) == {4}

    def test_one_of_several_hops_names_them_all(self) -> None:
        hops = b"".join(netlink.NEXT_HOP.pack(16, 0, 0, index) + number(5, 0) for index in (4, 6))
        assert self.route(attribute(netlink.RTA_MULTIPATH, hops)) == {4, 6}

    def test_other_routes_do_not_count(self) -> None:
        out = number(netlink.RTA_OIF, 4)
        assert self.route(out, bits=24) == self.route(out, table=100) == self.route(out, kind=7) == set()
        assert self.route(out + number(netlink.RTA_TABLE, 1000)) == set()

    def test_without_netlink_proc_tells(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(interfaces, "PROC_NET", tmp_path)
        head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        rows = [
            "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0",
            "eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0",
        ]
        (tmp_path / "route").write_text(head + "\n".join(rows) + "\n")
        zero, tail = "0" * 32, "00000400 00000001 00000000 00000003"
        lines = [f"{zero} 00 {zero} 00 {zero} {tail} {name}" for name in ("eth2", "lo")]
        (tmp_path / "ipv6_route").write_text("\n".join(lines) + "\n")
        assert interfaces._proc_routes({"lo": 1, "eth0": 2, "eth1": 3, "eth2": 4}) == {2, 4}


def test_a_link_is_told_with_its_type_and_whether_it_has_one_other_end() -> None:
    head = netlink.LINK.pack(0, 65534, 9, 0x1 | 0x10 | 0x40, 0)
    info = attribute(netlink.IFLA_LINKINFO, attribute(netlink.IFLA_INFO_KIND, b"wireguard\0"))
    link = netlink._link(head + attribute(netlink.IFLA_IFNAME, b"wg0\0") + number(netlink.IFLA_MTU, 1420) + info)
    told: dict[str, Any] = interfaces.complete({**link, "master": ""}, [], {9})
    assert (told["kind"], told["link_type"], told["point_to_point"], told["default_route"]) == (
        "wireguard",
        "none",
        True,
        True,
    )


@pytest.mark.parametrize(
    ("arphrd", "word"), [(1, "ether"), (32, "infiniband"), (772, "loopback"), (768, "none"), (803, "other")]
)
def test_link_types_have_words(arphrd: int, word: str) -> None:
    assert interfaces._link_type(arphrd) == word
