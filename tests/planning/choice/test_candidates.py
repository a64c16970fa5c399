"""Each kind of interface: fit to carry the nodes' talk, or not and why; from facts as such hosts give them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ncclrun.model.facts import Interface, RdmaDevice, RdmaPort
from ncclrun.planning.choice.candidates import Candidate, all_candidates
from tests.planning.makers import card, facts, node

ETH0 = card("eth0", "10.0.0.1/24")


def candidate(*cards: Interface, address: str, wish: dict[str, Any] | None = None, **fields: Any) -> Candidate:
    """The candidate with that address, of a host with these interfaces."""
    (row,) = all_candidates([node("a", **(wish or {}))], [facts("a", *cards, **fields)])
    return next(c for c in row if c.address == address)


class TestFit:
    """Kinds that carry it well."""

    @pytest.mark.parametrize(
        "interface",
        [
            card("eth1", "10.1.0.1/24"),
            card("bond0", "10.1.0.1/24", kind="bond", virtual=True, lower=("eth0",)),
            card("eth0.7", "10.1.0.1/24", kind="vlan", virtual=True, lower=("eth0",)),
            card("mv0", "10.1.0.1/24", kind="macvlan", virtual=True, lower=("eth0",)),
            card("ib0", "10.1.0.1/24", link_type="infiniband"),
            card("wg0", "10.1.0.1/24", kind="wireguard", virtual=True, link_type="none", point_to_point=True),
            card("tun0", "10.1.0.1/32", kind="tun", virtual=True, link_type="none", point_to_point=True),
            card("ens4", "10.1.0.1/32"),
            card("ens5", "10.1.0.1/31"),
            card("d1", "10.1.0.1/24", kind="veth", virtual=True),
            card("eth3", "10.1.0.1/24", master="vrf-blue"),
        ],
        ids=lambda interface: interface.name,
    )
    def test_it_is_usable(self, interface: Interface) -> None:
        vrf = card("vrf-blue", kind="vrf", virtual=True)
        assert candidate(ETH0, interface, vrf, address="10.1.0.1").rejected == ""

    def test_a_bridge_with_a_card_in_it(self) -> None:
        bridge = card("br0", "10.1.0.1/24", kind="bridge", virtual=True, lower=("eth1", "vnet0"))
        ports = (card("eth1", master="br0"), card("vnet0", virtual=True, kind="tun", master="br0"))
        assert candidate(ETH0, bridge, *ports, address="10.1.0.1").rejected == ""

    def test_a_bridge_over_a_bond_of_cards(self) -> None:
        bridge = card("br0", "10.1.0.1/24", kind="bridge", virtual=True, lower=("bond0",))
        bond = card("bond0", kind="bond", virtual=True, master="br0", lower=("eth1",))
        assert candidate(ETH0, bridge, bond, card("eth1", master="bond0"), address="10.1.0.1").rejected == ""

    def test_a_bridge_with_the_default_route(self) -> None:
        bridge = card("br0", "10.1.0.1/24", kind="bridge", virtual=True, default_route=True)
        assert candidate(ETH0, bridge, address="10.1.0.1").rejected == ""

    def test_a_bridge_that_has_the_hosts_only_address(self) -> None:
        bridge = card("br0", "10.1.0.1/24", kind="bridge", virtual=True, lower=("d1",))
        port = card("d1", kind="veth", virtual=True, master="br0")
        docker = card("docker0", "172.17.0.1/16", kind="bridge", virtual=True)
        assert candidate(bridge, port, docker, address="10.1.0.1").rejected == ""

    @pytest.mark.parametrize(("port", "outward"), [("enp7s0", True), ("veth12ab", False), ("", False)])
    def test_a_bridge_without_a_card_is_left_to_proof_and_comes_after_cards(self, port: str, outward: bool) -> None:
        bridge = card("br0", "10.1.0.1/24", kind="bridge", virtual=True, lower=(port,) if port else ())
        ports = [card(port, kind="veth", virtual=True, master="br0")] if port else []
        found = candidate(ETH0, bridge, *ports, address="10.1.0.1")
        assert (found.rejected, found.quality.outward) == ("", outward)

    def test_a_direct_cable_without_dhcp_is_only_second_best(self) -> None:
        cable = candidate(card("eth1", "169.254.1.1/16", scope="link"), address="169.254.1.1")
        assert (cable.rejected, cable.link_local) == ("", True)


class TestUnfit:
    """Kinds that end in their own host, or nowhere."""

    @pytest.mark.parametrize(
        ("interface", "reason"),
        [
            (card("eth1", "10.1.0.1/24", up=False), "interface is down"),
            (card("eth1", "10.1.0.1/24", running=False), "interface has no carrier"),
            (card("a,b", "10.1.0.1/24"), "NCCL and Gloo take the comma in the interface's name for two names"),
            (card("docker0", "10.1.0.1/24", kind="bridge", default_route=True), "container or VM bridge"),
            (card("br-0123456789ab", "10.1.0.1/24", kind="bridge"), "container or VM bridge"),
            (card("virbr0", "10.1.0.1/24", kind="bridge", lower=("eth0",)), "container or VM bridge"),
            (card("cni0", "10.1.0.1/24", kind="bridge"), "container or VM bridge"),
            (card("veth12ab", "10.1.0.1/24", kind="veth"), "container or VM bridge"),
            (card("eth1", "10.1.0.1/24", master="bond0"), "a port of bond0, which takes what arrives here"),
        ],
        ids=lambda value: value.name if isinstance(value, Interface) else "",
    )
    def test_it_is_rejected_with_the_reason(self, interface: Interface, reason: str) -> None:
        assert candidate(ETH0, interface, address="10.1.0.1").rejected.startswith(reason)

    @pytest.mark.parametrize("wish", [None, "10.200.0.1"])
    def test_a_service_address_on_the_loopback_is_one_that_nccl_can_not_be_told(self, wish: str | None) -> None:
        lo = card("lo", "127.0.0.1/8", "10.200.0.1/32", loopback=True)
        ((_, found, *_),) = all_candidates([node("a", address=wish)], [replace(facts("a"), interfaces=(lo, ETH0))])
        assert (found.address, found.rejected) == ("10.200.0.1", "on lo, of which NCCL takes 127.0.0.1")
        assert "  sudo ip addr del 10.200.0.1/32 dev lo\n  sudo ip addr add 10.200.0.1/32 dev dummy0" in found.mend

    def test_ipv6_link_local_even_if_it_is_wished_for(self) -> None:
        wished = candidate(card("e", "fe80::1/64", scope="link"), address="fe80::1", wish={"interface": "e"})
        assert wished.rejected.startswith("link-local: nobody else can use it")

    def test_loopback(self) -> None:
        assert candidate(ETH0, address="127.0.0.1").rejected == "loopback: ends in this host"

    @pytest.mark.parametrize("name", ["docker0", "br1", "port0"])
    def test_a_wish_goes_over_the_kind(self, name: str) -> None:
        interface = card(name, "10.1.0.1/24", kind="bridge", master="bond0" if name == "port0" else "")
        assert candidate(ETH0, interface, address="10.1.0.1", wish={"interface": name}).rejected == ""

    def test_an_address_that_another_machine_has(self) -> None:
        rows = all_candidates([node("a"), node("b")], [facts("a", ETH0), facts("b", ETH0)])
        assert [c.rejected for row in rows for c in row if c.interface == "eth0"] == [
            "b has the same address",
            "a has the same address",
        ]


class TestQuality:
    """What speaks for one address more than for another."""

    @pytest.mark.parametrize(
        ("interface", "speed"),
        [
            (card("eth1", "10.1.0.1/24", speed=25000), 25000),
            (card("eth1", "10.1.0.1/24", speed=None), 0),
            (card("eth1", "10.1.0.1/24", speed=-1), 0),
            (card("tun0", "10.1.0.1/24", speed=10, kind="tun"), 0),
            (card("d0", "10.1.0.1/24", speed=10000, kind="veth"), 0),
            (card("wg0", "10.1.0.1/24", speed=10, link_type="none"), 0),
            (card("bond0", "10.1.0.1/24", speed=50000, kind="bond"), 50000),
            (card("br0", "10.1.0.1/24", speed=10000, kind="bridge", lower=("d1", "eth0")), 1000),
        ],
        ids=lambda value: value.name if isinstance(value, Interface) else "",
    )
    def test_speed_is_that_of_a_wire(self, interface: Interface, speed: int) -> None:
        cards = (card("eth0", speed=1000), card("d1", speed=10000, kind="veth", virtual=True))
        assert candidate(*cards, interface, address="10.1.0.1").quality.speed == speed

    def test_rdma_counts_for_a_vlan_on_the_card_as_well(self) -> None:
        port = RdmaPort(1, "ACTIVE", "Ethernet", 100.0, netdevs=("eth0",))
        vlan = card("eth0.7", "10.1.0.1/24", kind="vlan", virtual=True, lower=("eth0",))
        rdma = (RdmaDevice("mlx5_0", (port,)),)
        assert candidate(ETH0, vlan, address="10.1.0.1", rdma=rdma).quality.rdma
        assert candidate(ETH0, vlan, address="10.0.0.1", rdma=rdma).quality.rdma
        assert not candidate(ETH0, card("eth1", "10.1.0.1/24"), address="10.1.0.1", rdma=rdma).quality.rdma
        assert not candidate(ETH0, vlan, address="10.0.0.1", rdma=rdma, verbs="no libibverbs.so.1").quality.rdma

    def test_the_networks_of_ssh_and_of_the_default_route_are_known(self) -> None:
        route = card("eth1", "10.1.0.1/24", default_route=True)
        cards = (ETH0, route, card("eth2", "10.2.0.1/24"))
        apart = [
            candidate(*cards, address=address, ssh_address="10.0.0.1").quality.apart
            for address in ("10.0.0.1", "10.1.0.1", "10.2.0.1")
        ]
        assert apart == [False, False, True]


class TestAnnounced:
    """NCCL takes an interface's first address of a family."""

    @pytest.mark.parametrize(
        ("addresses", "instead"),
        [
            (("10.1.0.1/24", "192.168.1.5/24"), ""),
            (("192.168.1.5/24", "10.1.0.1/24"), "192.168.1.5"),
            (("192.168.1.5/24", "10.1.0.9/24", "10.1.0.1/24"), "192.168.1.5"),
            (("fd00::1/64", "10.1.0.1/24"), ""),
        ],
    )
    def test_one_that_is_not_the_first_names_the_one_that_is(self, addresses: tuple[str, ...], instead: str) -> None:
        assert candidate(ETH0, card("eth1", *addresses), address="10.1.0.1").instead == instead

    def test_of_ipv6_the_first_that_is_not_link_local(self) -> None:
        interface = card("eth1", "fe80::1/64", "fd00::1/64", "fd00::2/64")
        assert candidate(interface, address="fd00::1").instead == ""
        assert candidate(interface, address="fd00::2").instead == "fd00::1"
